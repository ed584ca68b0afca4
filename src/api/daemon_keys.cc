// Who asks, and how much of it they may.
#include <algorithm>

#include "api/daemon.h"
#include "base/log.h"

namespace hutch {
namespace {

constexpr std::string_view kLocalKey = "local";
constexpr auto kMinute = std::chrono::minutes(1);
constexpr auto kComplaintPause = std::chrono::seconds(1);  // everything that lasts looks every second or two

ApiError unauthorized(std::string code, std::string message) {
  return {.status = 401,
          .category = "unauthorized",
          .code = std::move(code),
          .message = std::move(message),
          .hint = "Send the header Authorization: Bearer hutch_...; `hutch key create` makes a key."};
}

std::unexpected<ApiError> refuse(std::string code, std::string message, std::chrono::milliseconds after) {
  return std::unexpected(ApiError{.status = 429,
                                  .category = "rate_limited",
                                  .code = std::move(code),
                                  .message = std::move(message),
                                  .hint = "Wait as long as Retry-After says.",
                                  .retry_after = after});
}

}  // namespace

Caller local_caller() {
  return {
      .key = {.id = std::string(kLocalKey), .name = "local", .scopes = {.run = true, .files = true, .admin = true}}};
}

bool has_scope(const Caller& caller, Scope scope) {
  switch (scope) {
    case Scope::none:
    case Scope::any:
      return true;
    case Scope::run:
      return caller.key.scopes.run;
    case Scope::files:
      return caller.key.scopes.files;
    case Scope::admin:
      return caller.key.scopes.admin;
  }
  return false;
}

Api<Caller> Daemon::authenticate(const HttpExchange& exchange) {
  const auto& request = exchange.request();
  std::string_view presented = request.header("authorization");
  if (presented.starts_with("Bearer ") || presented.starts_with("bearer ")) {
    presented.remove_prefix(7);
  } else if (!presented.empty()) {
    return std::unexpected(unauthorized("bad_token", "The Authorization header is not of the form `Bearer KEY`."));
  } else {
    presented = request.header("x-api-key");
  }
  if (presented.empty() && request.from_owner) return local_caller();
  if (presented.empty()) return std::unexpected(unauthorized("missing_token", "A key is needed."));
  auto key = stores.keys.find(presented);
  if (!key) {
    log::error("keys cannot be read", {{"request", exchange.request_id}, {"error", key.error().message}});
    return std::unexpected(ApiError{.message = "The keys cannot be read."});
  }
  if (!*key) return std::unexpected(unauthorized("bad_token", "That key is not known, or was revoked."));
  return Caller{.key = std::move(**key)};
}

// Of what has been let in: nothing when its key was revoked. An error says nothing about that, and ends nothing.
Result<std::optional<Key>> Daemon::look_up(const std::string& key_id) {
  auto key = stores.keys.get(key_id);
  if (!key && Clock::now() >= next_complaint_) {
    log::error("keys cannot be read", {{"key", key_id}, {"error", key.error().message}});
    next_complaint_ = Clock::now() + kComplaintPause;
  }
  return key;
}

// Whether it still counts.
bool Daemon::knows(const std::string& key_id) {
  if (key_id == kLocalKey) return true;
  const auto key = look_up(key_id);
  return !key || key->has_value();
}

// Whether the secret that was presented for it still counts, too.
bool Daemon::still_opens(const Key& key) {
  if (key.id == kLocalKey) return true;
  const auto now = look_up(key.id);
  return !now || (now->has_value() && (*now)->secret_sha256 == key.secret_sha256);
}

double Daemon::budget_used(const Key& key) {
  const auto& limits = key.limits;
  if (!limits.budget_per_month && !limits.cpu_seconds_per_month) return 0;
  const auto used = stores.runs.usage(key.id, usage_month(system_now_ns()));
  if (!used) return 0;
  double share = 0;
  if (limits.cpu_seconds_per_month) {
    share = static_cast<double>(used->cpu_us) / 1e6 / std::max(1.0, static_cast<double>(*limits.cpu_seconds_per_month));
  }
  if (limits.budget_per_month && *limits.budget_per_month > 0) {
    share = std::max(share, used->cost / *limits.budget_per_month);
  }
  return share;
}

Handled Daemon::may_spend(const Caller& caller) {
  if (budget_used(caller.key) < 1) return {};
  return refuse("budget_exhausted", "This key has used up what it may use this month.", std::chrono::hours(1));
}

Handled Daemon::may_run(const Caller& caller) {
  if (stopping_) return std::unexpected(shutting_down());
  if (const auto full = engine.refusal()) return std::unexpected(from_failure(*full));
  const auto& limits = caller.key.limits;
  const std::uint32_t most_at_once = limits.concurrent_runs.value_or(settings.concurrent_runs);
  if (caller.key.id != kLocalKey && hub.running(caller.key.id) >= most_at_once) {
    return refuse("too_many_concurrent", "This key has " + std::to_string(most_at_once) + " runs under way already.",
                  std::chrono::seconds(1));
  }
  if (auto left = may_spend(caller); !left) return left;
  const std::uint32_t by_default = public_listener && caller.key.id != kLocalKey ? settings.runs_per_minute : 0;
  const std::uint32_t per_minute = limits.runs_per_minute.value_or(by_default);
  if (per_minute == 0) return {};
  auto& recent = recent_runs_[caller.key.id];
  const auto now = Clock::now();
  while (!recent.empty() && recent.front() + kMinute < now) recent.pop_front();
  if (recent.size() >= per_minute) {
    return refuse("rate_limited", "This key may start " + std::to_string(per_minute) + " runs a minute.",
                  std::chrono::duration_cast<std::chrono::milliseconds>(recent.front() + kMinute - now) +
                      std::chrono::milliseconds(1));
  }
  recent.push_back(now);
  return {};
}

// What a session uses beside its runs is its key's as well. A key that has nothing left runs nothing beside them.
void Daemon::charge(Session& session, std::uint64_t cpu_us) {
  const auto& id = session.settings().key_id;
  const double price = settings.price_per_cpu_second;
  if (auto kept = stores.runs.charge(id, usage_month(system_now_ns()), cpu_us, price); !kept) {
    log::error("usage not stored", {{"key", id}, {"session", session.settings().id}, {"error", kept.error().message}});
  }
  metrics.cpu_seconds_by_key[id] += static_cast<double>(cpu_us) / 1e6;
  metrics.cost_by_key[id] += static_cast<double>(cpu_us) / 1e6 * price;
  if (id == kLocalKey) return;
  const auto key = look_up(id);
  if (!key || (*key && budget_used(**key) < 1)) return;
  log::info("session stopped between runs", {{"key", id}, {"session", session.settings().id}});
  session.stop_between_runs();
}

}  // namespace hutch
