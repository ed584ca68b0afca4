#include "agent/chat_stream.h"

#include "agent/chat_dialect.h"
#include "agent/stream_fixture.h"

namespace hutch::agent {
namespace {

namespace json = boost::json;

json::value parse(std::string_view text) { return json::parse({text.data(), text.size()}); }

constexpr std::string_view kStream =
    R"(data: {"id":"c","model":"gpt-x","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}

: keep-alive

data: {"choices":[{"index":0,"delta":{"reasoning_content":"Hm."}}]}

data: {"choices":[{"index":0,"delta":{"content":"Let me "}}]}

data: {"choices":[{"index":0,"delta":{"content":"see.","unknown":7}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"run_python","arguments":""}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"code\":"}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"id":"call_b","type":"function","function":{"name":"list_files","arguments":""}}]}}]}

data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":0,"function":{"arguments":" \"1\"}"}}]}}]}

data: {"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}

data: {"choices":[],"usage":{"prompt_tokens":30,"completion_tokens":12,"prompt_tokens_details":{"cached_tokens":10}}}

data: [DONE]

)";

std::string chunk(std::string_view choice) { return "data: {\"choices\":[" + std::string(choice) + "]}\n\n"; }

TEST(ChatStream, IsReadTheSameHoweverItIsCut) {
  for (const std::size_t step : {1UL, 2UL, 5UL, 33UL, kStream.size()}) {
    ChatReader reader;
    Overhearing listener;
    const auto turn = read_stream(reader, kStream, step, listener);
    ASSERT_TRUE(turn) << turn.error().message;
    EXPECT_EQ(turn->message, parse(R"({"role":"assistant","content":"Let me see.","tool_calls":[
        {"id":"call_a","type":"function","function":{"name":"run_python","arguments":"{\"code\": \"1\"}"}},
        {"id":"call_b","type":"function","function":{"name":"list_files","arguments":"{}"}}]})"));
    EXPECT_EQ(turn->stop, StopReason::tool_use);
    EXPECT_EQ(turn->tools[0].arguments.at("code").as_string(), "1");
    EXPECT_TRUE(turn->tools[1].complete);
    EXPECT_EQ(listener.text, "Let me see.");
    EXPECT_EQ(listener.thoughts, "Hm.");
    EXPECT_EQ(turn->tokens.input, 20U);
    EXPECT_EQ(turn->tokens.cache_read, 10U);
    EXPECT_EQ(turn->tokens.output, 12U);
    EXPECT_EQ(turn->model, "gpt-x");
  }
}

TEST(ChatStream, NeedsNoIndexNoIdAndNoLastWord) {
  const std::string text =
      chunk(R"({"delta":{"tool_calls":[{"function":{"name":"a","arguments":"{\"x\":"}}]}})") +
      chunk(R"({"delta":{"tool_calls":[{"function":{"arguments":"1}"}}]}})") +
      chunk(R"({"delta":{"tool_calls":[{"id":"second","function":{"name":"b","arguments":"{}"}}]}})") +
      chunk(R"({"delta":{},"finish_reason":"stop"})");
  ChatReader reader;
  Overhearing listener;
  const auto turn = read_stream(reader, text, 9, listener);
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->stop, StopReason::tool_use);
  ASSERT_EQ(turn->tools.size(), 2U);
  EXPECT_EQ(turn->tools[0].id, "call_0");
  EXPECT_EQ(turn->tools[0].arguments.at("x").as_int64(), 1);
  EXPECT_EQ(turn->tools[1].id, "second");
}

TEST(ChatStream, KnowsWhyItStopped) {
  const std::pair<const char*, StopReason> reasons[] = {{"stop", StopReason::answered},
                                                        {"length", StopReason::max_tokens},
                                                        {"content_filter", StopReason::refusal},
                                                        {"eos", StopReason::unknown}};
  for (const auto& [word, expected] : reasons) {
    ChatReader reader;
    Overhearing listener;
    const auto text = chunk(R"({"delta":{"content":"x"},"finish_reason":")" + std::string(word) + "\"}");
    const auto turn = read_stream(reader, text, 100, listener);
    ASSERT_TRUE(turn) << word;
    EXPECT_EQ(turn->stop, expected) << word;
  }
  ChatReader reader;
  Overhearing listener;
  const auto turn =
      read_stream(reader, chunk(R"({"delta":{"refusal":"I can't"}})") + chunk(R"({"delta":{},"finish_reason":"stop"})"),
                  9, listener);
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->stop, StopReason::refusal);
  EXPECT_EQ(turn->refusal_explanation, "I can't");
}

TEST(ChatStream, SendsNoBrokenArgumentsBack) {
  const std::string text =
      chunk(R"({"delta":{"tool_calls":[{"index":0,"id":"i","function":{"name":"a","arguments":"{\"x"}}]}})") +
      chunk(R"({"delta":{},"finish_reason":"tool_calls"})");
  ChatReader reader;
  Overhearing listener;
  const auto turn = read_stream(reader, text, 50, listener);
  ASSERT_TRUE(turn);
  EXPECT_FALSE(turn->tools[0].complete);
  EXPECT_EQ(turn->message.at("tool_calls").at(0).at("function").at("arguments").as_string(), "{}");
}

TEST(ChatStream, ReportsErrorsAndStreamsThatBreakOff) {
  ChatReader failing;
  Overhearing listener;
  EXPECT_FALSE(
      read_stream(failing, "data: {\"error\":{\"type\":\"server_error\",\"message\":\"m\"}}\n\n", 9, listener));
  EXPECT_EQ(failing.stream_error().type, "server_error");
  ChatReader broken;
  const auto turn = read_stream(broken, chunk(R"({"delta":{"content":"x"}})"), 9, listener);
  ASSERT_FALSE(turn);
  EXPECT_EQ(turn.error().code, ErrorCode::disconnected);
}

TEST(ChatDialect, ShowsPicturesInAMessageAfterTheResults) {
  const ChatDialect dialect;
  json::array messages;
  const std::vector<ToolReply> replies = {
      {.id = "a", .text = "one", .images = {{.mime = "image/png", .bytes = "\x89PNG"}}}, {.id = "b", .text = "two"}};
  dialect.add_replies(messages, replies);
  EXPECT_EQ(messages, parse(R"([{"role":"tool","tool_call_id":"a","content":"one"},
      {"role":"tool","tool_call_id":"b","content":"two"},
      {"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw=="}}]}])"));
}

TEST(ChatDialect, TranslatesDefinitions) {
  const ChatDialect dialect;
  const json::array tools = parse(R"([{"name":"t","description":"d","input_schema":{"type":"object"}}])").as_array();
  const json::array messages;
  const auto body = dialect.request({.model = "m",
                                     .system = "s",
                                     .max_tokens = 5,
                                     .tools = tools,
                                     .messages = messages,
                                     .tool_choice = ToolChoice::none});
  EXPECT_EQ(body, parse(R"({"model":"m","max_completion_tokens":5,"stream":true,"stream_options":{"include_usage":true},
      "messages":[{"role":"system","content":"s"}],"tool_choice":"none",
      "tools":[{"type":"function","function":{"name":"t","description":"d","parameters":{"type":"object"}}}]})"));
}

}  // namespace
}  // namespace hutch::agent
