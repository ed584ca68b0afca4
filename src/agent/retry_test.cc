#include "agent/retry.h"

#include <gtest/gtest.h>

namespace hutch::agent {
namespace {

using std::chrono::milliseconds;
using namespace std::chrono_literals;

const auto kNow = *parse_http_date("Sun, 06 Nov 1994 08:49:37 GMT");

std::optional<milliseconds> delay(FailedAttempt attempt, unsigned done = 0, double jitter = 0,
                                  RetryPolicy policy = {.most_retries = 10}) {
  return retry_delay(attempt, done, policy, jitter, kNow);
}

TEST(Retry, RepeatsWhatMayPassAndNothingElse) {
  for (const unsigned status : {0U, 408U, 409U, 429U, 500U, 502U, 503U, 504U, 529U}) {
    EXPECT_TRUE(delay({.status = status})) << status;
  }
  for (const unsigned status : {301U, 400U, 401U, 402U, 403U, 404U, 413U, 422U}) {
    EXPECT_FALSE(delay({.status = status})) << status;
  }
}

TEST(Retry, DoesWhatTheServerSaysBeforeAnythingElse) {
  EXPECT_TRUE(delay({.status = 400, .headers = {{"x-should-retry", "true"}}}));
  EXPECT_FALSE(delay({.status = 529, .headers = {{"x-should-retry", "false"}}}));
  EXPECT_TRUE(delay({.status = 529, .headers = {{"x-should-retry", "perhaps"}}}));
}

TEST(Retry, GivesUpAfterTheLastRetry) {
  EXPECT_TRUE(delay({.status = 500}, 1, 0, {}));
  EXPECT_FALSE(delay({.status = 500}, 2, 0, {}));
  EXPECT_FALSE(delay({.status = 500}, 0, 0, {.most_retries = 0}));
}

TEST(Retry, DoublesTheDelayUpToEightSecondsAndTakesAQuarterOffAtMost) {
  EXPECT_EQ(delay({}, 0), 500ms);
  EXPECT_EQ(delay({}, 1), 1000ms);
  EXPECT_EQ(delay({}, 4), 8000ms);
  EXPECT_EQ(delay({}, 9), 8000ms);
  EXPECT_EQ(delay({}, 0, 1), 375ms);
  EXPECT_EQ(delay({}, 4, 0.5), 7000ms);
  EXPECT_EQ(delay({}, 4, 17), 6000ms);
}

TEST(Retry, WaitsAsLongAsItIsAskedTo) {
  EXPECT_EQ(delay({.status = 429, .headers = {{"retry-after-ms", "1234"}, {"retry-after", "9"}}}), 1234ms);
  EXPECT_EQ(delay({.status = 429, .headers = {{"retry-after", "3"}}}, 5), 3000ms);
  EXPECT_EQ(delay({.status = 429, .headers = {{"retry-after", "0.25"}}}), 250ms);
  EXPECT_EQ(delay({.status = 503, .headers = {{"retry-after", "Sun, 06 Nov 1994 08:49:47 GMT"}}}), 10'000ms);
}

TEST(Retry, FallsBackOnItsOwnDelayWhenTheServersMakesNoSense) {
  for (const char* text :
       {"", "0", "-5", "soon", "nan", "inf", "3 s", "Sun, 06 Nov 1994 08:49:30 GMT", "Sun, 31 Feb 1999 08:49:30 GMT"}) {
    EXPECT_EQ(delay({.status = 429, .headers = {{"retry-after", text}}}), 500ms) << text;
  }
}

TEST(Retry, DoesNotWaitForHours) {
  EXPECT_FALSE(delay({.status = 429, .headers = {{"retry-after", "3600"}}}));
  EXPECT_FALSE(delay({.status = 429, .headers = {{"retry-after-ms", "1e300"}}}));
}

TEST(Retry, JudgesErrorsInsideAStreamAsIfTheyHadBeenTheAnswer) {
  EXPECT_TRUE(delay({.status = status_of_stream_error("overloaded_error")}));
  EXPECT_TRUE(delay({.status = status_of_stream_error("api_error")}));
  EXPECT_FALSE(delay({.status = status_of_stream_error("invalid_request_error")}));
}

TEST(Retry, ReadsOnlyRealDates) {
  EXPECT_EQ(std::chrono::system_clock::to_time_t(kNow), 784111777);
  EXPECT_FALSE(parse_http_date("Sun, 06 Nov 1994 24:49:37 GMT"));
  EXPECT_FALSE(parse_http_date("Sun, 00 Nov 1994 08:49:37 GMT"));
  EXPECT_FALSE(parse_http_date("Sun, 06 Foo 1994 08:49:37 GMT"));
  EXPECT_FALSE(parse_http_date("Sunday, 06-Nov-94 08:49:37 GMT"));
}

}  // namespace
}  // namespace hutch::agent
