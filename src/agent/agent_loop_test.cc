#include "agent/agent_loop.h"

#include "agent/loop_fixture.h"

namespace hutch::agent {
namespace {

namespace json = boost::json;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

TEST_F(AgentLoopTest, AnswersAtOnceWhenNoCodeIsNeeded) {
  will_say({text_block("Four.")}, "end_turn");
  const auto report = run();
  EXPECT_EQ(report.answer, "Four.");
  EXPECT_EQ(report.stopped_because, StoppedBecause::answered);
  EXPECT_EQ(report.attempts, 0U);
  EXPECT_EQ(report.iterations, 1U);
  EXPECT_EQ(report.model, "claude-test");
  EXPECT_EQ(report.tokens.input, 10U);
  EXPECT_EQ(report.tokens.output, 5U);
  EXPECT_FALSE(report.best_effort);
  EXPECT_EQ(listener_.said, "says:Four.;done:answered");
}

TEST_F(AgentLoopTest, RunsEveryCallInOrderAndAnswersInOneMessage) {
  will_say({text_block("Let me see."), call_block("a", "1"), call_block("b", "2")}, "tool_use");
  will_say({text_block("Done.")}, "end_turn");
  const auto report = run();
  EXPECT_THAT(hands_.codes, ElementsAre("1", "2"));
  EXPECT_EQ(report.answer, "Done.");
  EXPECT_EQ(report.attempts, 2U);
  const auto sent = messages(1);
  ASSERT_EQ(sent.size(), 3U);
  EXPECT_EQ(sent[2].at("content").as_array().size(), 2U);
  EXPECT_EQ(sent[2].at("content").at(0).at("tool_use_id").as_string(), "a");
  EXPECT_EQ(sent[2].at("content").at(1).at("tool_use_id").as_string(), "b");
  EXPECT_EQ(listener_.said, "says:Let me see.;runs:1;got:42;runs:2;got:42;says:Done.;done:answered");
}

TEST_F(AgentLoopTest, SendsBackExactlyWhatTheModelSaid) {
  const json::object thinking{{"type", "thinking"}, {"thinking", "hm"}, {"signature", "c2ln"}};
  const json::object redacted{{"type", "redacted_thinking"}, {"data", "eHg="}};
  const json::object future{{"type", "of_the_future"}, {"x", {{"y", 1.5}}}};
  will_say({thinking, redacted, future, call_block("a", "1")}, "tool_use");
  will_say({text_block("Done.")}, "end_turn");
  run();
  json::array expected;
  for (const auto& block : {thinking, redacted, future, call_block("a", "1")}) expected.push_back(block);
  EXPECT_EQ(messages(1)[1].at("content"), expected);
}

TEST_F(AgentLoopTest, CountsOnlyFailuresAgainstTheBudgetAndSaysWhatIsLeft) {
  hands_give(failing());
  for (const char* code : {"stats", "statistics"}) will_say({call_block(code, code)}, "tool_use");
  will_say({text_block("46.5")}, "end_turn");
  const auto report = run();
  EXPECT_EQ(report.attempts, 2U);
  EXPECT_EQ(report.failed_attempts, 1U);
  EXPECT_EQ(report.stopped_because, StoppedBecause::answered);
  EXPECT_THAT(last_text(1), HasSubstr("Traceback\\n\\nThis can be fixed by changing the code; 2 attempts are left."));
  EXPECT_THAT(last_text(2), Not(HasSubstr("attempt")));
}

TEST_F(AgentLoopTest, TakesTheToolsAwayAfterTheThirdFailure) {
  for (int i = 0; i < 3; ++i) {
    hands_give(failing());
    will_say({call_block("c" + std::to_string(i), "x")}, "tool_use");
  }
  will_say({text_block("About forty.")}, "end_turn");
  const auto report = run();
  EXPECT_EQ(report.stopped_because, StoppedBecause::attempts_exhausted);
  EXPECT_TRUE(report.best_effort);
  EXPECT_EQ(report.answer, "About forty.");
  EXPECT_EQ(report.attempts, 3U);
  EXPECT_EQ(report.failed_attempts, 3U);
  EXPECT_TRUE(had_tools(2));
  EXPECT_FALSE(had_tools(3));
  EXPECT_TRUE(model_.requests[3].as_object().contains("tools"));
  EXPECT_THAT(last_text(3), HasSubstr("no longer available"));
  const auto content = messages(3).back().at("content").as_array();
  EXPECT_EQ(content[0].at("type").as_string(), "tool_result");
  EXPECT_EQ(content[1].at("type").as_string(), "text");
}

TEST_F(AgentLoopTest, RunsNothingMoreInTheTurnThatSpentTheBudget) {
  hands_give(failing());
  will_say({call_block("a", "1"), call_block("b", "2")}, "tool_use");
  will_say({text_block("No.")}, "end_turn");
  const auto report = run({.attempts = 1});
  EXPECT_THAT(hands_.codes, ElementsAre("1"));
  EXPECT_EQ(report.attempts, 1U);
  EXPECT_THAT(last_text(1), HasSubstr("Not run: no attempts are left."));
}

TEST_F(AgentLoopTest, AsksForTheBestAnswerWhenTheTurnsAreSpent) {
  for (int i = 0; i < 10; ++i) will_say({call_block("c" + std::to_string(i), "x")}, "tool_use");
  will_say({text_block("Perhaps.")}, "end_turn");
  const auto report = run();
  EXPECT_EQ(report.stopped_because, StoppedBecause::iterations_exhausted);
  EXPECT_TRUE(report.best_effort);
  EXPECT_EQ(report.iterations, 10U);
  EXPECT_EQ(report.answer, "Perhaps.");
  EXPECT_EQ(model_.requests.size(), 11U);
}

TEST_F(AgentLoopTest, EndsTheToolsAfterTwoErrorsInARowThatCodeCannotMend) {
  hands_give(failing("ask_operator"));
  hands_give({.text = "full", .is_error = true, .category = "capacity", .fix = "wait_and_retry", .retryable = true});
  will_say({call_block("a", "1")}, "tool_use");
  will_say({call_block("b", "2")}, "tool_use");
  will_say({text_block("Cannot say.")}, "end_turn");
  const auto report = run();
  EXPECT_EQ(report.stopped_because, StoppedBecause::attempts_exhausted);
  EXPECT_TRUE(report.best_effort);
  EXPECT_EQ(report.failed_attempts, 1U);
  EXPECT_EQ(report.error.category, "capacity");
  EXPECT_THAT(last_text(1), HasSubstr("This cannot be fixed by changing the code: Look. Answer with what you have."));
}

TEST_F(AgentLoopTest, ForgetsAnErrorThatCodeCannotMendOnceSomethingWorks) {
  hands_give(failing("ask_user"));
  hands_give({.text = "fine", .ran_code = true, .status = "ok"});
  hands_give(failing("none"));
  for (const char* id : {"a", "b", "c"}) will_say({call_block(id, id)}, "tool_use");
  will_say({text_block("Done.")}, "end_turn");
  EXPECT_EQ(run().stopped_because, StoppedBecause::answered);
}

TEST_F(AgentLoopTest, TellsTheModelOfToolsAndArgumentsThatDoNotExist) {
  json::object unknown = call_block("a", "1");
  unknown["name"] = "rm";
  json::object broken = call_block("b", "1");
  broken["input"] = "text";
  will_say({unknown, broken}, "tool_use");
  will_say({text_block("Oh.")}, "end_turn");
  const auto report = run();
  EXPECT_TRUE(hands_.codes.empty());
  EXPECT_EQ(report.attempts, 0U);
  EXPECT_THAT(last_text(1), HasSubstr("no tool of that name"));
  EXPECT_THAT(last_text(1), HasSubstr("not a JSON object"));
}

TEST_F(AgentLoopTest, NeverRunsACallThatWasCutOff) {
  will_say({text_block("I will"), call_block("a", "half")}, "max_tokens");
  will_say({call_block("b", "whole")}, "tool_use");
  will_say({text_block("Done.")}, "end_turn");
  const auto report = run({.max_tokens = 100});
  EXPECT_THAT(hands_.codes, ElementsAre("whole"));
  EXPECT_EQ(report.answer, "Done.");
  EXPECT_EQ(model_.requests[0].at("max_tokens").as_int64(), 100);
  EXPECT_EQ(model_.requests[1].at("max_tokens").as_int64(), 200);
  EXPECT_THAT(json::serialize(messages(1)), Not(HasSubstr("tool_use")));
  EXPECT_THAT(last_text(1), HasSubstr("nothing was run"));
}

TEST_F(AgentLoopTest, AsksTheSameAgainWithMoreRoomWhenNothingElseIsLeftOfACutTurn) {
  will_say({call_block("a", "half")}, "max_tokens");
  will_say({text_block("Done.")}, "end_turn");
  run();
  EXPECT_EQ(messages(1), messages(0));
}

TEST_F(AgentLoopTest, JoinsTheTwoHalvesOfAnAnswer) {
  will_say({text_block("One, two, ")}, "max_tokens");
  will_say({text_block("three.")}, "end_turn");
  const auto report = run();
  EXPECT_EQ(report.answer, "One, two, three.");
  EXPECT_EQ(report.stopped_because, StoppedBecause::answered);
}

TEST_F(AgentLoopTest, StopsWhenAnAnswerIsCutOffTwice) {
  will_say({text_block("One, ")}, "max_tokens");
  will_say({text_block("two, ")}, "max_tokens");
  const auto report = run();
  EXPECT_EQ(report.stopped_because, StoppedBecause::truncated);
  EXPECT_EQ(report.answer, "One, two, ");
  EXPECT_FALSE(report.error.message.empty());
}

TEST_F(AgentLoopTest, GoesOnWithAPausedTurnWithoutAWord) {
  will_say({text_block("Searching")}, "pause_turn", {{"container", {{"id", "cnt_1"}}}});
  will_say({text_block("Found.")}, "end_turn");
  const auto report = run();
  EXPECT_EQ(report.answer, "Found.");
  const auto sent = messages(1);
  ASSERT_EQ(sent.size(), 2U);
  EXPECT_EQ(sent[1].at("role").as_string(), "assistant");
  EXPECT_EQ(model_.requests[1].at("container").as_string(), "cnt_1");
  EXPECT_EQ(model_.requests[1].at("tools"), model_.requests[0].at("tools"));
}

TEST_F(AgentLoopTest, ReportsARefusalAndDoesNotAskAgain) {
  will_say({}, "refusal", {{"stop_details", {{"category", "cyber"}, {"explanation", "Not this."}}}});
  const auto report = run();
  EXPECT_EQ(report.stopped_because, StoppedBecause::refused);
  EXPECT_EQ(report.error.category, "cyber");
  EXPECT_EQ(report.error.message, "Not this.");
  EXPECT_EQ(model_.requests.size(), 1U);
}

TEST_F(AgentLoopTest, StopsWhenTheConversationIsTooLongOrTheReasonIsUnknown) {
  will_say({text_block("So far")}, "model_context_window_exceeded");
  const auto too_long = run();
  EXPECT_EQ(too_long.stopped_because, StoppedBecause::truncated);
  EXPECT_EQ(too_long.answer, "So far");
  will_say({text_block("x")}, "stop_of_the_future");
  const auto unknown = run();
  EXPECT_EQ(unknown.stopped_because, StoppedBecause::model_error);
  EXPECT_THAT(unknown.error.message, HasSubstr("stop_of_the_future"));
}

TEST_F(AgentLoopTest, AsksOnceForWordsWhenTheModelSaysNothing) {
  will_say({}, "end_turn");
  will_say({text_block("Four.")}, "end_turn");
  EXPECT_EQ(run().answer, "Four.");
  will_say({}, "end_turn");
  will_say({}, "end_turn");
  EXPECT_EQ(run().stopped_because, StoppedBecause::model_error);
}

TEST_F(AgentLoopTest, LeavesOutPicturesThatNoServerTakes) {
  HandOutcome outcome{.text = "plots", .ran_code = true, .status = "ok"};
  outcome.images = {{.mime = "image/png", .bytes = "PNG"},
                    {.mime = "image/svg+xml", .bytes = "<svg/>"},
                    {.mime = "image/png", .bytes = std::string(8 << 20, 'x')}};
  hands_give(std::move(outcome));
  will_say({call_block("a", "1")}, "tool_use");
  will_say({text_block("Done.")}, "end_turn");
  run();
  const auto content = messages(1).back().at("content").at(0).at("content").as_array();
  ASSERT_EQ(content.size(), 2U);
  EXPECT_EQ(content[1].at("source").at("data").as_string(), "UE5H");
  EXPECT_THAT(std::string(content[0].at("text").as_string()), HasSubstr("a picture of 6 bytes is not shown"));
}

}  // namespace
}  // namespace hutch::agent
