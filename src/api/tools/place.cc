#include "api/tools/place.h"

#include <algorithm>

#include "api/run_request.h"
#include "api/session_access.h"
#include "api/session_files.h"

namespace hutch {
namespace {

constexpr std::string_view kNew = "new";
constexpr std::string_view kWorkspace = "/workspace";
constexpr auto kIdleTime = std::chrono::minutes(20);  // of a session that nobody made on purpose
const std::pair<std::string, std::string> kMadeByTool{"made_by", "tool"};

bool is_ours(const Session& session) {
  const auto found = session.settings().labels.find(kMadeByTool.first);
  return found != session.settings().labels.end() && found->second == kMadeByTool.second;
}

// Models forget sessions; the one that was not used for longest makes room.
net::awaitable<void> make_room(ToolCall& call) {
  const auto sessions = call.daemon.hub.sessions_of(call.caller.key.id);
  if (sessions.size() < call.daemon.settings.sessions_per_key) co_return;
  std::shared_ptr<Session> oldest;
  for (const auto& session : sessions) {
    if (!is_ours(*session) || session->state() == SessionState::busy || session->queued() > 0) continue;
    if (!oldest || session->last_used_ns < oldest->last_used_ns) oldest = session;
  }
  if (oldest) co_await call.daemon.hub.end_session(oldest, "another was needed");
}

}  // namespace

net::awaitable<Api<std::shared_ptr<Session>>> make_session(ToolCall& call) {
  co_await make_room(call);
  HUTCH_API_TRY(auto asked, read_session({}, call.daemon.settings, call.caller.key));
  asked.settings.labels.insert(kMadeByTool);
  asked.settings.ttl = kIdleTime;
  co_return co_await start_session(call.daemon, call.caller, std::move(asked));
}

net::awaitable<Api<std::shared_ptr<Session>>> place_of(ToolCall& call) {
  const std::string id = text_argument(call, "session_id");
  if (id.empty() && call.without_session == WithoutSession::fresh_sandbox) co_return nullptr;
  if (id.empty() || id == kNew) co_return co_await make_session(call);
  auto session = co_await open_session(call.daemon, call.caller, id);
  if (session) co_return session;
  ApiError error = session.error();
  if (error.category == "session_not_found") {
    error.hint = "Its variables and files are gone. Call again without session_id to get a new session.";
  }
  co_return std::unexpected(std::move(error));
}

net::awaitable<Api<std::shared_ptr<Session>>> existing_session(ToolCall& call) {
  const std::string id = text_argument(call, "session_id");
  if (id.empty() || id == kNew)
    co_return std::unexpected(bad_request("Invalid arguments: session_id names no session."));
  co_return co_await place_of(call);
}

net::awaitable<Api<std::shared_ptr<Session>>> session_of(ToolCall& call) {
  HUTCH_API_TRY(auto session, co_await place_of(call));
  if (session) co_return session;
  co_return co_await make_session(call);
}

net::awaitable<Api<std::shared_ptr<Session>>> session_for_files(ToolCall& call) {
  const std::string id = text_argument(call, "session_id");
  if (id.empty() || id == kNew) {
    HUTCH_API_CHECK(call.daemon.may_run(call.caller));
  }
  co_return co_await session_of(call);
}

Api<std::string> workspace_path(std::string_view path, bool may_be_empty) {
  if (path == kWorkspace) path = "";
  if (path.starts_with(kWorkspace) && path[kWorkspace.size()] == '/') path.remove_prefix(kWorkspace.size() + 1);
  while (path.starts_with("./")) path.remove_prefix(2);
  while (path.ends_with('/') && path.size() > 1) path.remove_suffix(1);
  if (path == "." || path == "/") path = "";
  if (path.starts_with('/')) {
    return std::unexpected(ApiError{.status = 400,
                                    .category = "file_error",
                                    .code = "invalid_path",
                                    .message = "Only files in /workspace can be reached.",
                                    .hint = "Name the file as /workspace/NAME, or NAME alone."});
  }
  std::string relative(path);
  if (auto checked = check_path(relative, may_be_empty); !checked) return std::unexpected(checked.error());
  return relative;
}

bool has_argument(const ToolCall& call, std::string_view name) { return call.arguments.contains(name); }

std::string text_argument(const ToolCall& call, std::string_view name, std::string otherwise) {
  const auto* found = call.arguments.if_contains(name);
  return found != nullptr && found->is_string() ? std::string(found->get_string()) : otherwise;
}

bool flag_argument(const ToolCall& call, std::string_view name) {
  const auto* found = call.arguments.if_contains(name);
  return found != nullptr && found->is_bool() && found->get_bool();
}

std::int64_t number_argument(const ToolCall& call, std::string_view name, std::int64_t otherwise) {
  const auto* found = call.arguments.if_contains(name);
  if (found == nullptr || !found->is_number()) return otherwise;
  return static_cast<std::int64_t>(found->to_number<double>());  // checked: small enough
}

}  // namespace hutch
