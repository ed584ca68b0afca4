#include "api/tools/text_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace hutch {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::Not;

constexpr std::size_t kPlenty = 100'000;

std::string refusal(std::string_view content, ViewRange range) {
  const auto viewed = view_text("/workspace/a", content, range, kPlenty);
  return viewed ? "shown" : viewed.error().text;
}

TEST(TextView, NumbersLinesAsCatDoes) {
  const auto viewed = view_text("/workspace/a.py", "one\n\nthree", std::nullopt, kPlenty);
  ASSERT_TRUE(viewed) << viewed.error().text;
  EXPECT_EQ(viewed->text,
            "Here's the result of running `cat -n` on /workspace/a.py:\n     1\tone\n     2\t\n     3\tthree\n");
  EXPECT_EQ(viewed->content, "one\n\nthree");
  EXPECT_EQ(viewed->start_line, 1U);
  EXPECT_EQ(viewed->line_count, 3U);
  EXPECT_EQ(viewed->total_lines, 3U);
  EXPECT_FALSE(viewed->cut);
}

TEST(TextView, ShowsTheLinesAskedFor) {
  const auto middle = view_text("a", "1\n2\n3\n4\n", ViewRange{.first = 2, .last = 3}, kPlenty);
  EXPECT_THAT(middle->text, EndsWith(":\n     2\t2\n     3\t3\n"));
  EXPECT_EQ(middle->content, "2\n3\n");
  EXPECT_EQ(middle->start_line, 2U);
  EXPECT_EQ(middle->line_count, 2U);
  EXPECT_EQ(middle->total_lines, 4U);
  const auto rest = view_text("a", "1\n2\n3\n4\n", ViewRange{.first = 4, .last = -1}, kPlenty);
  EXPECT_EQ(rest->content, "4\n");
}

TEST(TextView, ALineEndsOnlyAtANewline) {
  const auto viewed = view_text("a",
                                "1\r2\v3\xe2\x80\xa8"
                                "4\r\n5",
                                std::nullopt, kPlenty);
  EXPECT_EQ(viewed->total_lines, 2U);
}

TEST(TextView, RangesOutsideTheFileAreRefused) {
  EXPECT_EQ(refusal("1\n2\n", {.first = 0, .last = 1}),
            "Invalid `view_range`: [0, 1]. Its first element should be within the range of lines of the file: [1, 2]");
  EXPECT_EQ(refusal("1\n2\n", {.first = 3, .last = -1}),
            "Invalid `view_range`: [3, -1]. Its first element should be within the range of lines of the file: [1, 2]");
  EXPECT_EQ(refusal("1\n2\n", {.first = 1, .last = 3}),
            "Invalid `view_range`: [1, 3]. Its second element should be within the range of lines of the file: [1, 2], "
            "or -1 for its end");
  EXPECT_EQ(refusal("1\n2\n", {.first = 2, .last = 1}),
            "Invalid `view_range`: [2, 1]. Its second element should not be smaller than the first, or -1 for the end "
            "of the file");
  EXPECT_THAT(refusal("1\n2\n", {.first = 1, .last = -2}), HasSubstr("should not be smaller"));
  EXPECT_THAT(not_a_view_range().text, HasSubstr("list of two integers"));
}

TEST(TextView, AnEmptyFileIsShownAsEmpty) {
  const auto viewed = view_text("a", "", std::nullopt, kPlenty);
  ASSERT_TRUE(viewed);
  EXPECT_THAT(viewed->text, EndsWith(":\n[The file is empty.]\n"));
  EXPECT_EQ(viewed->line_count, 0U);
  EXPECT_EQ(viewed->total_lines, 0U);
  EXPECT_EQ(refusal("", {.first = 1, .last = 1}), "shown");
  EXPECT_THAT(refusal("", {.first = 2, .last = -1}), HasSubstr("[1, 1]"));
}

TEST(TextView, ALongFileIsCutAtALineAndSaysHowToSeeTheRest) {
  const auto viewed = view_text("a", "aaaa\nbbbb\ncccc\n", std::nullopt, 25);
  ASSERT_TRUE(viewed);
  EXPECT_TRUE(viewed->cut);
  EXPECT_EQ(viewed->content, "aaaa\nbbbb\n");
  EXPECT_EQ(viewed->line_count, 2U);
  EXPECT_THAT(viewed->text, HasSubstr("     2\tbbbb\n[Only lines 1 to 2 of 3 are shown"));
  EXPECT_THAT(viewed->text, HasSubstr("Use view_range [3, -1] to see the next line."));
  const auto range = view_text("a", "aaaa\nbbbb\ncccc\ndddd\n", ViewRange{.first = 1, .last = 3}, 12);
  EXPECT_THAT(range->text, HasSubstr("Use view_range [2, 3] to see the lines that follow."));
}

TEST(TextView, ALongLineIsCutBetweenCharacters) {
  const auto viewed = view_text("a", "\xc3\xa9\xc3\xa9\xc3\xa9\xc3\xa9\nb\n", std::nullopt, 9);
  ASSERT_TRUE(viewed);
  EXPECT_EQ(viewed->content, "\xc3\xa9\xc3\xa9");
  EXPECT_THAT(viewed->text, HasSubstr("[Line 1 is too long"));
  EXPECT_THAT(viewed->text, HasSubstr("view_range [2, -1]"));
  EXPECT_FALSE(view_text("a", "abc\n", std::nullopt, 10)->cut);  // the end of the line needs no room
  EXPECT_EQ(view_text("a", "abc\n", std::nullopt, 0)->content, "");
}

TEST(TextView, WhatIsNotTextIsRefused) {
  EXPECT_EQ(view_text("a", "\x89PNG", std::nullopt, kPlenty).error().code, EditProblem::not_text);
}

TEST(TextView, ListsTwoLevelsWithoutHiddenItemsAndNodeModules) {
  const std::vector<DirectoryEntry> entries = {
      {.path = "src/deep/c.py", .size = {1}},
      {.path = "src", .is_directory = true, .size = {4096}},
      {.path = "a.txt", .size = {12}},
      {.path = ".git", .is_directory = true},
      {.path = "node_modules/x.js", .size = {1}},
      {.path = "src/.env", .size = {1}},
      {.path = "src/main.py", .size = {1536}},
      {.path = "big", .size = {(1 << 20) - 1}},
      {.path = "bad\nname", .size = {0}},
  };
  EXPECT_EQ(view_directory("/workspace/", entries),
            "Here're the files and directories up to 2 levels deep in /workspace/, excluding hidden items and "
            "node_modules:\n12B\t/workspace/a.txt\n0B\t/workspace/bad\\x0aname\n1.0M\t/workspace/big\n"
            "4.0K\t/workspace/src/\n1.5K\t/workspace/src/main.py\n");
  EXPECT_THAT(view_directory("/workspace", {}), EndsWith("[There are none.]\n"));
}

TEST(TextView, AListHasAnEnd) {
  std::vector<DirectoryEntry> entries(1500, {.path = "x", .size = {1}});
  EXPECT_THAT(view_directory("/workspace", entries), EndsWith("\n[500 more are not shown.]\n"));
}

TEST(TextView, ShowsFourLinesAroundAnEdit) {
  std::string content;
  for (int line = 1; line <= 20; ++line) content += "line " + std::to_string(line) + "\n";
  const auto edit = replace_text(content, "line 10\n", "ten\n");
  ASSERT_TRUE(edit) << edit.error().text;
  const std::string text = replaced_text(*edit, "/workspace/a");
  EXPECT_THAT(text, testing::StartsWith("Successfully replaced text at exactly one location. Here's the result of "
                                        "running `cat -n` on a snippet of /workspace/a:\n     6\tline 6\n"));
  EXPECT_THAT(text, HasSubstr("    10\tten\n"));
  EXPECT_THAT(text, EndsWith("    14\tline 14\nReview the changes and make sure they are as expected. Edit the file "
                             "again if necessary."));
}

TEST(TextView, SaysWhatAnEditDid) {
  EXPECT_EQ(created_text("/workspace/a"), "File created successfully at: /workspace/a");
  EXPECT_EQ(undone_text("/workspace/a"), "Last edit to /workspace/a undone successfully.");
  EXPECT_THAT(
      inserted_text(*insert_text("a\n", 1, "b"), "f"),
      HasSubstr("The file f has been edited. Here's the result of running `cat -n` on a snippet of f:\n     1\ta\n"
                "     2\tb\nReview"));
  EXPECT_THAT(replaced_text(*replace_text("a", "a", "a"), "f"), HasSubstr("as it was"));
  EXPECT_EQ(refuse_path(EditProblem::permission_denied, "f").text, "Error: Permission denied. Cannot write to file.");
  EXPECT_THAT(refuse_path(EditProblem::file_not_found, "f").text, HasSubstr("Error: File not found"));
}

TEST(TextView, ASnippetOfAHugeEditIsShort) {
  const auto edit = insert_text("", 0, std::string(900'000, '\n'));
  ASSERT_TRUE(edit);
  const std::string text = inserted_text(*edit, "f");
  EXPECT_LT(text.size(), 20'000U);
  EXPECT_THAT(text, HasSubstr("too long to be shown"));
  EXPECT_THAT(snippet("f", "a\n", 1, 1), Not(HasSubstr("too long")));
}

}  // namespace
}  // namespace hutch
