#include "base/utf8.h"

#include <gtest/gtest.h>

namespace hutch {
namespace {

TEST(Utf8, LeavesValidTextAlone) {
  for (const std::string_view text : {"", "plain", "中文 にほん 한국어", "\xF0\x9F\x90\xB0"}) {
    EXPECT_EQ(clean_utf8(text), text);
    EXPECT_TRUE(is_utf8(text));
  }
}

TEST(Utf8, ReplacesEveryMalformedSequence) {
  EXPECT_EQ(clean_utf8("a\xFFz"), "a\xEF\xBF\xBDz");
  EXPECT_EQ(clean_utf8("\xC0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD");                  // overlong
  EXPECT_EQ(clean_utf8("\xED\xA0\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");  // surrogate
  EXPECT_EQ(clean_utf8("\xF4\x90\x80\x80"), "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD");
  EXPECT_EQ(clean_utf8("\xE4\xB8"), "\xEF\xBF\xBD");  // cut short: one maximal subpart
}

TEST(Utf8, FindsWhereACharacterIsCutInTwo) {
  EXPECT_EQ(complete_utf8_prefix("ab\xE4\xB8"), 2U);
  EXPECT_EQ(complete_utf8_prefix("ab\xE4\xB8\xAD"), 5U);
  EXPECT_EQ(complete_utf8_prefix("ab\xFF"), 3U);  // never a beginning, so nothing to wait for
  EXPECT_EQ(complete_utf8_prefix(""), 0U);
}

TEST(Utf8, EscapesWhatWouldMoveACursor) { EXPECT_EQ(printable("a\x1b[2Jb\n"), "a\\x1b[2Jb\\x0a"); }

TEST(Utf8, ShowsNoDirectionMarks) { EXPECT_EQ(printable("gpj.\u202Eexe 中"), "gpj.?exe 中"); }

}  // namespace
}  // namespace hutch
