#include "session/host_calls.h"

#include <gtest/gtest.h>

namespace hutch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

constexpr HostCallCaps kCaps;

class HostCallsTest : public testing::Test {
 protected:
  auto call(std::uint32_t number, std::string name = "search", std::string input = "{}") {
    return calls_.take({.number = number, .name = std::move(name), .input = std::move(input)}, now_);
  }
  static wire::PythonError raised(std::string name, std::string value) {
    return {.name = std::move(name), .value = std::move(value)};
  }

  HostCalls calls_{ToolOffer{
      .definitions = "[]", .names = {"search", "fetch"}, .timeout = seconds(5), .is_input = [](std::string_view text) {
        return text.starts_with('{');
      }}};
  Clock::time_point now_ = Clock::now();
};

TEST(HostCalls, ANameIsAnIdentifierOfAtMost64Characters) {
  for (const char* name : {"a", "_", "search_2", "__class__", "Z9"}) EXPECT_TRUE(is_tool_name(name)) << name;
  for (const char* name : {"", "2a", "a-b", "a b", "a.b", "\xc3\xa4", "a\n"}) EXPECT_FALSE(is_tool_name(name)) << name;
  EXPECT_TRUE(is_tool_name(std::string(64, 'a')));
  EXPECT_FALSE(is_tool_name(std::string(65, 'a')));
}

TEST_F(HostCallsTest, OnlyWhatWasOfferedIsPassedOn) {
  const auto denied = call(1, "delete_all");
  ASSERT_FALSE(denied);
  EXPECT_EQ(denied.error().code, "tool_denied");
  EXPECT_FALSE(calls_.any_pending());
  EXPECT_FALSE(HostCalls().take({.number = 1, .name = "search", .input = "{}"}, now_));
  EXPECT_EQ((*call(2))->call_id, "call_1");
  EXPECT_FALSE(call(3, "search", "[]"));
}

TEST_F(HostCallsTest, AnAnswerGoesToTheNumberThatTheRunnerGaveAndOnlyOnce) {
  ASSERT_TRUE(call(70));
  ASSERT_TRUE(call(71));
  const auto answer = calls_.answer("call_2", ToolCallEnd::ok, "found");
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->number, 71U);
  EXPECT_TRUE(answer->ok);
  EXPECT_FALSE(calls_.answer("call_2", ToolCallEnd::ok, "again"));
  EXPECT_FALSE(calls_.answer("call_9", ToolCallEnd::ok, "never"));
  EXPECT_TRUE(calls_.any_pending());
}

TEST_F(HostCallsTest, ANumberThatIsPendingOrNoneIsNotPlausible) {
  ASSERT_TRUE(call(7));
  EXPECT_FALSE(calls_.is_plausible({.number = 7, .name = "search"}));
  EXPECT_FALSE(calls_.is_plausible({.number = 0, .name = "search"}));
  EXPECT_FALSE(calls_.is_plausible({.number = 8, .name = "no name"}));
  EXPECT_TRUE(calls_.is_plausible({.number = 8, .name = "not_offered"}));
}

TEST_F(HostCallsTest, PendingCallsAreCountedAndWeighed) {
  for (std::uint32_t i = 1; i <= kCaps.pending; ++i) ASSERT_TRUE(call(i));
  EXPECT_FALSE(call(1'000));
  ASSERT_EQ(calls_.cancel_all().size(), kCaps.pending);
  now_ += seconds(2);
  const std::string large = "{" + std::string(kCaps.input.count - 1, ' ');
  const auto first = call(2'000, "search", large);
  ASSERT_TRUE(first);
  for (std::uint32_t i = 1; i < kCaps.pending_input.count / kCaps.input.count; ++i) {
    ASSERT_TRUE(call(2'000 + i, "search", large));
  }
  EXPECT_FALSE(call(3'000, "search", large));
  ASSERT_TRUE(calls_.answer((*first)->call_id, ToolCallEnd::ok, ""));
  EXPECT_FALSE(call(3'001, "search", large + " "));
  EXPECT_TRUE(call(3'002, "search", large));
}

TEST_F(HostCallsTest, CallsAreLimitedByTheSecondAndByTheRun) {
  std::uint64_t accepted = 0;
  std::uint32_t number = 0;
  const auto flood = [&] {
    for (int i = 0; i < 1'000; ++i) {
      const auto taken = call(++number);
      if (!taken) continue;
      ++accepted;
      ASSERT_TRUE(calls_.answer((*taken)->call_id, ToolCallEnd::ok, ""));
    }
  };
  flood();
  EXPECT_EQ(accepted, kCaps.per_second);
  now_ += milliseconds(999);
  flood();
  EXPECT_EQ(accepted, kCaps.per_second);
  for (int second = 0; second < 20; ++second) {
    now_ += seconds(1);
    flood();
  }
  EXPECT_EQ(accepted, kCaps.calls);
}

TEST_F(HostCallsTest, WhatIsNotAnsweredInTimeExpires) {
  ASSERT_TRUE(call(1));
  now_ += seconds(3);
  ASSERT_TRUE(call(2));
  EXPECT_EQ(calls_.next_deadline(), now_ + seconds(2));
  EXPECT_TRUE(calls_.expire(now_).empty());
  const auto expired = calls_.expire(now_ + seconds(2));
  ASSERT_EQ(expired.size(), 1U);
  EXPECT_EQ(expired[0].result.number, 1U);
  EXPECT_EQ(expired[0].result.code, "tool_timeout");
  EXPECT_FALSE(calls_.answer("call_1", ToolCallEnd::ok, "late"));
  EXPECT_TRUE(calls_.any_pending());
}

TEST_F(HostCallsTest, WhatTheCodeDropsIsOver) {
  ASSERT_TRUE(call(7));
  EXPECT_TRUE(calls_.drop(8).empty());
  EXPECT_EQ(calls_.drop(7).at(0).call_id, "call_1");
  EXPECT_FALSE(calls_.any_pending());
  EXPECT_FALSE(calls_.answer("call_1", ToolCallEnd::ok, ""));
}

TEST_F(HostCallsTest, AFailureIsRecognisedByWhatWasAnswered) {
  ASSERT_TRUE(call(1));
  ASSERT_TRUE(calls_.answer("call_1", ToolCallEnd::error, "no such table"));
  ASSERT_TRUE(calls_.find_failure(raised("ToolError", "no such table")));
  EXPECT_EQ(calls_.find_failure(raised("ToolError", "no such table"))->code, "tool_error");
  EXPECT_FALSE(calls_.find_failure(raised("ToolError", "something else")));
  EXPECT_FALSE(calls_.find_failure(raised("TimeoutError", "no such table")));
  EXPECT_FALSE(calls_.find_failure(raised("ValueError", "no such table")));
  ASSERT_TRUE(call(2));
  const std::string text = calls_.expire(now_ + seconds(5)).at(0).result.text;
  EXPECT_EQ(calls_.find_failure(raised("TimeoutError", text))->code, "tool_timeout");
  EXPECT_FALSE(calls_.find_failure(raised("TimeoutError", "")));
  ASSERT_TRUE(call(3));
  ASSERT_TRUE(calls_.answer("call_3", ToolCallEnd::error, std::string(100'000, 'x')));
  EXPECT_TRUE(calls_.find_failure(raised("ToolError", std::string(4'094, 'x'))));
  EXPECT_FALSE(calls_.find_failure(raised("ToolError", "xxx")));
}

}  // namespace
}  // namespace hutch
