// The sessions of a caller, as an agent sees them.
#include "api/run_json.h"
#include "api/session_access.h"
#include "api/tools/handlers.h"
#include "api/tools/place.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostTold = 100;

}  // namespace

net::awaitable<Api<ToolResult>> list_sessions_tool(ToolCall& call) {
  json::array sessions;
  std::string text;
  for (const auto& session : call.daemon.hub.sessions_of(call.caller.key.id)) {
    if (sessions.size() >= kMostTold) break;
    const json::object all = session_object(*session);
    sessions.push_back(json::object{{"session_id", all.at("id")},
                                    {"state", all.at("state")},
                                    {"execution_count", all.at("execution_count")},
                                    {"expires_at", all.at("expires_at")}});
    text += std::string(all.at("id").as_string()) + " (" + std::string(all.at("state").as_string()) + ")\n";
  }
  ToolResult result{.text = text.empty() ? "There are no sessions." : text};
  result.structured = {{"status", "ok"}, {"sessions", std::move(sessions)}};
  co_return result;
}

net::awaitable<Api<ToolResult>> reset_session_tool(ToolCall& call) {
  const std::string id = text_argument(call, "session_id");
  HUTCH_API_TRY(const auto session, find_session(call.daemon, call.caller, id));
  if (auto restarted = co_await session->restart(); !restarted) {
    co_return std::unexpected(from_failure(restarted.error()));
  }
  ToolResult result{.text = "The interpreter of " + id + " is new: variables are gone, files are kept."};
  result.structured = {{"status", "ok"}, {"session_id", id}};
  co_return result;
}

net::awaitable<Api<ToolResult>> close_session_tool(ToolCall& call) {
  const std::string id = text_argument(call, "session_id");
  HUTCH_API_TRY(const auto session, find_session(call.daemon, call.caller, id));
  co_await call.daemon.hub.end_session(session, "closed by its agent");
  ToolResult result{.text = "The session " + id + " is closed; its variables and files are gone."};
  result.structured = {{"status", "ok"}, {"session_id", id}};
  co_return result;
}

}  // namespace hutch
