#include "api/agent_run.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>

#include "agent/http_transport.h"
#include "api/notebook_download.h"
#include "api/session_access.h"
#include "api/session_files.h"
#include "api/tools/packages.h"
#include "api/tools/place.h"
#include "api/tools/tool.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::string_view kOffered[] = {"run_python", "run_shell", "edit_file", "list_files", "read_file"};
constexpr std::size_t kMostPackages = 60;

// The tools without what an agent in one session need not know of.
class SessionHands final : public agent::Hands {
 public:
  SessionHands(Daemon& daemon, Caller caller, std::string session_id)
      : daemon_(daemon), caller_(std::move(caller)), session_id_(std::move(session_id)) {}

  [[nodiscard]] json::array definitions() const override {
    json::array definitions;
    for (const auto name : kOffered) {
      const Tool* tool = daemon_.tools.find(name);
      if (tool == nullptr) continue;
      json::object schema = tool->input_schema;
      for (const char* hidden : {"session_id", "background", "restart"}) schema["properties"].as_object().erase(hidden);
      json::array required;
      for (const auto& one : tool->input_schema.at("required").as_array()) {
        if (one.as_string() != "session_id") required.push_back(one);
      }
      schema["required"] = std::move(required);
      definitions.push_back(
          json::object{{"name", tool->name}, {"description", tool->description}, {"input_schema", std::move(schema)}});
    }
    return definitions;
  }

  net::awaitable<agent::HandOutcome> call(std::string name, json::object arguments) override {
    const Tool* tool = daemon_.tools.find(name);
    if (tool == nullptr) co_return agent::HandOutcome{.text = "There is no tool " + name + ".", .is_error = true};
    arguments["session_id"] = session_id_;
    ToolCall call{.daemon = daemon_, .caller = caller_, .arguments = std::move(arguments)};
    call.on_run = [this](const std::shared_ptr<LiveRun>& run) { running_ = run; };
    ToolResult result = co_await call_tool(*tool, call);
    running_.reset();
    agent::HandOutcome outcome{.text = std::move(result.text), .is_error = result.is_error};
    outcome.ran_code = result.run != nullptr;
    for (auto& picture : result.pictures) {
      outcome.images.push_back({.mime = std::move(picture.mime), .bytes = std::move(picture.bytes)});
    }
    tell_error(result.structured, outcome);
    if (const auto* execution = result.structured["execution"].if_object()) tell_error(*execution, outcome);
    co_return outcome;
  }

  void cancel() override {
    if (running_ && running_->cancel) running_->cancel();
  }

 private:
  static void tell_error(const json::object& structured, agent::HandOutcome& outcome) {
    if (const auto* status = structured.if_contains("status")) outcome.status = std::string(status->as_string());
    const auto* error = structured.if_contains("error");
    if (error == nullptr || !error->is_object()) return;
    const auto& told = error->get_object();
    outcome.category = std::string(told.at("category").as_string());
    outcome.fix = std::string(told.at("fix").as_string());
    outcome.hint = std::string(told.at("hint").as_string());
    outcome.retryable = told.at("retryable").as_bool();
  }

  Daemon& daemon_;
  Caller caller_;
  std::string session_id_;
  std::shared_ptr<LiveRun> running_;
};

std::string facts_about(const Daemon& daemon) {
  std::string facts = "The sandbox runs Python without a network; packages cannot be installed.";
  const auto installed = packages_of(daemon.settings.template_name);
  if (installed.empty()) return facts + " Only the standard library is there.";
  facts += " Beside the standard library it has ";
  for (std::size_t i = 0; i < std::min(installed.size(), kMostPackages); ++i) {
    facts += (i == 0 ? "" : ", ") + installed[i];
  }
  return facts + ".";
}

Result<std::string> read_key(const ServeSettings& settings, const char* variable) {
  if (!settings.agent_key_file.empty()) {
    std::ifstream file(settings.agent_key_file);
    std::string key((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    while (!key.empty() && (key.back() == '\n' || key.back() == '\r' || key.back() == ' ')) key.pop_back();
    if (!file || key.empty()) {
      return make_error(ErrorCode::not_found, "no key can be read from " + settings.agent_key_file);
    }
    return key;
  }
  const char* key = std::getenv(variable);
  if (key != nullptr && *key != '\0') return std::string(key);
  return make_error(ErrorCode::not_found, "there is no key for the model")
      .with_hint(std::string("set ") + variable + ", or name a file with agent.key_file or --key-file");
}

}  // namespace

Result<ModelSettings> find_model(const ServeSettings& settings) {
  ModelSettings model{.model = settings.agent_model};
  const bool openai = settings.agent_api == "openai";
  if (!openai && settings.agent_api != "anthropic") {
    return make_error(ErrorCode::invalid_argument, "agent.api must be anthropic or openai");
  }
  model.api = openai ? agent::ApiKind::openai : agent::ApiKind::anthropic;
  model.base_url = settings.agent_base_url;
  if (model.base_url.empty()) model.base_url = openai ? "https://api.openai.com" : "https://api.anthropic.com";
  if (model.model.empty() && openai) {
    return make_error(ErrorCode::invalid_argument, "which model?").with_hint("name it with agent.model or --model");
  }
  if (model.model.empty()) model.model = "claude-opus-5";
  HUTCH_TRY(model.key, read_key(settings, openai ? "OPENAI_API_KEY" : "ANTHROPIC_API_KEY"));
  return model;
}

net::awaitable<Api<AgentOutcome>> run_agent(Daemon& daemon, Caller caller, ModelSettings model, AgentAsked asked,
                                            agent::AgentListener& listener, agent::Cancellation& cancellation) {
  auto url = agent::BaseUrl::parse(model.base_url);
  if (!url) co_return std::unexpected(bad_request(url.error().message, url.error().hint));
  agent::HttpTransport transport(std::move(*url), {});
  const auto dialect = agent::make_dialect(model.api);
  auto client = agent::ModelClient::make(transport, *dialect, Secret(std::move(model.key)));
  if (!client) co_return std::unexpected(bad_request(client.error().message, client.error().hint));

  ToolCall making{.daemon = daemon, .caller = caller};
  HUTCH_API_TRY(const auto session, co_await make_session(making));
  agent::AgentTask task{.question = std::move(asked.question), .facts = facts_about(daemon)};
  Handled written{};
  for (auto& file : asked.files) {
    task.files.push_back({.path = file.path, .bytes = file.content.size()});
    if (written) written = co_await write_whole(session, file.path, std::move(file.content));
  }
  AgentOutcome outcome{.session_id = session->settings().id};
  if (written) {
    SessionHands hands(daemon, caller, outcome.session_id);
    agent::AgentLoop loop({.client = *client, .hands = hands, .listener = listener, .cancellation = cancellation},
                          std::move(model.model), asked.limits);
    outcome.report = co_await loop.run(std::move(task));
    if (auto notebook = co_await notebook_of(daemon, caller, outcome.session_id))
      outcome.notebook = std::move(*notebook);
  }
  co_await daemon.hub.end_session(session, "its agent is done");
  if (!written) co_return std::unexpected(written.error());
  co_return outcome;
}

}  // namespace hutch
