#include "api/tools/text_edit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace hutch {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

TEST(TextEdit, ReplacesTheOneOccurrence) {
  const auto edit = replace_text("one\ntwo\nthree\n", "two", "2\n2b");
  ASSERT_TRUE(edit) << edit.error().text;
  EXPECT_EQ(edit->content, "one\n2\n2b\nthree\n");
  EXPECT_EQ(edit->first_line, 2U);
  EXPECT_EQ(edit->old_lines, 1U);
  EXPECT_EQ(edit->new_lines, 2U);
  EXPECT_TRUE(edit->changed);
}

TEST(TextEdit, ReplacingNothingOrSeveralIsRefusedWithTheKnownSentences) {
  const auto none = replace_text("abc", "x", "y");
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, EditProblem::no_match);
  EXPECT_EQ(none.error().text, "Error: No match found for replacement. Please check your text and try again.");
  const auto several = replace_text("a b a b a", "a", "y");
  ASSERT_FALSE(several);
  EXPECT_EQ(several.error().code, EditProblem::multiple_matches);
  EXPECT_EQ(several.error().text,
            "Error: Found 3 matches for replacement text. Please provide more context to make a unique match.");
  const auto empty = replace_text("abc", "", "y");
  ASSERT_FALSE(empty);
  EXPECT_EQ(empty.error().code, EditProblem::bad_arguments);
  EXPECT_THAT(empty.error().text, HasSubstr("`old_str` is empty"));
}

TEST(TextEdit, OccurrencesThatOverlapCountAsPythonCountsThem) {
  EXPECT_EQ(replace_text("aaa", "aa", "b")->content, "ba");
  EXPECT_THAT(replace_text("aaaa", "aa", "b").error().text, HasSubstr("Found 2 matches"));
}

TEST(TextEdit, AReplacementByTheSameTextIsAllowedAndSaysSo) {
  const auto edit = replace_text("a\nb\n", "b", "b");
  ASSERT_TRUE(edit);
  EXPECT_FALSE(edit->changed);
  EXPECT_EQ(edit->content, "a\nb\n");
  EXPECT_THAT(edit->diff.lines, IsEmpty());
}

TEST(TextEdit, SearchTakesTimeInProportionToTheText) {
  const std::string content(1 << 20, 'a');
  const std::string wanted = std::string(1 << 19, 'a') + "b";
  EXPECT_EQ(replace_text(content, wanted, "").error().code, EditProblem::no_match);
}

TEST(TextEdit, DiffsWholeLinesAndOnlyThoseThatChange) {
  const auto diff = replace_text("x = 1\ny = 2\nz = 3\n", "= 2\nz", "= 5\nz")->diff;
  EXPECT_EQ(diff.old_start, 2U);
  EXPECT_EQ(diff.old_lines, 1U);
  EXPECT_EQ(diff.new_start, 2U);
  EXPECT_EQ(diff.new_lines, 1U);
  EXPECT_THAT(diff.lines, ElementsAre("-y = 2", "+y = 5"));
}

TEST(TextEdit, DiffsOfRemovedJoinedAndAddedLines) {
  const auto removed = replace_text("a\nb\nc\n", "b\n", "")->diff;
  EXPECT_THAT(removed.lines, ElementsAre("-b"));
  EXPECT_EQ(removed.old_start, 2U);
  EXPECT_EQ(removed.new_start, 1U);
  EXPECT_EQ(removed.new_lines, 0U);
  const auto joined = replace_text("a\nb\nc\n", "b\n", "b")->diff;
  EXPECT_THAT(joined.lines, ElementsAre("-b", "-c", "+bc"));
  const auto added = replace_text("a\nb\n", "a\n", "a\nx\n")->diff;
  EXPECT_THAT(added.lines, ElementsAre("+x"));
  EXPECT_EQ(added.old_start, 1U);
  EXPECT_EQ(added.old_lines, 0U);
  EXPECT_EQ(added.new_start, 2U);
  const auto ended = replace_text("a", "a", "a\n")->diff;
  EXPECT_THAT(ended.lines, ElementsAre("-a", "\\ No newline at end of file", "+a"));
}

TEST(TextEdit, InACrlfFileABareLineEndMeansCrlf) {
  const auto edit = replace_text("one\r\ntwo\r\nthree\r\n", "one\ntwo", "1\n2");
  ASSERT_TRUE(edit) << edit.error().text;
  EXPECT_EQ(edit->content, "1\r\n2\r\nthree\r\n");
  EXPECT_EQ(replace_text("one\r\ntwo\n", "two", "2\n3")->content, "one\r\n2\n3\n");  // mixed: as given
}

TEST(TextEdit, InsertsWholeLinesAnywhere) {
  EXPECT_EQ(insert_text("a\nb\n", 0, "x")->content, "x\na\nb\n");
  EXPECT_EQ(insert_text("a\nb\n", 1, "x\ny\n")->content, "a\nx\ny\nb\n");
  EXPECT_EQ(insert_text("a\nb\n", 2, "x")->content, "a\nb\nx\n");
  EXPECT_EQ(insert_text("", 0, "x")->content, "x\n");
  EXPECT_EQ(insert_text("a\n", 1, "")->content, "a\n\n");
  const auto edit = insert_text("a\nb\n", 1, "x\ny");
  EXPECT_EQ(edit->first_line, 2U);
  EXPECT_EQ(edit->lines, 2U);
}

TEST(TextEdit, InsertingNeverGluesLinesTogether) {
  EXPECT_EQ(insert_text("a\nb", 1, "x")->content, "a\nx\nb");
  EXPECT_EQ(insert_text("a\nb", 2, "x")->content, "a\nb\nx");
  EXPECT_EQ(insert_text("a\nb", 2, "x\n")->content, "a\nb\nx\n");
  EXPECT_EQ(insert_text("a", 1, "")->content, "a\n\n");
}

TEST(TextEdit, InsertsCrlfWhereAllLinesHaveIt) {
  EXPECT_EQ(insert_text("a\r\nb\r\n", 1, "x\ny")->content, "a\r\nx\r\ny\r\nb\r\n");
  EXPECT_EQ(insert_text("a\r\nb", 2, "x\r\n")->content, "a\r\nb\r\nx\r\n");
  EXPECT_EQ(insert_text("a\r\nb\n", 2, "x")->content, "a\r\nb\nx\n");
}

TEST(TextEdit, AnInsertLineBeyondTheFileIsRefused) {
  const auto beyond = insert_text("a\nb\n", 3, "x");
  ASSERT_FALSE(beyond);
  EXPECT_EQ(beyond.error().code, EditProblem::bad_arguments);
  EXPECT_EQ(beyond.error().text,
            "Invalid `insert_line` parameter: 3. It should be within the range of lines of the file: [0, 2]");
  EXPECT_FALSE(insert_text("a\nb\n", -1, "x"));
}

TEST(TextEdit, WhatIsNoTextOrTooLargeIsRefusedAndNeverMade) {
  EXPECT_EQ(replace_text("a\xff", "a", "b").error().code, EditProblem::not_text);
  EXPECT_EQ(insert_text("a\xff", 0, "b").error().code, EditProblem::not_text);
  EXPECT_EQ(replace_text("a", "a", "\xff").error().code, EditProblem::bad_arguments);
  EXPECT_EQ(replace_text("\xc3\xa9", "\xa9", "").error().code, EditProblem::bad_arguments);
  const std::string large(kMostEditable.count, 'a');
  EXPECT_TRUE(check_editable(large));
  EXPECT_EQ(check_editable(large + "a").error().code, EditProblem::too_large);
  EXPECT_EQ(insert_text(large, 0, "b").error().code, EditProblem::too_large);
  EXPECT_EQ(replace_text(large.substr(1) + "b", "b", "cc").error().code, EditProblem::too_large);
}

TEST(EditHistory, UndoesTheLastEditsOfAPathFromTheLastOn) {
  EditHistory history;
  history.remember("/workspace/a", std::nullopt);
  history.remember("/workspace/b", "b");
  history.remember("/workspace/a", "first");
  EXPECT_EQ(history.undo("/workspace/a"), "first");
  EXPECT_EQ(history.undo("/workspace/a").value(), std::nullopt);
  const auto nothing = history.undo("/workspace/a");
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().text, "No edit history found for /workspace/a.");
  EXPECT_EQ(history.undo("/workspace/b"), "b");
}

TEST(EditHistory, KeepsSixteenVersionsOfAPath) {
  EditHistory history;
  history.remember("b", "kept");
  for (int version = 0; version < 20; ++version) history.remember("a", std::to_string(version));
  for (int version = 19; version >= 4; --version) EXPECT_EQ(history.undo("a"), std::to_string(version));
  EXPECT_FALSE(history.undo("a"));
  EXPECT_EQ(history.undo("b"), "kept");
}

TEST(EditHistory, KeepsFourMebibytesInAll) {
  EditHistory history;
  for (int file = 0; file < 6; ++file) history.remember(std::to_string(file), std::string(1 << 20, 'x'));
  for (const char* gone : {"0", "1", "2"}) EXPECT_FALSE(history.undo(gone)) << gone;
  for (const char* kept : {"3", "4", "5"}) EXPECT_TRUE(history.undo(kept)) << kept;
  // What was undone no longer counts.
  for (int file = 0; file < 3; ++file) history.remember(std::to_string(file), std::string(1 << 20, 'x'));
  EXPECT_TRUE(history.undo("0"));
}

}  // namespace
}  // namespace hutch
