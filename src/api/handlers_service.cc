// What operators and monitors ask.
#include <algorithm>
#include <boost/json.hpp>
#include <fstream>

#include "api/json_text.h"
#include "api/record_json.h"
#include "api/routes.h"
#include "base/utf8.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr unsigned char kOpenApi[] = {
#embed "../../docs/openapi.json"
};

template <class T>
json::value or_null(const std::optional<T>& value) {
  return value ? json::value(*value) : json::value(nullptr);
}

double resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::uint64_t size = 0;
  std::uint64_t resident = 0;
  file >> size >> resident;
  return static_cast<double>(resident) * 4096.0;
}

}  // namespace

net::awaitable<Handled> healthz(Request& request) {
  co_await request.exchange.answer({.body = R"({"status":"ok"})"});
  co_return Handled{};
}

net::awaitable<Handled> readyz(Request& request) {
  if (request.daemon.stopping() || request.daemon.engine.lost()) {
    co_await request.exchange.answer({.status = 503, .body = R"({"status":"stopping"})"});
  } else {
    co_await request.exchange.answer({.body = R"({"status":"ready"})"});
  }
  co_return Handled{};
}

net::awaitable<Handled> show_openapi(Request& request) {
  co_await request.exchange.answer({.body = std::string(reinterpret_cast<const char*>(kOpenApi), sizeof(kOpenApi))});
  co_return Handled{};
}

net::awaitable<Handled> show_metrics(Request& request) {
  Daemon& daemon = request.daemon;
  std::string text;
  daemon.metrics.print(text);
  const auto status = daemon.engine.status();
  print_metric(text, "hutch_running", "gauge", "Programs that run now.", status.running);
  print_metric(text, "hutch_waiting", "gauge", "Runs that wait for a place.", status.waiting);
  print_metric(text, "hutch_sessions", "gauge", "Sessions that are open.",
               static_cast<double>(daemon.hub.session_count()));
  print_metric(text, "hutch_sandboxes_dying", "gauge", "Sandboxes being taken apart.", status.dying);
  print_metric(text, "hutch_pool_ready", "gauge", "Sandboxes made in advance.", status.pool_ready);
  print_metric(text, "hutch_pool_hits_total", "counter", "Starts that found one.",
               static_cast<double>(status.pool_hits));
  print_metric(text, "hutch_pool_misses_total", "counter", "Starts that found none.",
               static_cast<double>(status.pool_misses));
  print_metric(text, "hutch_resident_bytes", "gauge", "Memory of the daemon itself.", resident_bytes());
  const std::int64_t day = 86'400'000'000'000;
  const auto users = daemon.stores.runs.distinct_keys(system_now_ns() - day);
  print_metric(text, "hutch_active_keys", "gauge", "Keys with runs in the last day.",
               users ? static_cast<double>(users->size()) : 0);
  co_await request.exchange.answer({.body = std::move(text), .content_type = "text/plain; version=0.0.4"});
  co_return Handled{};
}

net::awaitable<Handled> show_status(Request& request) {
  Daemon& daemon = request.daemon;
  const auto status = daemon.engine.status();
  json::array templates;
  for (const auto& name : status.templates) templates.emplace_back(name);
  const json::object body{
      {"version", daemon.version},
      {"uptime_ms", status.uptime_ms},
      {"runs", status.runs},
      {"running", status.running},
      {"waiting", status.waiting},
      {"sessions", daemon.hub.session_count()},
      {"dying", status.dying},
      {"pool", json::object{{"ready", status.pool_ready}, {"hits", status.pool_hits}, {"misses", status.pool_misses}}},
      {"templates", std::move(templates)},
      {"limits", status.limits}};
  co_await request.exchange.answer({.body = json_text(body)});
  co_return Handled{};
}

net::awaitable<Handled> show_audit(Request& request) {
  HUTCH_API_CHECK(request.only({"limit", "before"}));
  HUTCH_API_TRY(const auto limit, request.number("limit", 100, 1'000));
  HUTCH_API_TRY(const auto before, request.number("before", 0, ~0ULL >> 1));
  if (limit == 0) co_return std::unexpected(bad_request("limit must be from 1 to 1000"));
  auto entries = request.daemon.stores.audit.list(static_cast<std::int64_t>(before), limit + 1);
  if (!entries) co_return std::unexpected(ApiError{.message = "The audit log cannot be read."});
  const bool more = entries->size() > limit;
  if (more) entries->pop_back();
  json::array shown;
  for (const auto& entry : *entries) {
    shown.push_back(json::object{{"number", entry.sequence},
                                 {"time", timestamp(entry.time_ns)},
                                 {"key", entry.key_id.empty() ? json::value(nullptr) : json::value(entry.key_id)},
                                 {"action", entry.action},
                                 {"target", entry.target},
                                 {"detail", clean_utf8(entry.detail)}});
  }
  const json::value next = more ? json::value(entries->back().sequence) : json::value(nullptr);
  co_await request.exchange.answer({.body = json_text(json::object{{"entries", std::move(shown)}, {"next", next}})});
  co_return Handled{};
}

net::awaitable<Handled> list_templates(Request& request) {
  json::array templates;
  for (const auto& entry : request.daemon.engine.options().templates) {
    templates.push_back(
        json::object{{"name", entry.name}, {"default", entry.name == request.daemon.settings.template_name}});
  }
  co_await request.exchange.answer({.body = json_text(json::object{{"templates", std::move(templates)}})});
  co_return Handled{};
}

net::awaitable<Handled> show_usage(Request& request) {
  Daemon& daemon = request.daemon;
  const Key& key = request.caller.key;
  const std::string month = usage_month(system_now_ns());
  const auto used = daemon.stores.runs.usage(key.id, month);
  if (!used) co_return std::unexpected(ApiError{.message = "The usage cannot be read."});
  json::array scopes;
  if (key.scopes.run) scopes.emplace_back("run");
  if (key.scopes.files) scopes.emplace_back("files");
  if (key.scopes.admin) scopes.emplace_back("admin");
  const double share = daemon.budget_used(key);
  const json::value warning = share >= 1     ? json::value("What this key may use this month is used up.")
                              : share >= 0.8 ? json::value("More than 80% of what this key may use this month is used.")
                                             : json::value(nullptr);
  const json::object limits{{"concurrent_runs", or_null(key.limits.concurrent_runs)},
                            {"runs_per_minute", or_null(key.limits.runs_per_minute)},
                            {"memory_bytes", or_null(key.limits.memory_bytes)},
                            {"cpu_seconds_per_month", or_null(key.limits.cpu_seconds_per_month)},
                            {"budget_per_month", or_null(key.limits.budget_per_month)},
                            {"cache", key.limits.cache}};
  const json::object body{
      {"key", json::object{{"id", key.id}, {"name", key.name}, {"scopes", std::move(scopes)}, {"limits", limits}}},
      {"month", month},
      {"runs", used->runs},
      {"cpu_seconds", static_cast<double>(used->cpu_us) / 1e6},
      {"cost", used->cost},
      {"budget", or_null(key.limits.budget_per_month)},
      {"warning", warning}};
  co_await request.exchange.answer({.body = json_text(body)});
  co_return Handled{};
}

}  // namespace hutch
