#include "cli/progress_line.h"

#include <gtest/gtest.h>

namespace hutch {
namespace {

TEST(ProgressLineTest, ShowsHowFarItIs) {
  EXPECT_EQ(progress_text(0, 4, "begin", 80), "[                    ] 0/4 begin");
  EXPECT_EQ(progress_text(2, 4, "go on\nsecond line", 80), "[##########          ] 2/4 go on");
  EXPECT_EQ(progress_text(0, 0, "", 80), "[####################] 0/0 ");
}

TEST(ProgressLineTest, IsNeverWiderThanTheTerminal) {
  const std::string line = progress_text(1, 2, std::string(50, 'x') + "ééé", 40);
  EXPECT_LE(line.size(), 40);
  EXPECT_EQ(progress_text(1, 2, "éééééééé", 30).back(), '\xa9') << "a character was cut in two";
}

TEST(ProgressLineTest, SendsNoForeignControlCharacters) {
  EXPECT_EQ(progress_text(0, 1, "\x1b[2J\r", 80).find_first_of("\x1b\r"), std::string::npos);
}

}  // namespace
}  // namespace hutch
