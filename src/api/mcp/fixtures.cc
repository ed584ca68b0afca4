#include "api/mcp/fixtures.h"

#include <openssl/hmac.h>
#include <sys/random.h>

#include "api/base64.h"
#include "api/json_text.h"
#include "api/mcp/fixture_data.h"
#include "api/mcp/server.h"

namespace hutch::mcp {
namespace {

constexpr auto kPause = std::chrono::milliseconds(50);

json::value parsed(const char* text) {
  boost::system::error_code failed;
  return json::parse(text, failed);
}

void append(json::array& to, const char* text) {
  const auto items = parsed(text);
  if (items.is_array()) to.insert(to.end(), items.get_array().begin(), items.get_array().end());
}

json::object text_block(std::string_view text) { return {{"type", "text"}, {"text", text}}; }
json::object picture_block() { return {{"type", "image"}, {"data", kFixturePicture}, {"mimeType", "image/png"}}; }
json::object resource_block(std::string_view uri, std::string_view type, std::string_view text) {
  return {{"type", "resource"}, {"resource", {{"uri", uri}, {"mimeType", type}, {"text", text}}}};
}
json::object content(std::initializer_list<json::value_ref> blocks) { return {{"content", json::array(blocks)}}; }
json::object says(std::string_view text) { return content({text_block(text)}); }
json::object user_says(json::object block) { return {{"role", "user"}, {"content", std::move(block)}}; }

json::object elicitation(std::string_view message, std::string_view field, std::string_view type = "string") {
  return {{"method", "elicitation/create"},
          {"params",
           {{"mode", "form"},
            {"message", message},
            {"requestedSchema",
             {{"type", "object"}, {"properties", {{field, {{"type", type}}}}}, {"required", json::array{field}}}}}}};
}
json::object sampling(std::string_view text, int tokens) {
  return {{"method", "sampling/createMessage"},
          {"params", {{"messages", json::array{user_says(text_block(text))}}, {"maxTokens", tokens}}}};
}
json::object roots() { return {{"method", "roots/list"}, {"params", json::object{}}}; }

json::object needs(json::object requests, std::optional<std::string> state = {}) {
  json::object result{{"resultType", "input_required"}, {"inputRequests", std::move(requests)}};
  if (state) result["requestState"] = *state;
  return result;
}

// What a client carries for us between two rounds, so that it cannot change it.
class Seal {
 public:
  Seal() {
    if (::getrandom(key_, sizeof(key_), 0) != sizeof(key_)) std::abort();
  }
  [[nodiscard]] std::string close(const json::object& state) const {
    const std::string text = base64_encode(json_text(state));
    return text + "." + mark(text);
  }
  [[nodiscard]] Rpc<json::object> open(std::string_view sealed) const {
    const auto dot = sealed.rfind('.');
    const auto text = sealed.substr(0, dot);
    if (dot == std::string_view::npos || mark(text) != sealed.substr(dot + 1)) {
      return refuse(kInvalidParams, "requestState was not made here");
    }
    boost::system::error_code failed;
    auto state = json::parse(base64_decode(text).value_or(""), failed);
    if (failed || !state.is_object()) return refuse(kInvalidParams, "requestState was not made here");
    return std::move(state.get_object());
  }

 private:
  [[nodiscard]] std::string mark(std::string_view text) const {
    unsigned char digest[EVP_MAX_MD_SIZE];
    unsigned int size = 0;
    ::HMAC(::EVP_sha256(), key_, sizeof(key_), reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest,
           &size);
    return base64_encode({reinterpret_cast<const char*>(digest), size});
  }
  unsigned char key_[32];
};

class Fixtures final : public Catalogue {
 public:
  explicit Fixtures(Server& server) : server_(server) {}

  void add_tools(json::array& tools) const override {
    for (const std::string_view name : kFixtureTools) {
      json::object tool{{"name", name}, {"description", "For conformance tests"}};
      tool["inputSchema"] = name == "json_schema_2020_12_tool"
                                ? parsed(kFixtureSchema)
                                : json::object{{"type", "object"}, {"additionalProperties", false}};
      tools.push_back(std::move(tool));
    }
  }
  void add_resources(json::array& resources) const override { append(resources, kFixtureResources); }
  void add_templates(json::array& templates) const override { append(templates, kFixtureTemplates); }
  void add_prompts(json::array& prompts) const override { append(prompts, kFixturePrompts); }

  net::awaitable<std::optional<Reply>> answer(const std::string& method, const json::object& params,
                                              Call& call) override {
    if (method == "resources/read") co_return read(find_text(params, "uri").value_or(""));
    const std::string name = find_text(params, "name").value_or("");
    if (method == "prompts/get") co_return prompt(name, params);
    if (method != "tools/call" || std::ranges::find(kFixtureTools, name) == std::end(kFixtureTools)) {
      co_return std::nullopt;
    }
    if (name == "test_tool_with_progress") co_return co_await with_progress(call);
    if (name == "test_tool_with_logging" || name == "test_logging_tool") co_return co_await with_logging(call);
    if (name.starts_with("test_input_required_result_")) co_return asks_back(name, params, call);
    co_return plain(name, call);
  }

 private:
  static std::optional<Reply> read(const std::string& uri) {
    constexpr std::string_view kBegin = "test://template/";
    constexpr std::string_view kEnd = "/data";
    json::object found{{"uri", uri}, {"mimeType", "text/plain"}};
    if (uri == "test://static-text") {
      found["text"] = "This is the content of the static text resource.";
    } else if (uri == "test://watched-resource") {
      found["text"] = "Watched.";
    } else if (uri == "test://static-binary") {
      found["mimeType"] = "image/png";
      found["blob"] = kFixturePicture;
    } else if (uri.starts_with(kBegin) && uri.ends_with(kEnd) && uri.size() > kBegin.size() + kEnd.size()) {
      const std::string id = uri.substr(kBegin.size(), uri.size() - kBegin.size() - kEnd.size());
      found["mimeType"] = "application/json";
      found["text"] = json_text(json::object{{"id", id}, {"templateTest", true}, {"data", "Data for ID: " + id}});
    } else {
      return std::nullopt;
    }
    return json::object{{"contents", json::array{std::move(found)}}};
  }

  static std::optional<Reply> prompt(const std::string& name, const json::object& params) {
    static const json::object nothing;
    const auto* given = find_object(params, "arguments");
    const auto argument = [&](std::string_view key) {
      return find_text(given != nullptr ? *given : nothing, key).value_or("");
    };
    const auto messages = [](std::initializer_list<json::value_ref> all) {
      return Reply{json::object{{"messages", json::array(all)}}};
    };
    if (name == "test_simple_prompt") return messages({user_says(text_block("This is a simple prompt for testing."))});
    if (name == "test_prompt_with_arguments") {
      return messages({user_says(
          text_block("Prompt with arguments: arg1='" + argument("arg1") + "', arg2='" + argument("arg2") + "'"))});
    }
    if (name == "test_prompt_with_embedded_resource") {
      return messages(
          {user_says(resource_block(argument("resourceUri"), "text/plain", "Embedded resource content for testing.")),
           user_says(text_block("Please process the embedded resource above."))});
    }
    if (name == "test_prompt_with_image") {
      return messages({user_says(picture_block()), user_says(text_block("Please analyze the image above."))});
    }
    if (name != "test_input_required_result_prompt") return std::nullopt;
    const auto* responses = find_object(params, "inputResponses");
    if (responses == nullptr || find_object(*responses, "user_context") == nullptr) {
      return needs({{"user_context", elicitation("What context should the prompt use?", "context")}});
    }
    return messages({user_says(text_block("With context."))});
  }

  net::awaitable<void> pause() {
    net::steady_timer timer(server_.daemon().engine.executor(), kPause);
    boost::system::error_code ignored;
    co_await timer.async_wait(net::redirect_error(net::use_awaitable, ignored));
  }

  net::awaitable<Reply> with_progress(Call& call) {
    for (const int done : {0, 50, 100}) {
      if (call.meta.progress_token) {
        call.notify(notification("notifications/progress",
                                 {{"progressToken", *call.meta.progress_token}, {"progress", done}, {"total", 100}}));
      }
      co_await pause();
    }
    co_return says("done");
  }

  net::awaitable<Reply> with_logging(Call& call) {
    for (const char* text : {"Tool execution started", "Tool processing data", "Tool execution completed"}) {
      call.log("info", text);
      co_await pause();
    }
    co_return says("logged");
  }

  Reply plain(const std::string& name, Call& call) {
    if (name == "test_simple_text") return says("This is a simple text response for testing.");
    if (name == "test_image_content") return content({picture_block()});
    if (name == "test_audio_content") {
      return content({json::object{{"type", "audio"}, {"data", kFixtureSound}, {"mimeType", "audio/wav"}}});
    }
    if (name == "test_embedded_resource") {
      return content(
          {resource_block("test://embedded-resource", "text/plain", "This is an embedded resource content.")});
    }
    if (name == "test_multiple_content_types") {
      return content(
          {text_block("Multiple content types test:"), picture_block(),
           resource_block("test://mixed-content-resource", "application/json", R"({"test":"data","value":123})")});
    }
    if (name == "test_error_handling") {
      json::object result = says("This tool intentionally returns an error for testing");
      result["isError"] = true;
      return result;
    }
    if (name == "test_missing_capability" && !call.capabilities().contains("sampling")) {
      return std::unexpected(RpcError{.code = kMissingCapability,
                                      .message = "The client lacks a capability that is needed",
                                      .data = json::object{{"requiredCapabilities", {{"sampling", json::object{}}}}},
                                      .http_status = 400});
    }
    if (name == "test_streaming_elicitation") {
      if (call.meta.progress_token) {
        call.notify(
            notification("notifications/progress", {{"progressToken", *call.meta.progress_token}, {"progress", 1}}));
      }
      if (call.modern() && call.capabilities().contains("elicitation")) return needs({{"q", elicitation("?", "x")}});
    }
    const auto& key_id = call.caller.key.id;
    if (name == "test_trigger_tool_change") server_.watchers.tell_of_list(Watchers::List::tools, key_id);
    if (name == "test_trigger_prompt_change") server_.watchers.tell_of_list(Watchers::List::prompts, key_id);
    return says("ok");
  }

  // Questions that a modern client answers by asking again.
  Reply asks_back(const std::string& name, const json::object& params, Call& call) {
    static const json::object nothing;
    const auto* given = params.if_contains("inputResponses");
    if (given != nullptr && !given->is_object()) return refuse(kInvalidParams, "inputResponses must be an object");
    const json::object& responses = given != nullptr ? given->get_object() : nothing;
    const auto state = find_text(params, "requestState");
    const auto opened = state ? seal_.open(*state) : Rpc<json::object>{};
    if (!opened) return std::unexpected(opened.error());
    const std::string which = name.substr(std::string_view("test_input_required_result_").size());
    if (which == "elicitation") {
      const auto* response = find_object(responses, "user_name");
      const auto* filled = response != nullptr ? find_object(*response, "content") : nullptr;
      const auto user = filled != nullptr ? find_text(*filled, "name") : std::nullopt;
      if (!user) return needs({{"user_name", elicitation("What is your name?", "name")}});
      return says("Hello, " + *user + "!");
    }
    if (which == "sampling") {
      if (find_object(responses, "capital_question") != nullptr) return says("The model has answered.");
      return needs({{"capital_question", sampling("What is the capital of France?", 100)}});
    }
    if (which == "list_roots") {
      if (find_object(responses, "client_roots") != nullptr) return says("The roots are known.");
      return needs({{"client_roots", roots()}});
    }
    if (which == "request_state" || which == "tampered_state") {
      if (state) return says("state-ok");
      return needs({{"confirm", elicitation("Please confirm", "ok", "boolean")}}, seal_.close({{"tool", name}}));
    }
    if (which == "multiple_inputs") {
      const bool all = std::ranges::all_of(std::array{"user_name", "greeting", "client_roots"},
                                           [&](const char* key) { return find_object(responses, key) != nullptr; });
      if (state && all) return says("all inputs ok");
      return needs({{"user_name", elicitation("What is your name?", "name")},
                    {"greeting", sampling("Generate a greeting", 50)},
                    {"client_roots", roots()}},
                   seal_.close({{"tool", name}}));
    }
    if (which == "multi_round") {
      const auto round = state ? opened->if_contains("round") : nullptr;
      if (round == nullptr) {
        return needs({{"step1", elicitation("Step 1: What is your name?", "name")}}, seal_.close({{"round", 1}}));
      }
      if (*round == 1) {
        return needs({{"step2", elicitation("Step 2: What is your favorite color?", "color")}},
                     seal_.close({{"round", 2}}));
      }
      return says("multi-round complete");
    }
    json::object requests;
    if (call.capabilities().contains("sampling")) requests["s"] = sampling("x", 5);
    if (call.capabilities().contains("elicitation")) requests["e"] = elicitation("x", "a");
    return requests.empty() || !responses.empty() ? says("caps ok") : needs(std::move(requests));
  }

  Server& server_;
  Seal seal_;
};

}  // namespace

std::unique_ptr<Catalogue> conformance_fixtures(Server& server) { return std::make_unique<Fixtures>(server); }

}  // namespace hutch::mcp
