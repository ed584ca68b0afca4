// For tests of the loop: a model that says what the test wrote down, and hands that do what the test says.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/io_context.hpp>
#include <boost/json.hpp>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "agent/agent_loop.h"
#include "agent/messages_dialect.h"
#include "agent/stream_fixture.h"

namespace hutch::agent {

inline constexpr const char* kKey = "sk-very-secret-1234";

inline boost::json::object text_block(std::string_view text) { return {{"type", "text"}, {"text", text}}; }

inline boost::json::object call_block(std::string_view id, std::string_view code) {
  return {{"type", "tool_use"}, {"id", id}, {"name", "run_python"}, {"input", {{"code", code}}}};
}

// A whole stream; blocks come complete with their start, as results of server tools do.
inline std::string stream_of(const std::vector<boost::json::object>& blocks, std::string_view stop,
                             boost::json::object delta = {}) {
  std::string text = named_event(
      {{"type", "message_start"}, {"message", {{"model", "claude-test"}, {"usage", {{"input_tokens", 10}}}}}});
  int index = 0;
  for (const auto& block : blocks) {
    text += named_event({{"type", "content_block_start"}, {"index", index}, {"content_block", block}});
    text += named_event({{"type", "content_block_stop"}, {"index", index++}});
  }
  delta["stop_reason"] = stop;
  text += named_event({{"type", "message_delta"}, {"delta", delta}, {"usage", {{"output_tokens", 5}}}});
  return text + named_event({{"type", "message_stop"}});
}

struct ScriptedReply {
  Result<ModelReply> reply = ModelReply{.status = 200, .streamed = true};
  std::string stream;
};

class ScriptedModel final : public ModelTransport {
 public:
  net::awaitable<Result<ModelReply>> post(const ModelRequest& request, const PieceTaker& take, Cancellation&) override {
    requests.push_back(boost::json::parse(request.body));
    headers = request.headers;
    if (replies.empty()) co_return make_error(ErrorCode::internal, "the script has ended");
    const ScriptedReply next = std::move(replies.front());
    replies.pop_front();
    for (const char& byte : next.stream) {
      auto enough = take({&byte, 1});
      if (!enough) co_return std::move(enough).error();
    }
    co_return next.reply;
  }

  std::deque<ScriptedReply> replies;
  std::vector<boost::json::value> requests;
  std::vector<std::pair<std::string, std::string>> headers;
};

class ScriptedHands final : public Hands {
 public:
  [[nodiscard]] boost::json::array definitions() const override {
    boost::json::array tools;
    tools.push_back(boost::json::object{
        {"name", "run_python"}, {"description", "Runs Python."}, {"input_schema", {{"type", "object"}}}});
    return tools;
  }
  net::awaitable<HandOutcome> call(std::string name, boost::json::object arguments) override {
    EXPECT_EQ(name, "run_python");
    codes.emplace_back(arguments.at("code").as_string());
    if (during_call) during_call();
    if (outcomes.empty()) co_return HandOutcome{.text = "42", .ran_code = true, .status = "ok"};
    HandOutcome outcome = std::move(outcomes.front());
    outcomes.pop_front();
    co_return outcome;
  }
  void cancel() override { ++cancelled; }

  std::deque<HandOutcome> outcomes;
  std::vector<std::string> codes;
  std::function<void()> during_call;
  int cancelled = 0;
};

class Recording final : public AgentListener {
 public:
  void thinking(std::string_view piece) override { said += "thinks:" + std::string(piece) + ";"; }
  void answer_text(std::string_view piece) override { said += "says:" + std::string(piece) + ";"; }
  void retrying(const RetryNotice& notice) override {
    said += "retries;";
    reasons.push_back(notice.reason);
    if (on_retry) on_retry();
  }
  void tool_begun(const ToolUse& use) override {
    said += "runs:" + std::string(use.arguments.at("code").as_string()) + ";";
  }
  void tool_ended(const ToolUse&, const HandOutcome& outcome) override { said += "got:" + outcome.text + ";"; }
  void done(const AgentReport& report) override { said += "done:" + std::string(to_text(report.stopped_because)); }

  std::string said;
  std::vector<std::string> reasons;
  std::function<void()> on_retry;
};

class AgentLoopTest : public testing::Test {
 protected:
  void will_say(const std::vector<boost::json::object>& blocks, std::string_view stop, boost::json::object delta = {}) {
    model_.replies.push_back({.stream = stream_of(blocks, stop, std::move(delta))});
  }
  void will_fail(unsigned status, std::map<std::string, std::string> headers = {}, std::string body = {}) {
    model_.replies.push_back(
        {.reply = ModelReply{.status = status, .headers = std::move(headers), .body = std::move(body)}});
  }
  void hands_give(HandOutcome outcome) { hands_.outcomes.push_back(std::move(outcome)); }
  static HandOutcome failing(std::string fix = "change_code") {
    return {.text = "Traceback",
            .ran_code = true,
            .status = "error",
            .category = "python_exception",
            .fix = std::move(fix),
            .hint = "Look"};
  }

  AgentReport run(AgentLimits limits = {}, std::string question = "How many?") {
    auto client =
        ModelClient::make(model_, dialect_, Secret(kKey),
                          {.first_delay = std::chrono::milliseconds(1), .longest_asked_for = std::chrono::seconds(9)});
    EXPECT_TRUE(client);
    AgentLoop loop({.client = *client, .hands = hands_, .listener = listener_, .cancellation = cancellation_},
                   "claude-asked", limits);
    net::io_context context(1);
    AgentReport report;
    net::co_spawn(
        context, [&]() -> net::awaitable<void> { report = co_await loop.run({.question = std::move(question)}); },
        [](const std::exception_ptr& problem) { EXPECT_EQ(problem, nullptr); });
    context.run();
    return report;
  }

  [[nodiscard]] boost::json::array messages(std::size_t request) const {
    return model_.requests.at(request).at("messages").as_array();
  }
  // The text of the last message's blocks, results and words alike.
  [[nodiscard]] std::string last_text(std::size_t request) const {
    return boost::json::serialize(messages(request).back());
  }
  [[nodiscard]] bool had_tools(std::size_t request) const {
    return !model_.requests.at(request).as_object().contains("tool_choice");
  }

  MessagesDialect dialect_;
  ScriptedModel model_;
  ScriptedHands hands_;
  Recording listener_;
  Cancellation cancellation_;
};

}  // namespace hutch::agent
