#include "sandbox/limits.h"

#include <gtest/gtest.h>

namespace hutch {
namespace {

TEST(Limits, DefaultsAreValid) { EXPECT_TRUE(validate(Limits{}, LimitCeiling{})); }

TEST(Limits, RefusesEveryFieldOutsideItsRange) {
  const auto refuses = [](auto change) {
    Limits limits;
    change(limits);
    return !validate(limits, LimitCeiling{});
  };
  EXPECT_TRUE(refuses([](Limits& l) { l.wall = std::chrono::milliseconds(0); }));
  EXPECT_TRUE(refuses([](Limits& l) { l.wall = std::chrono::milliseconds(-1); }));
  EXPECT_TRUE(refuses([](Limits& l) { l.wall = std::chrono::seconds(301); }));
  EXPECT_TRUE(refuses([](Limits& l) { l.cpu = std::chrono::milliseconds(0); }));
  EXPECT_TRUE(refuses([](Limits& l) { l.memory = 1_MiB; }));
  EXPECT_TRUE(refuses([](Limits& l) { l.memory = 65_GiB; }));
  EXPECT_TRUE(refuses([](Limits& l) { l.cpu_percent = 0; }));
  EXPECT_TRUE(refuses([](Limits& l) { l.processes = 0; }));
  EXPECT_TRUE(refuses([](Limits& l) { l.open_files = 1; }));
  EXPECT_TRUE(refuses([](Limits& l) { l.scratch = Bytes{0}; }));
  EXPECT_TRUE(refuses([](Limits& l) { l.inodes = 0; }));
  EXPECT_TRUE(refuses([](Limits& l) { l.output = Bytes{0}; }));
}

TEST(Limits, SaysWhichRangeInTheMessage) {
  Limits limits;
  limits.wall = std::chrono::seconds(1'000'000'000);
  const auto result = validate(limits, LimitCeiling{});
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().message, "the time limit must be between 0.1 s and 300 s, not 1e+09 s");
}

}  // namespace
}  // namespace hutch
