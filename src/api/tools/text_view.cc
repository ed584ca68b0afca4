#include "api/tools/text_view.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <ranges>
#include <utility>
#include <vector>

#include "api/tools/text_lines.h"
#include "base/utf8.h"

namespace hutch {
namespace {

constexpr std::size_t kSnippetContext = 4;
constexpr std::size_t kMostSnippetCharacters = 16'000;
constexpr std::size_t kMostListed = 1000;
constexpr std::size_t kMostListedDepth = 2;

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string_view first_characters(std::string_view text, std::size_t most) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80 && most-- == 0) break;
  }
  return text.substr(0, at);
}

struct Numbered {
  std::string text;
  std::size_t bytes = 0;  // of the content that is shown
  std::size_t lines = 0;
  bool line_cut = false;  // not even the first line fits
};

// What `cat -n` prints for these lines, as far as it fits. The last line shown always gets its end.
Numbered number_lines(std::string_view lines, std::size_t first, std::size_t max_characters) {
  Numbered numbered;
  std::string_view rest = lines;
  std::size_t left = max_characters;
  while (!rest.empty()) {
    const std::string_view line = take_line(rest);
    const std::string_view body = line.substr(0, line.size() - (line.ends_with('\n') ? 1 : 0));
    const std::string number = fmt::format("{:6}\t", first + numbered.lines);
    const std::size_t characters = number.size() + count_characters(body);
    if (characters > left && numbered.lines > 0) break;
    const std::string_view shown = first_characters(body, left - std::min(left, number.size()));
    numbered.text.append(number).append(shown) += '\n';
    ++numbered.lines;
    numbered.line_cut = shown.size() < body.size();
    numbered.bytes += numbered.line_cut ? shown.size() : line.size();
    if (numbered.line_cut) break;
    left -= std::min(left, characters + 1);
  }
  return numbered;
}

// The lines asked for, as numbers from 1 to `total`; of an empty file, line 1.
Edited<std::pair<std::size_t, std::size_t>> check_range(const ViewRange& range, std::size_t total) {
  const auto last_line = static_cast<std::int64_t>(std::max<std::size_t>(total, 1));
  const auto invalid = [&](const std::string& why) {
    return std::unexpected(
        EditRefusal{.code = EditProblem::bad_arguments,
                    .text = fmt::format("Invalid `view_range`: [{}, {}]. {}", range.first, range.last, why)});
  };
  if (range.first < 1 || range.first > last_line) {
    return invalid(
        fmt::format("Its first element should be within the range of lines of the file: [1, {}]", last_line));
  }
  if (range.last == -1) return std::pair<std::size_t, std::size_t>(range.first, last_line);
  if (range.last > last_line) {
    return invalid(fmt::format(
        "Its second element should be within the range of lines of the file: [1, {}], or -1 for its end", last_line));
  }
  if (range.last < range.first) {
    return invalid("Its second element should not be smaller than the first, or -1 for the end of the file");
  }
  return std::pair<std::size_t, std::size_t>(range.first, range.last);
}

// Says what is missing and how to see it.
std::string cut_note(const ViewedText& viewed, bool line_cut, std::size_t last_wanted) {
  const std::size_t last = viewed.start_line + viewed.line_count - 1;
  std::string note =
      line_cut ? fmt::format("[Line {} is too long: only its beginning is shown. Use code to see the rest of it.", last)
               : fmt::format("[Only lines {} to {} of {} are shown, because the file is too long.", viewed.start_line,
                             last, viewed.total_lines);
  if (last < last_wanted) {
    note += fmt::format(" Use view_range [{}, {}] to see {}.", last + 1,
                        last_wanted == viewed.total_lines ? "-1" : std::to_string(last_wanted),
                        last_wanted == last + 1 ? "the next line" : "the lines that follow");
  }
  return note + "]\n";
}

bool is_listed(std::string_view path) {
  std::size_t depth = 0;
  while (!path.empty()) {
    const std::string_view part = path.substr(0, path.find('/'));
    path.remove_prefix(std::min(path.size(), part.size() + 1));
    if (part.empty() || part.starts_with('.') || part == "node_modules" || ++depth > kMostListedDepth) return false;
  }
  return depth > 0;
}

std::string human_size(Bytes size) {
  if (size.count < 1024) return fmt::format("{}B", size.count);
  auto value = static_cast<double>(size.count) / 1024;
  constexpr std::string_view kUnits = "KMGTPE";
  std::size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < kUnits.size()) {  // 1023.96 would be printed as 1024.0
    value /= 1024;
    ++unit;
  }
  return fmt::format("{:.1f}{}", value, kUnits[unit]);
}

}  // namespace

EditRefusal not_a_view_range() {
  return {.code = EditProblem::bad_arguments,
          .text =
              "Invalid `view_range`. It should be a list of two integers: the first and the last line, counted from "
              "1, or -1 for the end of the file."};
}

Edited<ViewedText> view_text(std::string_view path, std::string_view content, std::optional<ViewRange> range,
                             std::size_t max_characters) {
  if (auto editable = check_editable(content); !editable) return std::unexpected(std::move(editable).error());
  ViewedText viewed{.total_lines = count_lines(content)};
  const auto wanted = check_range(range.value_or(ViewRange{}), viewed.total_lines);
  if (!wanted) return std::unexpected(wanted.error());
  const auto [first, last] = *wanted;
  const std::string_view from = content.substr(line_offset(content, first - 1));
  const std::string_view lines = from.substr(0, line_offset(from, last - first + 1));
  const Numbered numbered = number_lines(lines, first, max_characters);
  viewed.content = lines.substr(0, numbered.bytes);
  viewed.start_line = first;
  viewed.line_count = numbered.lines;
  viewed.cut = numbered.bytes < lines.size();
  viewed.text = fmt::format("Here's the result of running `cat -n` on {}:\n{}", path, numbered.text);
  if (content.empty()) viewed.text += "[The file is empty.]\n";
  if (viewed.cut) viewed.text += cut_note(viewed, numbered.line_cut, last);
  return viewed;
}

std::string view_directory(std::string_view path, std::span<const DirectoryEntry> entries) {
  std::vector<const DirectoryEntry*> listed;
  for (const DirectoryEntry& entry : entries) {
    if (is_listed(entry.path)) listed.push_back(&entry);
  }
  std::ranges::sort(listed, {}, [](const DirectoryEntry* entry) -> const std::string& { return entry->path; });
  std::string text = fmt::format(
      "Here're the files and directories up to 2 levels deep in {}, excluding hidden items and node_modules:\n", path);
  while (path.ends_with('/')) path.remove_suffix(1);
  for (const DirectoryEntry* entry : listed | std::views::take(kMostListed)) {
    std::string_view relative = entry->path;
    if (relative.ends_with('/')) relative.remove_suffix(1);
    fmt::format_to(std::back_inserter(text), "{}\t{}/{}{}\n", human_size(entry->size), path, printable(relative),
                   entry->is_directory ? "/" : "");
  }
  if (listed.empty()) text += "[There are none.]\n";
  if (listed.size() > kMostListed) text += fmt::format("[{} more are not shown.]\n", listed.size() - kMostListed);
  return text;
}

std::string snippet(std::string_view path, std::string_view content, std::size_t first_line, std::size_t lines) {
  const std::size_t begin = first_line > kSnippetContext ? first_line - kSnippetContext : 1;
  const std::size_t end = first_line + std::max<std::size_t>(lines, 1) + kSnippetContext;  // the line after the last
  const std::string_view from = content.substr(line_offset(content, begin - 1));
  const std::string_view shown = from.substr(0, line_offset(from, end - begin));
  const Numbered numbered = number_lines(shown, begin, kMostSnippetCharacters);
  return fmt::format(
      "Here's the result of running `cat -n` on a snippet of {}:\n{}{}Review the changes and make sure they are as "
      "expected. Edit the file again if necessary.",
      path, numbered.text, numbered.bytes < shown.size() ? "[The rest of the snippet is too long to be shown.]\n" : "");
}

std::string created_text(std::string_view path) { return fmt::format("File created successfully at: {}", path); }

std::string replaced_text(const Replacement& replacement, std::string_view path) {
  if (!replacement.changed) return "`old_str` and `new_str` are the same: the file is as it was.";
  return "Successfully replaced text at exactly one location. " +
         snippet(path, replacement.content, replacement.first_line, replacement.new_lines);
}

std::string inserted_text(const Insertion& insertion, std::string_view path) {
  return fmt::format("The file {} has been edited. {}", path,
                     snippet(path, insertion.content, insertion.first_line, insertion.lines));
}

std::string undone_text(std::string_view path) { return fmt::format("Last edit to {} undone successfully.", path); }

}  // namespace hutch
