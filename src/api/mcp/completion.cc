// completion/complete: the values that an argument of a template or of a prompt could have.
#include "api/mcp/resource_uri.h"
#include "api/mcp/server.h"
#include "api/session_files.h"

namespace hutch::mcp {
namespace {

constexpr std::size_t kMostValues = 100;
constexpr std::size_t kMostRuns = 100;

json::object completion_of(const std::vector<std::string>& candidates, const std::string& begin) {
  json::array values;
  std::size_t total = 0;
  for (const auto& candidate : candidates) {
    if (!candidate.starts_with(begin)) continue;
    if (++total <= kMostValues) values.emplace_back(candidate);
  }
  return {{"completion", {{"values", std::move(values)}, {"total", total}, {"hasMore", total > kMostValues}}}};
}

std::vector<std::string> sessions_of(const Call& call) {
  std::vector<std::string> ids;
  for (const auto& session : call.daemon.hub.sessions_of(call.caller.key.id)) ids.push_back(session->settings().id);
  return ids;
}

net::awaitable<std::vector<std::string>> files_of(std::string session_id, Call& call) {
  std::vector<std::string> paths;
  const auto session = call.daemon.hub.find_session(session_id, call.caller.key.id);
  if (!session || !session->has_sandbox() || !has_scope(call.caller, Scope::files)) co_return paths;
  const UniqueFd workspace = session->share_workspace();
  const Listing listing = co_await call.daemon.engine.workers().run(
      Workers::owner_of(call.caller.key.id),
      [&workspace] { return list_directory(workspace.get(), "", kDeepestListing); });
  for (const auto& entry : listing.entries) {
    if (!entry.is_object() || find_text(entry.get_object(), "type") != "file") continue;
    paths.push_back(find_text(entry.get_object(), "path").value_or(""));
  }
  co_return paths;
}

std::vector<std::string> runs_of(const std::string& session_id, const Call& call) {
  std::vector<std::string> ids;
  const auto stored = call.daemon.stores.runs.list(call.caller.key.id, {.session_id = session_id, .limit = kMostRuns});
  if (!stored) return ids;
  for (const auto& run : *stored) ids.push_back(run.id);
  return ids;
}

}  // namespace

net::awaitable<Reply> complete(const json::object& params, Call& call) {
  const auto* reference = find_object(params, "ref");
  const auto* argument = find_object(params, "argument");
  const auto type = reference != nullptr ? find_text(*reference, "type") : std::nullopt;
  const auto name = argument != nullptr ? find_text(*argument, "name") : std::nullopt;
  const auto value = argument != nullptr ? find_text(*argument, "value") : std::nullopt;
  if (!type || !name || !value || (*type != "ref/resource" && *type != "ref/prompt")) {
    co_return refuse(kInvalidParams, "Invalid params: ref and argument are needed");
  }
  std::string session_id;
  if (const auto* context = find_object(params, "context")) {
    if (const auto* known = find_object(*context, "arguments")) {
      session_id = find_text(*known, "session_id").value_or("");
    }
  }
  std::vector<std::string> candidates;
  if (*name == "session_id") candidates = sessions_of(call);
  if (*name == "path") candidates = co_await files_of(session_id, call);
  if (*name == "execution_id") candidates = runs_of(session_id, call);
  if (*name == "stream") candidates = {"stdout", "stderr"};
  co_return completion_of(candidates, *value);
}

}  // namespace hutch::mcp
