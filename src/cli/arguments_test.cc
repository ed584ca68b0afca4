#include "cli/arguments.h"

#include <gtest/gtest.h>

namespace hutch {
namespace {

TEST(Arguments, ReadsTimes) {
  EXPECT_EQ(parse_seconds("30")->count(), 30'000);
  EXPECT_EQ(parse_seconds("0.5")->count(), 500);
  EXPECT_EQ(parse_seconds("2m")->count(), 120'000);
  EXPECT_EQ(parse_seconds("-1")->count(), -1'000);  // a time, but no limit: validate() says so
  for (const char* bad : {"", "abc", "1h", "nan", "inf", "1e300", "3 0"}) EXPECT_FALSE(parse_seconds(bad)) << bad;
}

TEST(Arguments, ReadsSizes) {
  EXPECT_EQ(parse_size("512M")->count, 512ULL << 20);
  EXPECT_EQ(parse_size("64MiB")->count, 64ULL << 20);
  EXPECT_EQ(parse_size("1.5g")->count, 3ULL << 29);
  EXPECT_EQ(parse_size("1000")->count, 1000U);
  for (const char* bad : {"", "M", "-1", "5X", "1e30", "12MM"}) EXPECT_FALSE(parse_size(bad)) << bad;
}

}  // namespace
}  // namespace hutch
