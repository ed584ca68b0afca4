// What the client and the loop make of servers that fail, of cancellation, and where the key is to be found.
#include "agent/model_client.h"

#include "agent/loop_fixture.h"

namespace hutch::agent {
namespace {

namespace json = boost::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using ModelClientTest = AgentLoopTest;

TEST_F(ModelClientTest, TriesAgainWhenAFailureMayPass) {
  will_fail(429, {{"retry-after-ms", "1"}});
  will_fail(529);
  will_say({text_block("Four.")}, "end_turn");
  const auto report = run();
  EXPECT_EQ(report.answer, "Four.");
  EXPECT_EQ(report.iterations, 1U);
  EXPECT_EQ(listener_.reasons.size(), 2U);
  EXPECT_EQ(messages(0), messages(2));
}

TEST_F(ModelClientTest, GivesUpAfterTwoRetriesAndSaysWhatTheServerSaid) {
  const std::string body = R"({"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}})";
  for (int i = 0; i < 4; ++i) will_fail(529, {}, body);
  const auto report = run();
  EXPECT_EQ(report.stopped_because, StoppedBecause::model_error);
  EXPECT_EQ(report.error.message, "the model server answered 529 overloaded_error: Overloaded");
  EXPECT_FALSE(report.error.hint.empty());
  EXPECT_EQ(model_.requests.size(), 3U);
}

TEST_F(ModelClientTest, DoesNotRepeatWhatWillNotPass) {
  will_fail(400, {}, R"({"error":{"type":"invalid_request_error","message":"no such model"}})");
  const auto report = run();
  EXPECT_EQ(report.stopped_because, StoppedBecause::model_error);
  EXPECT_THAT(report.error.message, HasSubstr("no such model"));
  EXPECT_EQ(model_.requests.size(), 1U);
}

TEST_F(ModelClientTest, AsksAgainWhenAStreamFailsInTheMiddle) {
  const std::string whole = stream_of({text_block("Half an ans")}, "end_turn");
  const std::string half = whole.substr(0, whole.find("event: message_delta"));
  model_.replies.push_back(
      {.stream = half + named_event({{"type", "error"}, {"error", {{"type", "overloaded_error"}, {"message", "x"}}}})});
  model_.replies.push_back({.stream = half});
  will_say({text_block("An answer.")}, "end_turn");
  const auto report = run();
  EXPECT_EQ(report.answer, "An answer.");
  EXPECT_EQ(listener_.said, "says:Half an ans;retries;says:Half an ans;retries;says:An answer.;done:answered");
}

TEST_F(ModelClientTest, DoesNotAskAgainForBytesItDoesNotAccept) {
  model_.replies.push_back({.stream = "data: not json\n\n"});
  EXPECT_EQ(run().stopped_because, StoppedBecause::model_error);
  model_.replies.push_back({.reply = ModelReply{.status = 200, .body = "<html>"}});
  const auto report = run();
  EXPECT_THAT(report.error.message, HasSubstr("stream of events"));
  EXPECT_EQ(model_.requests.size(), 2U);
}

TEST_F(ModelClientTest, TellsTheKeyToNobodyButTheServer) {
  will_fail(500, {}, R"({"error":{"type":"api_error","message":"key sk-very-secret-1234 is overloaded"}})");
  will_say({call_block("a", "1")}, "tool_use");
  will_fail(401, {}, R"({"error":{"type":"authentication_error","message":"bad key sk-very-secret-1234"}})");
  const auto report = run();
  EXPECT_EQ(report.stopped_because, StoppedBecause::model_error);
  EXPECT_EQ(report.error.message, "the model server answered 401 authentication_error: bad key [key]");
  EXPECT_THAT(listener_.reasons, ElementsAre(HasSubstr("[key]")));
  EXPECT_THAT(model_.headers, testing::Contains(std::pair<std::string, std::string>("x-api-key", kKey)));
  for (const auto& request : model_.requests) EXPECT_THAT(json::serialize(request), Not(HasSubstr(kKey)));
  EXPECT_THAT(json::serialize(report.transcript), Not(HasSubstr(kKey)));
  EXPECT_THAT(json::serialize(report_json(report)), Not(HasSubstr(kKey)));
}

TEST_F(ModelClientTest, RefusesAKeyThatWouldBreakTheHeader) {
  for (const char* key : {"", "a b", "a\r\nx: y", "ü"}) {
    EXPECT_FALSE(ModelClient::make(model_, dialect_, Secret(key))) << key;
  }
}

TEST_F(ModelClientTest, StopsSoonWhenCancelledBeforeARetry) {
  will_fail(429, {{"retry-after", "8"}});
  net::io_context later;
  listener_.on_retry = [&] { cancellation_.cancel(); };
  const auto begin = Clock::now();
  const auto report = run();
  EXPECT_EQ(report.stopped_because, StoppedBecause::cancelled);
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(4));
}

TEST_F(ModelClientTest, TellsTheHandsWhenItIsCancelledDuringACall) {
  hands_.during_call = [&] { cancellation_.cancel(); };
  will_say({call_block("a", "1"), call_block("b", "2")}, "tool_use");
  const auto report = run();
  EXPECT_EQ(report.stopped_because, StoppedBecause::cancelled);
  EXPECT_EQ(hands_.cancelled, 1);
  EXPECT_THAT(hands_.codes, ElementsAre("1"));
}

TEST_F(ModelClientTest, WritesDownEveryTurn) {
  HandOutcome outcome{.text = "plot", .ran_code = true, .status = "ok"};
  outcome.images = {{.mime = "image/png", .bytes = std::string(150 << 10, 'x')}, {.mime = "image/png", .bytes = "PNG"}};
  hands_give(std::move(outcome));
  will_say({text_block("Hm."), call_block("a", "1")}, "tool_use");
  will_say({text_block("Done.")}, "end_turn");
  const auto report = run({}, "Why?");
  EXPECT_EQ(report.transcript.at("api").as_string(), "anthropic");
  const auto& turns = report.transcript.at("turns").as_array();
  ASSERT_EQ(turns.size(), 2U);
  EXPECT_EQ(turns[0].at("new_messages").at(0).at("content").at(0).at("text").as_string(), "Why?");
  EXPECT_EQ(turns[0].at("stop_reason").as_string(), "tool_use");
  const auto added = json::serialize(turns[1].at("new_messages"));
  EXPECT_THAT(added, HasSubstr("[image: about 153600 bytes]"));
  EXPECT_THAT(added, HasSubstr("UE5H"));
  EXPECT_EQ(turns[1].at("response").at("content").at(0).at("text").as_string(), "Done.");
}

}  // namespace
}  // namespace hutch::agent
