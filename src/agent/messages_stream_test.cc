#include "agent/messages_stream.h"

#include "agent/messages_dialect.h"
#include "agent/stream_fixture.h"

namespace hutch::agent {
namespace {

namespace json = boost::json;

json::value parse(std::string_view text) { return json::parse({text.data(), text.size()}); }

// Everything that the API documents, and three things that it does not.
constexpr std::string_view kStream = R"(event: message_start
data: {"type":"message_start","message":{"id":"msg_1","model":"claude-x","content":[],"usage":{"input_tokens":25,"output_tokens":1,"cache_read_input_tokens":7,"cache_creation_input_tokens":3}}}

event: content_block_start
data: {"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}

event: ping
data: {"type": "ping"}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hm, "}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"ä."}}

event: content_block_delta
data: {"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}

event: content_block_stop
data: {"type":"content_block_stop","index":0}

event: content_block_start
data: {"type":"content_block_start","index":1,"content_block":{"type":"redacted_thinking","data":"ZGF0YQ=="}}

event: content_block_stop
data: {"type":"content_block_stop","index":1}

event: something_new
data: this is not JSON

event: content_block_start
data: {"type":"content_block_start","index":2,"content_block":{"type":"text","text":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"I will "}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"count."}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"type":"x","cited_text":"y"}}}

event: content_block_delta
data: {"type":"content_block_delta","index":2,"delta":{"type":"delta_of_the_future","what":1}}

event: content_block_stop
data: {"type":"content_block_stop","index":2}

event: content_block_start
data: {"type":"content_block_start","index":3,"content_block":{"type":"block_of_the_future","what":{"deep":[1,2.5,null]}}}

event: content_block_stop
data: {"type":"content_block_stop","index":3}

event: content_block_start
data: {"type":"content_block_start","index":4,"content_block":{"type":"tool_use","id":"toolu_1","name":"run_python","input":{},"caller":{"type":"direct"}}}

event: content_block_delta
data: {"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_delta
data: {"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"{\"code\": \"pri"}}

event: content_block_delta
data: {"type":"content_block_delta","index":4,"delta":{"type":"input_json_delta","partial_json":"nt(1)\"}"}}

event: content_block_stop
data: {"type":"content_block_stop","index":4}

event: content_block_start
data: {"type":"content_block_start","index":5,"content_block":{"type":"tool_use","id":"toolu_2","name":"list_files","input":{}}}

event: content_block_delta
data: {"type":"content_block_delta","index":5,"delta":{"type":"input_json_delta","partial_json":""}}

event: content_block_stop
data: {"type":"content_block_stop","index":5}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":15}}

event: message_delta
data: {"type":"message_delta","delta":{"stop_reason":"tool_use","stop_sequence":null},"usage":{"output_tokens":42}}

event: message_stop
data: {"type":"message_stop"}

)";

constexpr std::string_view kContent = R"json([
  {"type":"thinking","thinking":"Hm, ä.","signature":"c2ln"},
  {"type":"redacted_thinking","data":"ZGF0YQ=="},
  {"type":"text","text":"I will count.","citations":[{"type":"x","cited_text":"y"}]},
  {"type":"block_of_the_future","what":{"deep":[1,2.5,null]}},
  {"type":"tool_use","id":"toolu_1","name":"run_python","input":{"code":"print(1)"
}
, "caller" : {"type" : "direct"}
},
  {"type":"tool_use","id":"toolu_2","name":"list_files","input":{}}])json";

std::string with_crlf(std::string_view text) {
  std::string result;
  for (const char c : text) result += c == '\n' ? "\r\n" : std::string(1, c);
  return result;
}

TEST(MessagesStream, IsReadTheSameHoweverItIsCutAndWhicheverLineEndsItHas) {
  for (const std::string& text : {std::string(kStream), with_crlf(kStream)}) {
    for (const std::size_t step : {1UL, 2UL, 3UL, 7UL, 64UL, 1000UL, text.size()}) {
      MessagesReader reader;
      Overhearing listener;
      const auto turn = read_stream(reader, text, step, listener);
      ASSERT_TRUE(turn) << turn.error().message;
      EXPECT_EQ(turn->message.at("content"), parse(kContent));
      EXPECT_EQ(turn->text, "I will count.");
      EXPECT_EQ(listener.text, "I will count.");
      EXPECT_EQ(listener.thoughts, "Hm, ä.");
      EXPECT_EQ(turn->stop, StopReason::tool_use);
      EXPECT_EQ(turn->model, "claude-x");
    }
  }
}

TEST(MessagesStream, GivesToolsTheirArgumentsAndAnEmptyObjectForNone) {
  MessagesReader reader;
  Overhearing listener;
  const auto turn = read_stream(reader, kStream, 11, listener);
  ASSERT_TRUE(turn);
  ASSERT_EQ(turn->tools.size(), 2U);
  EXPECT_EQ(turn->tools[0].id, "toolu_1");
  EXPECT_EQ(turn->tools[0].name, "run_python");
  EXPECT_EQ(turn->tools[0].arguments.at("code").as_string(), "print(1)");
  EXPECT_TRUE(turn->tools[1].complete);
  EXPECT_TRUE(turn->tools[1].arguments.empty());
}

TEST(MessagesStream, TakesTheLastCountsBecauseEachIsOfTheWholeMessage) {
  MessagesReader reader;
  Overhearing listener;
  const auto turn = read_stream(reader, kStream, 100, listener);
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->tokens.input, 25U);
  EXPECT_EQ(turn->tokens.output, 42U);
  EXPECT_EQ(turn->tokens.cache_read, 7U);
  EXPECT_EQ(turn->tokens.cache_creation, 3U);
}

TEST(MessagesStream, ThatBreaksOffIsNoAnswer) {
  for (const std::string_view end : {"event: message_stop", "event: message_delta", "event: content_block_stop"}) {
    MessagesReader reader;
    Overhearing listener;
    const auto turn = read_stream(reader, kStream.substr(0, kStream.rfind(end)), 50, listener);
    ASSERT_FALSE(turn);
    EXPECT_EQ(turn.error().code, ErrorCode::disconnected);
  }
}

TEST(MessagesStream, RemembersAnErrorInTheMiddle) {
  const std::string text = std::string(kStream.substr(0, 900)) +
                           "\n\nevent: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\","
                           "\"message\":\"Overloaded\"}}\n\n";
  const std::size_t whole = kStream.substr(0, 900).rfind("\n\n");
  MessagesReader reader;
  Overhearing listener;
  const auto turn = read_stream(reader, text.substr(0, whole + 2) + text.substr(902), 10, listener);
  ASSERT_FALSE(turn);
  EXPECT_EQ(reader.stream_error().type, "overloaded_error");
  EXPECT_EQ(reader.stream_error().message, "Overloaded");
}

TEST(MessagesStream, KeepsACallWhoseArgumentsAreNoJsonAsIncomplete) {
  const std::string text =
      named_event({{"type", "content_block_start"},
                   {"index", 0},
                   {"content_block", {{"type", "tool_use"}, {"id", "t"}, {"name", "n"}, {"input", json::object()}}}}) +
      named_event({{"type", "content_block_delta"},
                   {"index", 0},
                   {"delta", {{"type", "input_json_delta"}, {"partial_json", "{\"code\": \"pri"}}}}) +
      named_event({{"type", "content_block_stop"}, {"index", 0}}) +
      named_event({{"type", "message_delta"}, {"delta", {{"stop_reason", "max_tokens"}}}}) +
      named_event({{"type", "message_stop"}});
  MessagesReader reader;
  Overhearing listener;
  const auto turn = read_stream(reader, text, 10, listener);
  ASSERT_TRUE(turn);
  EXPECT_EQ(turn->stop, StopReason::max_tokens);
  ASSERT_EQ(turn->tools.size(), 1U);
  EXPECT_FALSE(turn->tools[0].complete);
}

TEST(MessagesStream, RefusesBlocksOutOfOrderAndBrokenJson) {
  for (const std::string_view data :
       {R"({"type":"content_block_start","index":1,"content_block":{"type":"text"}})",
        R"({"type":"content_block_start","index":-1,"content_block":{"type":"text"}})",
        R"({"type":"content_block_start","index":0,"content_block":[]})",
        R"({"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}})",
        R"({"type":"content_block_stop"})", R"({"type":"content_)", R"([])"}) {
    MessagesReader reader;
    Overhearing listener;
    EXPECT_FALSE(reader.feed({.name = "", .data = std::string(data)}, listener)) << data;
  }
}

TEST(MessagesDialect, PutsEveryResultIntoOneMessageAndWordsAfterThem) {
  const MessagesDialect dialect;
  json::array messages;
  const std::vector<ToolReply> replies = {
      {.id = "a", .text = "one", .images = {{.mime = "image/png", .bytes = "\x89PNG"}}},
      {.id = "b", .text = "two", .is_error = true}};
  dialect.add_replies(messages, replies);
  dialect.add_words(messages, "go on");
  EXPECT_EQ(messages, parse(R"([{"role":"user","content":[
      {"type":"tool_result","tool_use_id":"a","is_error":false,"content":[{"type":"text","text":"one"},
        {"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw=="}}]},
      {"type":"tool_result","tool_use_id":"b","is_error":true,"content":[{"type":"text","text":"two"}]},
      {"type":"text","text":"go on"}]}])"));
}

TEST(MessagesDialect, DeclaresToolsAlsoWhenTheyMayNotBeUsedAndSendsNoSamplingParameters) {
  const MessagesDialect dialect;
  const json::array tools = parse(R"([{"name":"t","description":"d","input_schema":{"type":"object"}}])").as_array();
  const json::array messages;
  const auto body = dialect.request({.model = "m",
                                     .system = "s",
                                     .max_tokens = 5,
                                     .tools = tools,
                                     .messages = messages,
                                     .tool_choice = ToolChoice::none});
  EXPECT_EQ(body, parse(R"({"model":"m","max_tokens":5,"system":"s","stream":true,"messages":[],
      "tools":[{"name":"t","description":"d","input_schema":{"type":"object"}}],"tool_choice":{"type":"none"}})"));
}

TEST(MessagesDialect, KeepsOnlyWhatMayStandAtTheEndOfAMessageThatWasCutOff) {
  const MessagesDialect dialect;
  const auto message = parse(R"({"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},
      {"type":"text","text":"a"},{"type":"tool_use","id":"i","name":"n","input":{}},{"type":"thinking","thinking":""}]})");
  EXPECT_EQ(dialect.without_calls(message.as_object()),
            parse(R"({"role":"assistant","content":[{"type":"thinking","thinking":"t","signature":"s"},
                {"type":"text","text":"a"}]})"));
  const auto only_call =
      parse(R"({"role":"assistant","content":[{"type":"tool_use","id":"i","name":"n","input":{}}]})");
  EXPECT_TRUE(dialect.without_calls(only_call.as_object()).empty());
}

}  // namespace
}  // namespace hutch::agent
