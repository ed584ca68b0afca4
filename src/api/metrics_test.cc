#include "api/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hutch {
namespace {

using testing::HasSubstr;

TEST(Metrics, CountEveryPhaseOfARunAndTheWaitBeforeIt) {
  Metrics metrics;
  metrics.add_phases({.validation_us = 400, .setup_us = 4'000, .execution_us = 40'000, .total_us = 50'000},
                     std::chrono::milliseconds(2'000));
  std::string text;
  metrics.print(text);
  for (const char* phase : {"validation", "queue", "setup", "execution", "collection", "total"}) {
    EXPECT_THAT(text, HasSubstr(std::string("hutch_run_seconds_count{phase=\"") + phase + "\"} 1\n"));
  }
  EXPECT_THAT(text, HasSubstr("hutch_run_seconds_bucket{phase=\"queue\",le=\"1\"} 0\n"));
  EXPECT_THAT(text, HasSubstr("hutch_run_seconds_bucket{phase=\"queue\",le=\"2.5\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("hutch_run_seconds_sum{phase=\"validation\"} 0.0004\n"));
}

TEST(Metrics, AClockThatWentBackIsNoWait) {
  Metrics metrics;
  metrics.add_phases({}, std::chrono::seconds(-5));
  std::string text;
  metrics.print(text);
  EXPECT_THAT(text, HasSubstr("hutch_run_seconds_sum{phase=\"queue\"} 0\n"));
}

}  // namespace
}  // namespace hutch
