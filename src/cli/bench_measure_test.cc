#include "cli/bench_measure.h"

#include <gtest/gtest.h>

namespace hutch {
namespace {

using std::chrono::microseconds;

std::vector<Nanoseconds> microseconds_up_to(int last) {
  std::vector<Nanoseconds> samples;
  for (int i = last; i >= 0; --i) samples.emplace_back(microseconds(i));
  return samples;
}

// A series that writes its letter each time it is measured.
Series letter(char name, int per_round, std::string& order) {
  return {.name = std::string(1, name),
          .measure = [name, &order]() -> Result<Took> {
            order += name;
            return Nanoseconds{microseconds(static_cast<int>(order.size()))};
          },
          .per_round = per_round};
}

void ignore_progress(const RoundProgress&) {}

Schedule rounds(int count, int warm_up) { return {.rounds = count, .warm_up = warm_up, .pause = {}}; }

TEST(BenchMeasure, SummarizesSamplesInAnyOrder) {
  const auto summary = summarize(microseconds_up_to(100));
  EXPECT_EQ(summary.count, 101U);
  EXPECT_DOUBLE_EQ(summary.p50_us, 50);
  EXPECT_EQ(summary.p95_us, 95);
  EXPECT_EQ(summary.p99_us, 99);
  EXPECT_DOUBLE_EQ(summary.spread, 1);
}

TEST(BenchMeasure, TakesThePointBetweenTwoSamples) {
  EXPECT_DOUBLE_EQ(percentile_us({microseconds(10), microseconds(20)}, 0.5), 15);
  EXPECT_DOUBLE_EQ(percentile_us({microseconds(10), microseconds(20)}, 1), 20);
  EXPECT_DOUBLE_EQ(percentile_us({microseconds(10)}, 0.95), 10);
}

TEST(BenchMeasure, GivesNoPercentileOfTooFew) {
  EXPECT_FALSE(summarize(microseconds_up_to(18)).p95_us);
  EXPECT_TRUE(summarize(microseconds_up_to(19)).p95_us);
  EXPECT_FALSE(summarize(microseconds_up_to(98)).p99_us);
}

TEST(BenchMeasure, SummarizesNothingAsZero) {
  const auto summary = summarize({});
  EXPECT_EQ(summary.count, 0U);
  EXPECT_EQ(summary.p50_us, 0);
  EXPECT_EQ(summary.spread, 0);
}

TEST(BenchMeasure, TakesTurnsAndTurnsRound) {
  std::string order;
  std::vector<Series> all{letter('a', 2, order), letter('b', 2, order), letter('s', 1, order)};
  const auto done = measure_in_turn(all, rounds(2, 0), ignore_progress);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(*done, 2);
  EXPECT_EQ(order, "absbaabsba");
  EXPECT_EQ(all[0].samples.size(), 4U);
  EXPECT_EQ(all[2].samples.size(), 2U);
}

TEST(BenchMeasure, ThrowsTheWarmUpAway) {
  std::string order;
  std::vector<Series> all{letter('a', 1, order)};
  ASSERT_TRUE(measure_in_turn(all, rounds(1, 3), ignore_progress));
  EXPECT_EQ(order, "aaaa");
  EXPECT_EQ(all[0].samples, std::vector<Nanoseconds>{microseconds(4)});
}

TEST(BenchMeasure, DoesAFewRoundsEvenWhenTheTimeIsUp) {
  std::string order;
  std::vector<Series> all{letter('a', 1, order)};
  const auto done = measure_in_turn(all, {.warm_up = 0, .pause = {}}, ignore_progress);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(*done, kFewestRounds);
}

TEST(BenchMeasure, EndsWithTheFirstFailureAndItsName) {
  std::vector<Series> all{
      {.name = "broken", .measure = []() -> Result<Took> { return make_error(ErrorCode::system, "no"); }}};
  const auto done = measure_in_turn(all, rounds(1, 0), ignore_progress);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().message, "broken: no");
}

std::vector<StepTook> steps(std::initializer_list<std::pair<const char*, int>> list) {
  std::vector<StepTook> result;
  for (const auto& [name, us] : list) result.push_back({.name = name, .took = microseconds(us)});
  return result;
}

TEST(BenchMeasure, KeepsTheStepsOfWhatIsKept) {
  int measured = 0;
  std::vector<Series> all{{.name = "start", .measure = [&measured]() -> Result<Took> {
                             return Took{microseconds(9), steps({{"fork", ++measured}})};
                           }}};
  ASSERT_TRUE(measure_in_turn(all, rounds(2, 1), ignore_progress));
  ASSERT_EQ(all[0].steps.size(), 2U);
  EXPECT_EQ(all[0].steps[0][0].took, microseconds(2));
}

TEST(BenchMeasure, SummarizesStepsInTheirOrderAndLeavesOutTheUnusual) {
  const auto usual = steps({{"fork", 10}, {"seccomp", 4}, {"run", 7}});
  const auto with_shell = steps({{"shell: proc", 90}, {"fork", 30}, {"seccomp", 6}, {"run", 7}});
  const auto waited = steps({{"wait", 5}, {"fork", 20}, {"seccomp", 5}, {"run", 7}});
  const auto summary = summarize_steps({usual, with_shell, waited, waited});
  ASSERT_EQ(summary.size(), 4U);
  EXPECT_EQ(summary[0].name, "wait");
  EXPECT_EQ(summary[0].count, 2U);
  EXPECT_EQ(summary[1].name, "fork");
  EXPECT_EQ(summary[1].count, 4U);
  EXPECT_DOUBLE_EQ(summary[1].p50_us, 20);
  EXPECT_EQ(summary[3].name, "run");
}

TEST(BenchMeasure, MergesNamesWhereTheyBelong) {
  using Names = std::vector<std::string>;
  EXPECT_EQ(merge_names({{"check", "made", "run"}, {"check", "fork", "join", "run", "drain"}}),
            (Names{"check", "fork", "join", "made", "run", "drain"}));
  EXPECT_TRUE(merge_names({}).empty());
}

}  // namespace
}  // namespace hutch
