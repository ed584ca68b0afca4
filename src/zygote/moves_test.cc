#include "zygote/moves.h"

#include <gtest/gtest.h>

#include <numeric>

namespace hutch {
namespace {

class MovesTest : public testing::Test {
 protected:
  // One turn of the keeper; returns what it has cost.
  std::size_t go_on() {
    std::size_t spent = 0;
    moves_.go_on(
        [&](std::uint64_t run) {
          spent += Moves::kListing;
          return threads_[run];
        },
        [&](std::uint64_t, pid_t thread) {
          ++spent;
          ++moved_[thread];
        });
    return spent;
  }
  std::size_t go_on_to_the_end() {
    std::size_t turns = 0;
    for (; !moves_.empty(); ++turns) EXPECT_LT(go_on(), Moves::kAtOnce + Moves::kListing);
    return turns;
  }
  static std::vector<pid_t> numbers(pid_t first, std::size_t count) {
    std::vector<pid_t> all(count);
    std::iota(all.begin(), all.end(), first);
    return all;
  }

  Moves moves_;
  std::map<std::uint64_t, std::vector<pid_t>> threads_;
  std::map<pid_t, int> moved_;
};

TEST_F(MovesTest, AFewThreadsMoveAtOnce) {
  threads_[1] = numbers(10, 3);
  moves_.add(1);
  go_on();
  EXPECT_TRUE(moves_.empty());
  EXPECT_EQ(moved_, (std::map<pid_t, int>{{10, 2}, {11, 2}, {12, 2}}));
}

TEST_F(MovesTest, NoTurnTakesLongHoweverManyThereAre) {
  threads_[1] = numbers(1'000, 4'096);
  moves_.add(1);
  for (std::uint64_t run = 2; run < 2'000; ++run) {
    threads_[run] = numbers(static_cast<pid_t>(run * 10'000), 2);
    moves_.add(run);
  }
  EXPECT_GT(go_on_to_the_end(), 100U);
  EXPECT_EQ(moved_.size(), 4'096U + 1'998U * 2);
}

TEST_F(MovesTest, WhoeverIsBornMeanwhileMovesToo) {
  threads_[1] = numbers(1, Moves::kAtOnce);
  moves_.add(1);
  go_on();
  threads_[1].push_back(9'999);
  go_on_to_the_end();
  EXPECT_EQ(moved_[9'999], 1);
}

TEST_F(MovesTest, OneThatGoesElsewhereBeginsAnew) {
  threads_[1] = numbers(1, Moves::kAtOnce);
  moves_.add(1);
  go_on();
  moved_.clear();
  moves_.add(1);
  go_on_to_the_end();
  EXPECT_EQ(moved_[1], 2);
  EXPECT_EQ(moved_[Moves::kAtOnce], 2);
}

TEST_F(MovesTest, ASandboxThatIsGoneIsForgotten) {
  moves_.add(7);
  go_on();
  EXPECT_TRUE(moves_.empty());
  EXPECT_TRUE(moved_.empty());
}

}  // namespace
}  // namespace hutch
