#include <gtest/gtest.h>

#include "session/pool_rules.h"

namespace hutch {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A machine of two processors on which nothing has happened for a while.
PoolSurroundings quiet() { return {.since_claim = seconds(1), .since_end = seconds(1), .cores = 2}; }

TEST(PoolRefill, IsMadeWhereNothingGoesOn) {
  EXPECT_TRUE(may_refill(quiet()));
  auto now = quiet();
  now.since_claim = milliseconds(0);  // its program is over already
  EXPECT_TRUE(may_refill(now));
}

TEST(PoolRefill, WaitsUntilTheAnswerIsWithItsReader) {
  auto now = quiet();
  now.since_end = milliseconds(1);
  EXPECT_FALSE(may_refill(now));
  now.some_are_short = true;
  EXPECT_FALSE(may_refill(now));
}

TEST(PoolRefill, WaitsForAQuietMomentBesideAProgram) {
  auto now = quiet();
  now.running = 1;
  EXPECT_TRUE(may_refill(now));
  now.since_claim = milliseconds(15);
  EXPECT_FALSE(may_refill(now));
  now.since_claim = seconds(1);
  now.running = 2;
  EXPECT_FALSE(may_refill(now));
}

TEST(PoolRefill, ThoseThatAreKeptBackAreMadeBesideManyPrograms) {
  auto now = quiet();
  now.running = 100;
  now.some_are_short = true;
  EXPECT_TRUE(may_refill(now));
  now.since_claim = milliseconds(3);
  EXPECT_FALSE(may_refill(now));
}

TEST(PoolRefill, NoneIsMadeWhileSandboxesPileUpThatAreTakenApart) {
  auto now = quiet();
  now.dying = 2;
  EXPECT_TRUE(may_refill(now));
  now.dying = 3;
  EXPECT_FALSE(may_refill(now));
  now.some_are_short = true;  // not even of those that are kept back
  EXPECT_FALSE(may_refill(now));
}

class PoolDemandTest : public testing::Test {
 protected:
  PoolDemand make(std::uint32_t kept_back = 0) {
    PoolDemand demand({.least = 1, .most = 3, .kept_back = kept_back});
    demand.note_use();
    return demand;
  }
  Clock::time_point now_ = Clock::time_point{} + std::chrono::hours(1);
};

TEST_F(PoolDemandTest, GrowsWithEveryMissAndNotBeyondItsLimit) {
  auto demand = make();
  EXPECT_EQ(demand.wanted(), 1U);
  EXPECT_FALSE(demand.wants_more(1));
  for (int miss = 0; miss < 5; ++miss) demand.note_miss(now_);
  EXPECT_EQ(demand.wanted(), 3U);
  EXPECT_TRUE(demand.wants_more(2));
  EXPECT_FALSE(demand.wants_more(3));
}

TEST_F(PoolDemandTest, ATemplateThatNobodyUsedWantsNone) {
  EXPECT_FALSE(PoolDemand({.least = 1, .most = 3}).wants_more(0));
}

TEST_F(PoolDemandTest, ForgetsOneAfterTheOther) {
  auto demand = make();
  demand.note_miss(now_);
  demand.note_miss(now_);
  EXPECT_FALSE(demand.forget_some(now_ + seconds(9)));
  EXPECT_TRUE(demand.forget_some(now_ + seconds(10)));
  EXPECT_EQ(demand.wanted(), 2U);
  EXPECT_FALSE(demand.forget_some(now_ + seconds(19)));
  EXPECT_TRUE(demand.forget_some(now_ + seconds(20)));
  EXPECT_FALSE(demand.forget_some(now_ + seconds(100)));  // the last one stays
  EXPECT_EQ(demand.wanted(), 1U);
}

TEST_F(PoolDemandTest, GivesUpAfterThreeFailuresAndTriesAgainLater) {
  auto demand = make(1);
  for (int failure = 0; failure < 3; ++failure) {
    EXPECT_TRUE(demand.wants_more(0));
    demand.note_failure(now_);
  }
  EXPECT_FALSE(demand.wants_more(0));
  EXPECT_FALSE(demand.is_short(0));
  EXPECT_FALSE(demand.forget_some(now_ + seconds(10)));
  EXPECT_TRUE(demand.wants_more(0));
}

TEST_F(PoolDemandTest, OneThatWasMadeMakesUpForFailures) {
  auto demand = make();
  demand.note_failure(now_);
  demand.note_failure(now_);
  demand.note_made();
  demand.note_failure(now_);
  EXPECT_TRUE(demand.wants_more(0));
}

TEST_F(PoolDemandTest, IsShortOfAsManyAsAreKeptBackAndWanted) {
  auto demand = make(2);
  EXPECT_TRUE(demand.is_short(0));
  EXPECT_FALSE(demand.is_short(1));  // one is wanted
  for (int miss = 0; miss < 5; ++miss) demand.note_miss(now_);
  EXPECT_TRUE(demand.is_short(1));
  EXPECT_FALSE(demand.is_short(2));  // three are wanted, two kept back
  EXPECT_TRUE(demand.wants_more(2));
  EXPECT_FALSE(make(0).is_short(0));
}

TEST_F(PoolDemandTest, WhoHadToWaitLeavesThoseThatAreKeptBack) {
  const auto demand = make(2);
  EXPECT_FALSE(demand.may_claim(0, false));
  EXPECT_TRUE(demand.may_claim(1, false));
  EXPECT_FALSE(demand.may_claim(2, true));
  EXPECT_TRUE(demand.may_claim(3, true));
}

}  // namespace
}  // namespace hutch
