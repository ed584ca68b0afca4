// What the text editor tool shows of files and directories, and what it says after an edit. Pure functions, as in
// text_edit.h; names and contents come from a sandbox.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "api/tools/text_edit.h"
#include "base/units.h"

namespace hutch {

struct ViewRange {
  std::int64_t first = 1;
  std::int64_t last = -1;  // -1 is the end of the file
};
// For a view_range that cannot even be put into a ViewRange.
EditRefusal not_a_view_range();

struct ViewedText {
  std::string text;     // header and numbered lines, and a note when something was left out
  std::string content;  // the same lines as they are in the file
  std::size_t start_line = 1;
  std::size_t line_count = 0;  // shown, the last perhaps in part
  std::size_t total_lines = 0;
  bool cut = false;
};
// No more than `max_characters` of numbered lines are shown: whole lines, or the beginning of the first one.
Edited<ViewedText> view_text(std::string_view path, std::string_view content, std::optional<ViewRange> range,
                             std::size_t max_characters);

struct DirectoryEntry {
  std::string path;  // relative to the directory, as the sandbox named it
  bool is_directory = false;
  Bytes size;
};
// Filters by itself: two levels, nothing hidden, no node_modules. Sorted by path, at most a thousand lines.
std::string view_directory(std::string_view path, std::span<const DirectoryEntry> entries);

// The changed lines and four on each side, numbered, and the request to look at them.
std::string snippet(std::string_view path, std::string_view content, std::size_t first_line, std::size_t lines);

std::string created_text(std::string_view path);
std::string replaced_text(const Replacement& replacement, std::string_view path);  // with snippet
std::string inserted_text(const Insertion& insertion, std::string_view path);      // with snippet
std::string undone_text(std::string_view path);

}  // namespace hutch
