#include "sandbox/limits.h"

#include <gmock/gmock.h>
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

TEST(Limits, RefusesWhatIsAboveTheOperatorsCeilingAndNamesTheSetting) {
  const LimitCeiling ceiling{.memory = 1_GiB, .scratch = 128_MiB, .processes = 100, .cpu_percent = 200};
  const auto refusal = [&](auto change) {
    Limits limits;
    change(limits);
    const auto checked = validate(limits, ceiling);
    return checked ? std::string("allowed") : checked.error().message + "; " + checked.error().hint;
  };
  EXPECT_EQ(refusal([](Limits& l) { l.memory = 1_GiB; }), "allowed");
  EXPECT_EQ(refusal([](Limits& l) { l.memory = 2_GiB; }),
            "the memory limit must be between 16777216 and 1073741824, not 2147483648; "
            "engine.max_memory in the configuration says how much is allowed");
  EXPECT_THAT(refusal([](Limits& l) { l.scratch = 129_MiB; }), testing::HasSubstr("engine.max_scratch"));
  EXPECT_THAT(refusal([](Limits& l) { l.processes = 101; }), testing::HasSubstr("between 1 and 100, not 101"));
  EXPECT_THAT(refusal([](Limits& l) { l.cpu_percent = 201; }), testing::HasSubstr("between 1 and 200, not 201"));
}

TEST(Limits, AllowsNoMoreScratchThanMemory) {
  Limits limits;
  limits.scratch = 2_GiB;
  EXPECT_TRUE(validate(limits, {.memory = 4_GiB, .scratch = 3_GiB}));
  EXPECT_FALSE(validate(limits, {.memory = 1_GiB, .scratch = 3_GiB}));
}

TEST(Limits, DefaultsFitEveryMachine) {
  const auto ceiling = LimitCeiling::of_this_machine();
  EXPECT_TRUE(validate(Limits{}, ceiling));
  EXPECT_LE(ceiling.memory, 64_GiB);
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
