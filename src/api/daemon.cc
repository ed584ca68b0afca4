#include "api/daemon.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/post.hpp>
#include <boost/json.hpp>

#include "api/json_text.h"
#include "api/routes.h"
#include "api/run_json.h"
#include "base/id.h"
#include "base/log.h"
#include "base/utf8.h"

namespace hutch {
namespace {

constexpr auto kMinute = std::chrono::minutes(1);
constexpr auto kLook = std::chrono::milliseconds(200);
constexpr auto kPause = std::chrono::milliseconds(3);
constexpr std::int64_t kSecond = 1'000'000'000;

std::string_view name_of(Scope scope) {
  return scope == Scope::run ? "run" : scope == Scope::files ? "files" : scope == Scope::admin ? "admin" : "any";
}

// Its name without the port.
std::string_view bare_host(std::string_view host) {
  if (host.starts_with('[')) return host.substr(0, host.find(']') + 1);
  return host.substr(0, host.rfind(':'));
}

bool is_address(std::string_view host) {
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  boost::system::error_code failed;
  net::ip::make_address(std::string(host), failed);
  return !failed;
}

// Only what looks like an id of ours: the rest of an address is a stranger's text.
void note_names(HttpExchange& exchange, const std::vector<std::string>& parameters) {
  for (const auto& name : parameters) {
    if (is_id(name, "ses")) exchange.session_id = name;
    if (is_id(name, "exe")) exchange.run_id = name;
  }
}

void log_failure(const HttpExchange& exchange, std::string_view what, std::string error) {
  log::error(what, {{"request", exchange.request_id},
                    {"key", exchange.key_id},
                    {"session", exchange.session_id},
                    {"run", exchange.run_id},
                    {"error", std::move(error)}});
}

bool is_own_fault(const LiveRun& run) {
  return run.failure() && run.failure()->error.code != ErrorCode::disconnected &&
         run.failure()->retry_after.count() == 0;
}

}  // namespace

Daemon::Daemon(const ServeSettings& how, Engine& engine_, Stores& stores_, std::string version_)
    : settings(how),
      engine(engine_),
      stores(stores_),
      hub(engine_, {.caps = how.caps, .sessions_directory = how.data / "sessions"}),
      tools(how),
      version(std::move(version_)) {
  hub.on_run_finished = [this](LiveRun& run) {
    store_run(run);
    refuse_what_waits(run);
  };
  hub.on_session_changed = [this](Session& session) {
    const bool files = session.settings().persist;
    store_session(session, files ? "files_kept" : "lost");  // what is true of it if we die now
  };
  hub.on_cpu_used = [this](Session& session, std::uint64_t cpu_us) { charge(session, cpu_us); };
  hub.on_session_ended = [this](Session& session, std::string_view reason) {
    log::info(
        "session ended",
        {{"key", session.settings().key_id}, {"session", session.settings().id}, {"reason", std::string(reason)}});
    edits.erase(session.settings().id);
    audit(session.settings().key_id, "session_ended", session.settings().id, std::string(reason));
    if (auto removed = stores.sessions.remove(session.settings().id); !removed) {
      log::error("session not removed", {{"session", session.settings().id}, {"error", removed.error().message}});
    }
  };
}

net::awaitable<void> Daemon::handle(HttpExchange& exchange) {
  const auto begin = Clock::now();
  Handled handled;
  try {
    handled = co_await dispatch(exchange);
  } catch (const std::exception& failure) {  // a bug of ours, which must not cost a client its answer
    log_failure(exchange, "request threw", failure.what());
    if (exchange.answered()) throw;  // half an answer: hanging up is all that can be said
    handled = std::unexpected(ApiError{.message = "The daemon failed to answer this; its log has the reason.",
                                       .hint = "Report it with the request id."});
  }
  exchange.body_share.reset();  // nothing is left of the body
  if (!handled) {
    const unsigned failed = handled.error().status;
    if (failed == 500) log_failure(exchange, "request failed", handled.error().message);
    const bool of_a_file = handled.error().category == "file_error";
    if (failed == 401 || (failed == 403 && !of_a_file)) note_refusal(exchange, handled.error().code);
    if (!exchange.answered()) co_await exchange.answer(to_answer(handled.error(), exchange.request_id));
  }
  const unsigned status = exchange.status;
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count();
  ++metrics.answers_by_status[status];
  metrics.request_seconds.add(static_cast<double>(us) / 1e6);
  if (status >= 400 && status != 500) log_refusal(exchange, handled ? "" : handled.error().code);
}

Handled Daemon::check_origin(const HttpRequest& request) const {
  if (!request.repeated.empty() && std::ranges::find(request.repeated, "host") != request.repeated.end()) {
    return std::unexpected(bad_request("More than one Host header."));
  }
  const std::string_view host = request.header("host");
  if (!request.from_owner) {
    if (host.empty()) return std::unexpected(bad_request("The Host header is missing."));
    const std::string_view name = bare_host(host);
    const auto listed = [&](const std::string& known) { return known == host || known == name; };
    const bool own = is_loopback_host(host) || (public_listener && is_address(name));
    if (!own && std::ranges::none_of(settings.hosts, listed)) {
      return std::unexpected(ApiError{.status = 421,
                                      .category = "invalid_request",
                                      .code = "wrong_host",
                                      .message = "This daemon does not answer to that host name.",
                                      .hint = "The operator adds names with serve.hosts."});
    }
  }
  const std::string_view origin = request.header("origin");
  if (!origin.empty() && std::ranges::find(settings.origins, origin) == settings.origins.end()) {
    return std::unexpected(ApiError{.status = 403,
                                    .category = "unauthorized",
                                    .code = "origin_not_allowed",
                                    .message = "Pages of that origin may not call this daemon.",
                                    .hint = "The operator adds origins with serve.origins."});
  }
  return {};
}

net::awaitable<Handled> Daemon::dispatch(HttpExchange& exchange) {
  const auto& asked = exchange.request();
  HUTCH_API_CHECK(check_origin(asked));
  if (const auto origin = asked.header("origin"); !origin.empty()) {
    exchange.extra.emplace_back("Access-Control-Allow-Origin", std::string(origin));
    exchange.extra.emplace_back("Access-Control-Expose-Headers", "Mcp-Session-Id, X-Request-Id, Retry-After");
    exchange.extra.emplace_back("Vary", "Origin");
  }
  if (asked.headers.size() + asked.repeated.size() > 200) {
    co_return std::unexpected(ApiError{.status = 431,
                                       .category = "invalid_request",
                                       .code = "headers_too_large",
                                       .message = "More than 200 headers."});
  }
  if (asked.path.size() + asked.query.size() > 8 << 10) {
    co_return std::unexpected(ApiError{.status = 414,
                                       .category = "invalid_request",
                                       .code = "uri_too_long",
                                       .message = "The address is longer than 8 KiB."});
  }
  if (asked.method == Method::options && !asked.header("origin").empty()) {
    co_await exchange.answer(
        {.status = 204,
         .content_type = "",
         .headers = {{"Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE"},
                     {"Access-Control-Allow-Headers",
                      "Authorization, Content-Type, X-API-Key, Last-Event-ID, X-Request-Id, Mcp-Session-Id, "
                      "MCP-Protocol-Version, Mcp-Method, Mcp-Name"},
                     {"Access-Control-Max-Age", "600"}}});
    co_return Handled{};
  }
  Match found = find_route(asked.method, asked.path);
  if (found.route == nullptr && !found.allowed.empty()) {
    co_return std::unexpected(ApiError{.status = 405,
                                       .category = "invalid_request",
                                       .code = "method_not_allowed",
                                       .message = "That address does not take this method.",
                                       .allow = found.allowed});
  }
  if (found.route == nullptr) {
    co_return std::unexpected(ApiError{.status = 404,
                                       .category = "invalid_request",
                                       .code = "unknown_path",
                                       .message = "There is nothing at this address.",
                                       .hint = "GET /v1/openapi.json describes every address."});
  }
  note_names(exchange, found.parameters);
  Request request{.daemon = *this, .exchange = exchange, .parameters = std::move(found.parameters)};
  if (found.route->scope != Scope::none) {
    HUTCH_API_TRY(request.caller, authenticate(exchange));
    request.caller.request_id = exchange.request_id;
    exchange.key_id = request.caller.key.id;
    exchange.still_known = [this, key = request.caller.key] { return still_opens(key); };
    if (!has_scope(request.caller, found.route->scope)) {
      co_return std::unexpected(
          ApiError{.status = 403,
                   .category = "unauthorized",
                   .code = "forbidden",
                   .message = "This key may not do that.",
                   .hint = "It needs the scope `" + std::string(name_of(found.route->scope)) + "`."});
    }
  }
  auto query = parse_query(asked.query);
  if (!query) co_return std::unexpected(bad_request(query.error().message));
  request.query = std::move(*query);
  co_return co_await found.route->handler(request);
}

void Daemon::store_run(LiveRun& run) {
  const std::string status = status_of(run);
  run.rendered = run_text(run);
  run.rendered_events = events_text(run);
  if (run.failure() && run.failure()->retry_after.count() > 0 && !run.stored) return;  // it never was a run
  ++metrics.runs_by_status[status];
  if (is_own_fault(run)) {
    ++metrics.own_failures;
    log::error("run failed", {{"request", run.identity().request_id},
                              {"session", run.identity().session_id},
                              {"run", run.identity().id},
                              {"error", run.failure()->error.message}});
  }
  StoredRun stored{.id = run.identity().id,
                   .key_id = run.identity().key_id,
                   .session_id = run.identity().session_id,
                   .status = status,
                   .template_name = run.identity().template_name,
                   .created_ns = run.created_ns,
                   .started_ns = run.started_ns,
                   .finished_ns = run.finished_ns,
                   .execution_count = run.execution_count,
                   .cached = run.cached,
                   .record = run.rendered,
                   .events = run.rendered_events};
  if (run.record()) {
    const auto& record = *run.record();
    stored.cpu_us = record.usage.cpu_us;
    stored.wall_us = record.usage.wall_us;
    if (record.error) ++metrics.errors_by_category[record.error->category];
    for (const auto& denial : record.denials) metrics.denials_by_call[denial.syscall] += denial.count;
    if (!record.denials.empty()) note_denied_calls(stored, record.denials.front().syscall);
    const double cpu = static_cast<double>(record.usage.cpu_us) / 1e6;
    metrics.cpu_seconds_by_key[stored.key_id] += cpu;
    metrics.cost_by_key[stored.key_id] += cpu * settings.price_per_cpu_second;
    metrics.add_phases(record.phases, std::chrono::nanoseconds(run.started_ns - run.created_ns));
  }
  run.stored = true;
  if (auto done = stores.runs.finish(stored, settings.price_per_cpu_second); !done) {
    log::error("result not stored", {{"request", run.identity().request_id},
                                     {"session", stored.session_id},
                                     {"run", stored.id},
                                     {"error", done.error().message}});
  }
}

// Of a session whose key was revoked nothing more begins.
void Daemon::refuse_what_waits(const LiveRun& run) {
  const auto& key_id = run.identity().key_id;
  const auto session = hub.find_session(run.identity().session_id, key_id);
  if (!session || session->queued() == 0 || knows(key_id)) return;
  session->refuse_queued(make_error(ErrorCode::disconnected, "its key was revoked before it could run"));
}

void Daemon::store_session(Session& session, std::string_view state) {
  const auto& how = session.settings();
  boost::json::object labels;
  for (const auto& [name, value] : how.labels) labels[name] = value;
  boost::json::object environment;
  for (const auto& [name, value] : how.environment) environment[name] = clean_utf8(value);
  const boost::json::object options{
      {"limits", limits_object(how.limits)}, {"env", std::move(environment)}, {"unsaved", !session.saved()}};
  const std::int64_t used_ns = session.in_use_until_ns();
  const StoredSession stored{.id = how.id,
                             .key_id = how.key_id,
                             .name = how.name,
                             .labels = json_text(labels),
                             .template_name = how.template_name,
                             .mode = how.mode == wire::RunMode::ipython ? "ipython" : "plain",
                             .options = json_text(options),
                             .state = std::string(state),
                             .created_ns = session.created_ns,
                             .last_used_ns = used_ns,
                             .ttl_s = how.ttl.count(),
                             .max_age_s = how.max_age.count(),
                             .persist = how.persist,
                             .execution_count = session.execution_count};
  if (auto saved = stores.sessions.save(stored); !saved) {
    return log::error("session not stored", {{"session", how.id}, {"error", saved.error().message}});
  }
  session.stored_use_ns = used_ns;
}

// Runs that were under way are marked; sessions that keep their files are there again, without a sandbox until somebody
// needs one. The others stay in the store, so that whoever asks is told what became of them.
void Daemon::restore() {
  const auto marked = stores.runs.mark_interrupted(system_now_ns(), interrupted_text);
  if (!marked) log::error("runs not marked", {{"error", marked.error().message}});
  const auto sessions = stores.sessions.all();
  if (!sessions) return log::error("sessions not restored", {{"error", sessions.error().message}});
  std::size_t restored = 0;
  for (const auto& stored : *sessions) {
    if (!stored.persist) continue;
    boost::system::error_code failed;
    const auto options = boost::json::parse(stored.options, failed);
    const auto labels = boost::json::parse(stored.labels, failed);
    SessionSettings how{.id = stored.id,
                        .key_id = stored.key_id,
                        .name = stored.name,
                        .template_name = stored.template_name,
                        .mode = stored.mode == "ipython" ? wire::RunMode::ipython : wire::RunMode::shell,
                        .limits = limits_from(options, settings),
                        .weaker_limits = settings.weaker_limits,
                        .ttl = std::chrono::seconds(stored.ttl_s),
                        .max_age = std::chrono::seconds(stored.max_age_s),
                        .persist = true,
                        .saved_files = hub.saved_files_of(stored.id)};
    if (labels.is_object()) {
      for (const auto& [name, value] : labels.get_object()) {
        if (value.is_string()) how.labels[std::string(name)] = std::string(value.get_string());
      }
    }
    if (const auto* env = options.is_object() ? options.get_object().if_contains("env") : nullptr;
        env && env->is_object()) {
      for (const auto& [name, value] : env->get_object()) {
        if (value.is_string()) how.environment.emplace_back(std::string(name), std::string(value.get_string()));
      }
    }
    auto session = hub.add_session(std::move(how));
    session->created_ns = stored.created_ns;
    session->last_used_ns = session->stored_use_ns = stored.last_used_ns;
    session->execution_count = stored.execution_count;
    session->number_events_anew();
    if (options.is_object() && options.get_object().contains("unsaved") &&
        options.get_object().at("unsaved") == boost::json::value(true)) {
      session->note_unsaved();
    }
    ++restored;
  }
  hub.remove_orphans();
  log::info("restored",
            {{"interrupted_runs", std::to_string(marked.value_or(0))}, {"sessions", std::to_string(restored)}});
}

net::awaitable<void> Daemon::tend() {
  net::steady_timer timer(engine.executor());
  boost::system::error_code ignored;
  while (!stopping_) {
    timer.expires_after(tidy() ? kPause : kLook);
    co_await timer.async_wait(net::redirect_error(net::use_awaitable, ignored));
  }
}

// One small step of what nobody waits for; false when there is nothing more to do. Whoever is to be answered waits
// meanwhile.
bool Daemon::tidy() {
  if (note_long_runs() || note_uses()) return true;
  const auto flushed = stores.runs.flush_some();
  if (!flushed) log::error("results stay in the journal", {{"error", flushed.error().message}});
  if (flushed.value_or(false)) return true;
  if (Clock::now() < next_cleaning_) return false;
  const std::int64_t now = system_now_ns();
  const auto oldest = now - std::chrono::nanoseconds(settings.keep_runs).count();
  const auto removed = stores.runs.remove_older_than(oldest, settings.keep_most_runs);
  if (removed) {
    for (const auto& id : *removed) remove_run_files(id);
    if (removed->size() == RunStore::kMostRemovedAtOnce) return true;
  }
  forget_lost_sessions(now);
  tidy_audit();
  next_cleaning_ = Clock::now() + kMinute;
  return false;
}

// Those that take a while become known, a few at a time.
bool Daemon::note_long_runs() {
  constexpr std::size_t kMostAtOnce = 4;
  const std::int64_t now = system_now_ns();
  std::vector<LiveRun*> runs;
  hub.for_each_run([&](LiveRun& run) {
    const bool wanted = !run.stored && run.stage() != RunStage::finished && now - run.created_ns >= kSecond / 5;
    if (wanted && runs.size() < kMostAtOnce) runs.push_back(&run);
  });
  note_begun(runs);
  return !runs.empty();
}

// A session that is only asked about, or whose run goes on and on, is not stored otherwise, and would have expired for
// the next daemon if we are killed. What is stored is not much older than the truth; a session that is used all the
// time costs one small write in that time, and all together one transaction. True when there are more.
bool Daemon::note_uses() {
  constexpr std::int64_t kOldest = 2 * kSecond;
  constexpr std::size_t kMostAtOnce = 100;
  std::vector<SessionUse> uses;
  std::vector<Session*> used;
  hub.for_each_session([&](Session& session) {
    const std::int64_t used_ns = session.in_use_until_ns();
    if (used_ns - session.stored_use_ns < kOldest || used.size() == kMostAtOnce) return;
    uses.push_back({.id = session.settings().id, .last_used_ns = used_ns});
    used.push_back(&session);
  });
  if (used.empty()) return false;
  if (auto noted = stores.sessions.note_uses(uses); !noted) {
    log::error("uses of sessions not stored", {{"first", uses.front().id}, {"error", noted.error().message}});
    return false;
  }
  for (std::size_t i = 0; i < used.size(); ++i) used[i]->stored_use_ns = uses[i].last_used_ns;
  return used.size() == kMostAtOnce;
}

// Whoever asks for a session that a restart ended is told so, until it would have expired anyway.
void Daemon::forget_lost_sessions(std::int64_t now_ns) {
  const auto stored = stores.sessions.all();
  if (!stored) return;
  for (const auto& session : *stored) {
    if (session.expires_ns() < now_ns && !hub.find_session(session.id, session.key_id))
      std::ignore = stores.sessions.remove(session.id);
  }
}

void Daemon::note_begun(std::span<LiveRun* const> runs) {
  std::vector<StoredRun> begun;
  for (LiveRun* run : runs) {
    if (std::exchange(run->stored, true)) continue;
    begun.push_back({.id = run->identity().id,
                     .key_id = run->identity().key_id,
                     .session_id = run->identity().session_id,
                     .status = status_of(*run),
                     .template_name = run->identity().template_name,
                     .created_ns = run->created_ns,
                     .started_ns = run->started_ns});
  }
  if (begun.empty()) return;
  if (auto kept = stores.runs.begin(begun); !kept) {
    const auto& first = runs.front()->identity();
    log::error("runs not stored", {{"request", first.request_id},
                                   {"session", first.session_id},
                                   {"run", first.id},
                                   {"error", kept.error().message}});
  }
}

void Daemon::remove_run_files(const std::string& id) const {
  std::error_code ignored;
  for (const char* suffix : {".stdout", ".stderr", ".files"}) {
    std::filesystem::remove_all(settings.caps.directory / (id + suffix), ignored);
  }
}

}  // namespace hutch
