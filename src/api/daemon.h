// Everything a handler may need, in one place: sessions and runs, what is stored, who may do what. Owned by serve().
#pragma once

#include <array>
#include <boost/json/value.hpp>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "api/api_error.h"
#include "api/body_budget.h"
#include "api/http_exchange.h"
#include "api/metrics.h"
#include "api/scope.h"
#include "api/serve_settings.h"
#include "api/tools/registry.h"
#include "api/tools/text_edit.h"
#include "session/audit_log.h"
#include "session/hub.h"
#include "session/key_store.h"
#include "session/result_cache.h"
#include "session/run_store.h"
#include "session/session_store.h"

namespace hutch {

namespace mcp {
class HttpEndpoint;
}

struct Stores {
  KeyStore keys;
  RunStore runs;
  SessionStore sessions;
  ResultCache cache;
  AuditLog audit;
};

// Who asks, as found by its key.
struct Caller {
  Key key;
  std::string request_id;  // for the log; empty: no HTTP
};

// The user of this machine who started us.
Caller local_caller();
bool has_scope(const Caller& caller, Scope scope);

// The limits that a stored session had.
wire::RunLimits limits_from(const boost::json::value& options, const ServeSettings& settings);

// Whoever watches files holds a copy, so that it is known how many do.
using WatchToken = std::shared_ptr<const std::monostate>;

class Daemon {
 public:
  Daemon(const ServeSettings& settings, Engine& engine, Stores& stores, std::string version);

  // Routes, checks, answers; never fails.
  net::awaitable<void> handle(HttpExchange& exchange);

  // Before anything that costs a run: the key's own limits.
  Handled may_run(const Caller& caller);
  // Before what costs processor time and is no run: whether the key has any left.
  Handled may_spend(const Caller& caller);
  [[nodiscard]] double budget_used(const Key& key);  // 1: all of it
  // So that it is known if we die before it ends.
  void note_begun(std::span<LiveRun* const> runs);
  void note_begun(LiveRun& run) { note_begun(std::array{&run}); }

  void restore();  // what the last daemon left
  void store_session(Session& session, std::string_view state);
  net::awaitable<void> tend();  // forgets what is old, keeps the database short
  // What happened to whom, for the operator.
  void audit(const std::string& key_id, std::string_view action, const std::string& target,
             const std::string& detail = {});
  void begin_stop() { stopping_ = true; }
  [[nodiscard]] bool stopping() const { return stopping_; }

  const ServeSettings& settings;
  Engine& engine;
  Stores& stores;
  Hub hub;
  Metrics metrics;
  std::map<std::string, EditHistory> edits;   // that can be undone, by session
  std::map<std::string, WatchToken> watches;  // of files, by key
  // What the outputs of all notebooks that are being run may take: those of one key 512 MiB, when others have none.
  const std::shared_ptr<BodyBudget> notebook_outputs =
      std::make_shared<BodyBudget>(BodyCaps{.all = 1U << 30, .small = 1U << 20});
  const ToolRegistry tools;
  const std::string version;
  bool public_listener = false;                     // others than this machine can reach us
  std::shared_ptr<mcp::HttpEndpoint> mcp_endpoint;  // made when the first client comes

 private:
  Api<Caller> authenticate(const HttpExchange& exchange);
  bool knows(const std::string& key_id);
  bool still_opens(const Key& key);
  Result<std::optional<Key>> look_up(const std::string& key_id);
  Handled check_origin(const HttpRequest& request) const;
  net::awaitable<Handled> dispatch(HttpExchange& exchange);
  void store_run(LiveRun& run);
  void refuse_what_waits(const LiveRun& run);
  void charge(Session& session, std::uint64_t cpu_us);
  bool tidy();
  bool note_long_runs();
  bool note_uses();
  void forget_lost_sessions(std::int64_t now_ns);
  void note_denied_calls(const StoredRun& run, const std::string& first);
  void tidy_audit();
  void note_refusal(const HttpExchange& exchange, const std::string& code);
  void log_refusal(const HttpExchange& exchange, const std::string& code);
  void remove_run_files(const std::string& id) const;

  std::map<std::string, std::deque<Clock::time_point>> recent_runs_;  // of the last minute, by key
  Clock::time_point next_cleaning_ = Clock::now();
  Clock::time_point next_complaint_ = Clock::now();  // about keys that cannot be read
  std::size_t refusals_ = 0, logged_refusals_ = 0;   // since the last cleaning
  AuditQuota denied_runs_{10};                       // of each key
  bool stopping_ = false;
};

}  // namespace hutch
