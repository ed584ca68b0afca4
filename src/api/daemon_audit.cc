// What the operator can find out afterwards, and how much of it.
#include "api/daemon.h"
#include "base/log.h"
#include "base/utf8.h"

namespace hutch {
namespace {

constexpr std::size_t kMostRefusalsNoted = 100;     // in a minute
constexpr std::size_t kMostRefusalsLogged = 1000;   // in a minute
constexpr std::size_t kMostAuditEntries = 100'000;  // and as many older ones about keys

}  // namespace

void Daemon::audit(const std::string& key_id, std::string_view action, const std::string& target,
                   const std::string& detail) {
  if (auto kept = stores.audit.append(system_now_ns(), key_id, action, target, detail); !kept) {
    log::error("audit not stored", {{"key", key_id}, {"action", std::string(action)}, {"error", kept.error().message}});
  }
}

// Whoever guesses keys is seen, and cannot fill the log.
void Daemon::note_refusal(const HttpExchange& exchange, const std::string& code) {
  if (++refusals_ > kMostRefusalsNoted) return;
  audit(exchange.key_id, "request_refused", printable(exchange.request().path.substr(0, 200)), code);
}

// Under the id that the client was told. Requests cost nothing, lines take room: a flood is only counted.
void Daemon::log_refusal(const HttpExchange& exchange, const std::string& code) {
  if (++logged_refusals_ > kMostRefusalsLogged) return;
  const bool is_stranger = exchange.status == 401 || exchange.status == 403 || exchange.status == 421;
  const auto tell = is_stranger ? log::warning : log::info;
  tell("request refused", {{"request", exchange.request_id},
                           {"status", std::to_string(exchange.status)},
                           {"code", code},
                           {"key", exchange.key_id},
                           {"session", exchange.session_id},
                           {"run", exchange.run_id}});
}

// Any program can make a forbidden call, and a tenant can start many.
void Daemon::note_denied_calls(const StoredRun& run, const std::string& first) {
  if (denied_runs_.take(run.key_id)) audit(run.key_id, "calls_denied", run.id, first);
}

void Daemon::tidy_audit() {
  if (refusals_ > kMostRefusalsNoted) {
    audit("", "more_refused", "", std::to_string(refusals_ - kMostRefusalsNoted) + " requests");
  }
  refusals_ = 0;
  if (logged_refusals_ > kMostRefusalsLogged) {
    log::info("more requests refused", {{"count", std::to_string(logged_refusals_ - kMostRefusalsLogged)}});
  }
  logged_refusals_ = 0;
  for (const auto& [key_id, count] : denied_runs_.take_rest()) {
    audit(key_id, "more_denied", "", std::to_string(count) + " runs");
  }
  if (auto kept = stores.audit.keep_newest(kMostAuditEntries); !kept) {
    log::error("audit log not cut", {{"error", kept.error().message}});
  }
}

}  // namespace hutch
