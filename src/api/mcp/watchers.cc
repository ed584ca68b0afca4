#include "api/mcp/watchers.h"

#include "api/mcp/resource_uri.h"
#include "api/tools/run_result.h"

namespace hutch::mcp {
namespace {

std::string_view method_of(Watchers::List list) {
  switch (list) {
    case Watchers::List::tools:
      return "notifications/tools/list_changed";
    case Watchers::List::prompts:
      return "notifications/prompts/list_changed";
    case Watchers::List::resources:
      return "notifications/resources/list_changed";
  }
  return "";
}

bool wants(const Wishes& wishes, Watchers::List list) {
  switch (list) {
    case Watchers::List::tools:
      return wishes.tools;
    case Watchers::List::prompts:
      return wishes.prompts;
    case Watchers::List::resources:
      return wishes.resources;
  }
  return false;
}

}  // namespace

std::size_t Watchers::count(std::string_view key_id) const {
  return static_cast<std::size_t>(
      std::ranges::count_if(watchers_, [&](const auto& entry) { return entry.second.key_id == key_id; }));
}

void Watchers::tell(const Watcher& watcher, std::string_view method, json::object params) {
  if (watcher.subscription) params["_meta"] = json::object{{kMetaSubscription, *watcher.subscription}};
  watcher.notify(notification(method, std::move(params)));
}

void Watchers::tell_of_run(const LiveRun& run) {
  const auto& session = run.identity().session_id;
  if (session.empty() || run.files().empty()) return;
  bool other_files = false;
  for (const auto& file : run.files()) {
    other_files = other_files || file.change != wire::Change::modified;
    const std::string uri = file_uri(session, file.path);
    for (const auto& [ticket, watcher] : watchers_) {
      if (watcher.key_id != run.identity().key_id || !watcher.wishes().uris.contains(uri)) continue;
      tell(watcher, "notifications/resources/updated", {{"uri", uri}});
    }
  }
  if (other_files) tell_of_list(List::resources, run.identity().key_id);
}

void Watchers::tell_of_list(List list, std::string_view key_id) {
  for (const auto& [ticket, watcher] : watchers_) {
    if (watcher.key_id == key_id && wants(watcher.wishes(), list)) tell(watcher, method_of(list), {});
  }
}

Rpc<void> subscribe(Wishes& wishes, const std::string& uri, const KnowsResource& knows) {
  if (uri.size() > kLongestUri || (!parse_address(uri) && !(knows && knows(uri)))) {
    return refuse(kInvalidParams, "Invalid params: there can be no resource with that uri");
  }
  if (wishes.uris.contains(uri)) return {};
  if (wishes.uris.size() >= kMostSubscribed) {
    return refuse(kInvalidParams, "This client has subscribed to 1,000 resources already.");
  }
  std::size_t bytes = uri.size();
  for (const auto& other : wishes.uris) bytes += other.size();
  if (bytes > kMostSubscribedBytes) {
    return refuse(kInvalidParams, "What this client has subscribed to would be longer than 256 KiB.");
  }
  wishes.uris.insert(uri);
  return {};
}

Rpc<Wishes> read_wishes(const json::object& notifications, const KnowsResource& knows) {
  const auto flag = [&](std::string_view name) {
    const auto* value = notifications.if_contains(name);
    return value != nullptr && value->is_bool() && value->get_bool();
  };
  Wishes wishes{.tools = flag("toolsListChanged"),
                .prompts = flag("promptsListChanged"),
                .resources = flag("resourcesListChanged")};
  const auto* uris = notifications.if_contains("resourceSubscriptions");
  if (uris == nullptr) return wishes;
  if (!uris->is_array() || uris->get_array().size() > kMostSubscribed) {
    return refuse(kInvalidParams, "resourceSubscriptions must be an array of at most 1,000 addresses");
  }
  for (const auto& uri : uris->get_array()) {
    if (!uri.is_string()) return refuse(kInvalidParams, "resourceSubscriptions must be an array of addresses");
    auto subscribed = subscribe(wishes, std::string(std::string_view(uri.get_string())), knows);
    if (!subscribed) return std::unexpected(std::move(subscribed).error());
  }
  return wishes;
}

json::object write_wishes(const Wishes& wishes) {
  json::object result;
  if (wishes.tools) result["toolsListChanged"] = true;
  if (wishes.prompts) result["promptsListChanged"] = true;
  if (wishes.resources) result["resourcesListChanged"] = true;
  if (!wishes.uris.empty()) {
    json::array uris;
    for (const auto& uri : wishes.uris) uris.emplace_back(uri);
    result["resourceSubscriptions"] = std::move(uris);
  }
  return result;
}

}  // namespace hutch::mcp
