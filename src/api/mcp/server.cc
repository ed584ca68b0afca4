#include "api/mcp/server.h"

#include <charconv>

namespace hutch::mcp {
namespace {

constexpr std::size_t kPage = 100;
constexpr std::size_t kMostListeners = 100;  // of one key
constexpr std::int64_t kListTtl = 60'000;
constexpr std::int64_t kDiscoverTtl = 3'600'000;
constexpr auto kLook = std::chrono::seconds(1);

constexpr std::string_view kInstructions =
    "Runs Python and shell commands in a sandbox without network. The first run makes a session and returns its "
    "session_id; pass it again to keep variables and files. Files live in /workspace; those that a run leaves are "
    "listed "
    "in its result and can be read as resources. A run that takes longer than 45 seconds is answered with status "
    "`running`: ask for the rest with get_execution.";

json::object capabilities() {
  return {{"tools", {{"listChanged", true}}},
          {"resources", {{"subscribe", true}, {"listChanged", true}}},
          {"prompts", {{"listChanged", true}}},
          {"completions", json::object{}},
          {"logging", json::object{}}};
}

// For how long, and by whom, a result may be kept.
Reply cached(Reply reply, const Call& call, std::int64_t ttl, std::string_view scope) {
  if (!reply || !call.modern()) return reply;
  if (const auto* type = reply->if_contains("resultType"); type != nullptr && *type != "complete") return reply;
  (*reply)["ttlMs"] = ttl;
  (*reply)["cacheScope"] = scope;
  return reply;
}

Reply unknown_method(const std::string& method) { return refuse(kMethodNotFound, "Method not found: " + method, 404); }

}  // namespace

void Call::log(std::string_view level, std::string text) const {
  const auto least = modern() ? meta.log_level : std::optional(legacy != nullptr ? legacy->log_level : 0);
  if (!least || log_level(level).value_or(0) < *least) return;
  notify(notification("notifications/message", {{"level", level}, {"logger", "hutch"}, {"data", std::move(text)}}));
}

Reply page_of(json::array items, std::string_view field, const json::object& params) {
  std::size_t begin = 0;
  if (const auto* cursor = params.if_contains("cursor")) {
    const std::string_view text = cursor->is_string() ? std::string_view(cursor->get_string()) : "?";
    const auto [at, problem] = std::from_chars(text.data(), text.data() + text.size(), begin);
    const bool whole = problem == std::errc{} && at == text.data() + text.size();
    if (!text.empty() && (!whole || begin > items.size())) return refuse(kInvalidParams, "Invalid cursor");
    if (text.empty()) begin = 0;
  }
  const std::size_t end = std::min(begin + kPage, items.size());
  const auto first = items.begin();
  json::object result{
      {field, json::array(first + static_cast<std::ptrdiff_t>(begin), first + static_cast<std::ptrdiff_t>(end))}};
  if (end < items.size()) result["nextCursor"] = std::to_string(end);
  return result;
}

Server::Server(Daemon& daemon, ServerOptions options) : daemon_(daemon), options_(std::move(options)) {
  // Behind whoever stores the result: what is told of can be read.
  daemon.hub.on_run_finished = [this, store = std::move(daemon.hub.on_run_finished)](LiveRun& run) {
    if (store) store(run);
    watchers.tell_of_run(run);
  };
}

json::object Server::information() const {
  return {{"name", "hutch"}, {"title", "Hutch code interpreter"}, {"version", daemon_.version}};
}

bool Server::offers(const Tool& tool, const Caller& caller) const {
  if (!has_scope(caller, tool.scope)) return false;
  if (options_.tools.empty()) return tool.everyday;
  return std::ranges::any_of(options_.tools, [&](const auto& name) { return name == "all" || name == tool.name; });
}

Rpc<json::object> Server::initialize(const json::object& params, LegacyState& state) {
  const auto asked = find_text(params, "protocolVersion");
  if (!asked) return refuse(kInvalidParams, "Invalid params: protocolVersion is missing");
  if (const auto* given = find_object(params, "capabilities")) state.capabilities = names_of(*given);
  const std::string version = speaks_legacy(*asked) ? *asked : std::string(kLegacyVersions.front());
  return json::object{{"protocolVersion", version},
                      {"capabilities", capabilities()},
                      {"serverInfo", information()},
                      {"instructions", kInstructions}};
}

net::awaitable<Reply> Server::answer(RpcRequest request, Call& call) {
  Reply reply = co_await answer_both(request.method, request.params, call);
  if (!reply || !call.modern()) co_return reply;
  if (!reply->contains("resultType")) (*reply)["resultType"] = "complete";
  auto& meta = (*reply)["_meta"];
  if (!meta.is_object()) meta = json::object{};
  meta.get_object()[kMetaServerInfo] = information();
  co_return reply;
}

net::awaitable<Reply> Server::answer_both(const std::string& method, json::object& params, Call& call) {
  if (extra_) {
    if (auto reply = co_await extra_->answer(method, params, call)) {
      co_return method == "resources/read" ? cached(std::move(*reply), call, 0, "private") : std::move(*reply);
    }
  }
  if (method == "tools/list") {
    json::array tools = tool_definitions(*this, call.caller);
    if (extra_) extra_->add_tools(tools);
    co_return cached(page_of(std::move(tools), "tools", params), call, kListTtl, "private");
  }
  if (method == "tools/call") co_return co_await call_tool(*this, params, call);
  if (method == "resources/list") {
    json::array resources;
    if (extra_) extra_->add_resources(resources);
    for (auto& resource : co_await list_resources(call)) resources.push_back(std::move(resource));
    co_return cached(page_of(std::move(resources), "resources", params), call, 0, "private");
  }
  if (method == "resources/templates/list") {
    json::array templates = resource_templates();
    if (extra_) extra_->add_templates(templates);
    co_return cached(page_of(std::move(templates), "resourceTemplates", params), call, kListTtl, "public");
  }
  if (method == "resources/read") {
    const auto uri = find_text(params, "uri");
    if (!uri) co_return refuse(kInvalidParams, "Invalid params: uri must be a string");
    co_return cached(co_await read_resource(*uri, call), call, 0, "private");
  }
  if (method == "prompts/list") {
    json::array prompts = prompt_definitions();
    if (extra_) extra_->add_prompts(prompts);
    co_return cached(page_of(std::move(prompts), "prompts", params), call, kListTtl, "public");
  }
  if (method == "prompts/get") co_return get_prompt(params);
  if (method == "completion/complete") co_return co_await complete(params, call);
  if (!call.modern()) co_return co_await answer_legacy(method, params, call);
  if (method == "subscriptions/listen") co_return co_await listen(params, call);
  if (method != "server/discover") co_return unknown_method(method);
  json::object about{
      {"supportedVersions", supported_versions()}, {"capabilities", capabilities()}, {"instructions", kInstructions}};
  co_return cached(std::move(about), call, kDiscoverTtl, "public");
}

net::awaitable<Reply> Server::answer_legacy(const std::string& method, const json::object& params, Call& call) {
  if (method == "ping") co_return json::object{};
  if (method == "logging/setLevel") {
    const auto level = log_level(find_text(params, "level").value_or(""));
    if (!level) co_return refuse(kInvalidParams, "Invalid params: there is no such log level");
    call.legacy->log_level = *level;
    co_return json::object{};
  }
  if (method == "resources/subscribe" || method == "resources/unsubscribe") {
    const auto uri = find_text(params, "uri");
    if (!uri) co_return refuse(kInvalidParams, "Invalid params: uri must be a string");
    auto& wishes = call.legacy->wishes;
    if (method == "resources/unsubscribe") {
      wishes.uris.erase(*uri);
      co_return json::object{};
    }
    auto done = subscribe(wishes, *uri, [this](std::string_view other) { return knows_resource(other); });
    if (!done) co_return std::unexpected(std::move(done).error());
    co_return json::object{};
  }
  co_return unknown_method(method);
}

bool Server::knows_resource(std::string_view uri) const {
  if (!extra_) return false;
  json::array resources;
  extra_->add_resources(resources);
  return std::ranges::any_of(resources, [uri](const json::value& one) {
    return one.is_object() && find_text(one.get_object(), "uri") == uri;
  });
}

// Lasts until the client leaves or we do.
net::awaitable<Reply> Server::listen(json::object& params, Call& call) {
  const auto* asked = find_object(params, "notifications");
  if (asked == nullptr) co_return refuse(kInvalidParams, "Invalid params: notifications must be an object");
  auto wishes = read_wishes(*asked, [this](std::string_view uri) { return knows_resource(uri); });
  params = json::object();
  if (call.on_body_gone) call.on_body_gone();
  if (!wishes) co_return std::unexpected(wishes.error());
  if (watchers.count(call.caller.key.id) >= kMostListeners) {
    co_return refuse(kBusy, "This key has too many subscriptions.");
  }
  call.notify(
      notification("notifications/subscriptions/acknowledged",
                   {{"_meta", {{kMetaSubscription, call.request_id}}}, {"notifications", write_wishes(*wishes)}}));
  const auto ticket = watchers.add({.key_id = call.caller.key.id,
                                    .wishes = [held = std::move(*wishes)]() -> const Wishes& { return held; },
                                    .subscription = call.request_id,
                                    .notify = call.notify});
  while (!call.cancellation->cancelled() && !daemon_.stopping()) {
    co_await call.cancellation->wait_until(Clock::now() + kLook);
  }
  watchers.remove(ticket);
  co_return json::object{};
}

}  // namespace hutch::mcp
