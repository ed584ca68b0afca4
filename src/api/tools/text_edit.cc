#include "api/tools/text_edit.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <span>
#include <utility>

#include "api/tools/text_lines.h"
#include "base/utf8.h"

namespace hutch {
namespace {

constexpr std::size_t kMostVersions = 16;  // of one path
constexpr std::size_t kMostHistory = 4 << 20;
constexpr std::size_t kVersionOverhead = 256;  // so that a million empty files are not for nothing

std::unexpected<EditRefusal> refuse(EditProblem problem, std::string text) {
  return std::unexpected(EditRefusal{.code = problem, .text = std::move(text)});
}

// Looking through a text of many 'a' for many 'a' and a 'b' must not take hours: memmem(3) is linear, find() is not.
std::size_t find_from(std::string_view text, std::string_view wanted, std::size_t from) {
  const void* found = ::memmem(text.data() + from, text.size() - from, wanted.data(), wanted.size());
  return found == nullptr ? std::string_view::npos
                          : static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

// Without overlaps, as Python's str.count.
std::size_t count_matches(std::string_view text, std::string_view wanted) {
  std::size_t count = 0;
  for (std::size_t at = find_from(text, wanted, 0); at != std::string_view::npos; ++count) {
    at = find_from(text, wanted, at + wanted.size());
  }
  return count;
}

bool all_lines_end_in_crlf(std::string_view content) {
  if (!content.contains('\n')) return false;
  for (std::size_t at = content.find('\n'); at != std::string_view::npos; at = content.find('\n', at + 1)) {
    if (at == 0 || content[at - 1] != '\r') return false;
  }
  return true;
}

std::string with_crlf(std::string_view text) {
  std::string result;
  result.reserve(text.size());
  char previous = '\0';
  for (const char c : text) {
    if (c == '\n' && previous != '\r') result += '\r';
    result += c;
    previous = c;
  }
  return result;
}

void append_diff_lines(std::vector<std::string>& lines, char sign, std::span<const std::string_view> from) {
  for (std::string_view line : from) {
    const bool ended = line.ends_with('\n');
    if (ended) line.remove_suffix(1);
    lines.push_back(sign + std::string(line));
    if (!ended) lines.emplace_back("\\ No newline at end of file");
  }
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) lines.push_back(take_line(text));
  return lines;
}

// Old and new are whole lines of the two contents, from line `first` on. What they share at both ends is no change.
EditDiff make_diff(std::string_view old_text, std::string_view new_text, std::size_t first) {
  const auto old_all = split_lines(old_text);
  const auto new_all = split_lines(new_text);
  std::span<const std::string_view> old_lines = old_all;
  std::span<const std::string_view> new_lines = new_all;
  while (!old_lines.empty() && !new_lines.empty() && old_lines.front() == new_lines.front()) {
    old_lines = old_lines.subspan(1);
    new_lines = new_lines.subspan(1);
    ++first;
  }
  while (!old_lines.empty() && !new_lines.empty() && old_lines.back() == new_lines.back()) {
    old_lines = old_lines.first(old_lines.size() - 1);
    new_lines = new_lines.first(new_lines.size() - 1);
  }
  EditDiff diff{.old_start = old_lines.empty() ? first - 1 : first,
                .old_lines = old_lines.size(),
                .new_start = new_lines.empty() ? first - 1 : first,
                .new_lines = new_lines.size()};
  append_diff_lines(diff.lines, '-', old_lines);
  append_diff_lines(diff.lines, '+', new_lines);
  return diff;
}

Edited<void> check_argument(std::string_view argument, std::string_view name) {
  if (is_utf8(argument)) return {};
  return refuse(EditProblem::bad_arguments, fmt::format("Error: `{}` is not valid UTF-8 text.", name));
}

}  // namespace

std::string_view name(EditProblem problem) {
  switch (problem) {
    case EditProblem::file_not_found:
      return "file_not_found";
    case EditProblem::not_a_file:
      return "not_a_file";
    case EditProblem::is_directory:
      return "is_directory";
    case EditProblem::invalid_path:
      return "invalid_path";
    case EditProblem::no_match:
      return "no_match";
    case EditProblem::multiple_matches:
      return "multiple_matches";
    case EditProblem::bad_arguments:
      return "bad_arguments";
    case EditProblem::permission_denied:
      return "permission_denied";
    case EditProblem::too_large:
      return "too_large";
    case EditProblem::not_text:
      return "not_text";
  }
  return "bad_arguments";
}

EditRefusal refuse_path(EditProblem problem, std::string_view path) {
  const auto text = [&]() -> std::string {
    switch (problem) {
      case EditProblem::file_not_found:
        return fmt::format("Error: File not found. The path {} does not exist. Please provide a valid path.", path);
      case EditProblem::not_a_file:
        return fmt::format("Error: {} is not a regular file.", path);
      case EditProblem::is_directory:
        return fmt::format("Error: {} is a directory, and only the `view` command can be used on directories.", path);
      case EditProblem::permission_denied:
        return "Error: Permission denied. Cannot write to file.";
      case EditProblem::too_large:
        return fmt::format("Error: The file is larger than the {} MiB that can be edited here. Use code to work on it.",
                           kMostEditable.count >> 20);
      case EditProblem::not_text:
        return "Error: The file is not UTF-8 text. Use code to read or change it.";
      case EditProblem::invalid_path:
      case EditProblem::no_match:
      case EditProblem::multiple_matches:
      case EditProblem::bad_arguments:
        break;
    }
    return fmt::format("Error: The path {} cannot be used here. Please provide a path in the workspace.", path);
  };
  return {.code = problem, .text = text()};
}

Edited<void> check_editable(std::string_view content) {
  if (content.size() > kMostEditable.count) return std::unexpected(refuse_path(EditProblem::too_large, ""));
  if (!is_utf8(content)) return std::unexpected(refuse_path(EditProblem::not_text, ""));
  return {};
}

Edited<Replacement> replace_text(std::string_view content, std::string_view old_text, std::string_view new_text) {
  if (auto editable = check_editable(content); !editable) return std::unexpected(std::move(editable).error());
  if (auto checked = check_argument(old_text, "old_str"); !checked) return std::unexpected(checked.error());
  if (auto checked = check_argument(new_text, "new_str"); !checked) return std::unexpected(checked.error());
  if (old_text.empty()) {
    return refuse(
        EditProblem::bad_arguments,
        "Error: `old_str` is empty. Give the text to replace; to add text, use `insert`, and to write a whole "
        "file, `create`.");
  }
  std::string old_crlf;
  std::string new_crlf;
  if (all_lines_end_in_crlf(content)) {
    old_text = old_crlf = with_crlf(old_text);
    new_text = new_crlf = with_crlf(new_text);
  }
  const std::size_t matches = count_matches(content, old_text);
  if (matches == 0) {
    return refuse(EditProblem::no_match,
                  "Error: No match found for replacement. Please check your text and try again.");
  }
  if (matches > 1) {
    return refuse(EditProblem::multiple_matches,
                  fmt::format("Error: Found {} matches for replacement text. Please provide more context to make a "
                              "unique match.",
                              matches));
  }
  const std::size_t at = find_from(content, old_text, 0);
  const std::string_view before = content.substr(0, at);
  const std::string_view after = content.substr(at + old_text.size());
  if (before.size() + new_text.size() + after.size() > kMostEditable.count) {
    return std::unexpected(refuse_path(EditProblem::too_large, ""));
  }
  Replacement replacement{.content = fmt::format("{}{}{}", before, new_text, after),
                          .first_line = static_cast<std::size_t>(std::ranges::count(before, '\n')) + 1,
                          .old_lines = count_lines(old_text),
                          .new_lines = count_lines(new_text),
                          .changed = old_text != new_text};

  // The diff is of whole lines: from the beginning of the first to where both texts are at the end of one.
  const std::size_t begin = before.rfind('\n') + 1;  // npos + 1 is 0
  const auto at_line_start = [&](std::string_view text, std::size_t end) {
    return end == begin || text[end - 1] == '\n';
  };
  const std::size_t new_end = at + new_text.size();
  const bool ends_lines = at_line_start(content, at + old_text.size()) && at_line_start(replacement.content, new_end);
  const std::size_t tail = ends_lines ? 0 : line_offset(after, 1);
  replacement.diff =
      make_diff(content.substr(begin, at + old_text.size() + tail - begin),
                std::string_view(replacement.content).substr(begin, new_end + tail - begin), replacement.first_line);
  return replacement;
}

Edited<Insertion> insert_text(std::string_view content, std::int64_t line, std::string_view text) {
  if (auto editable = check_editable(content); !editable) return std::unexpected(std::move(editable).error());
  if (auto checked = check_argument(text, "insert_text"); !checked) return std::unexpected(checked.error());
  const std::size_t total = count_lines(content);
  if (line < 0 || static_cast<std::size_t>(line) > total) {
    return refuse(
        EditProblem::bad_arguments,
        fmt::format("Invalid `insert_line` parameter: {}. It should be within the range of lines of the file: "
                    "[0, {}]",
                    line, total));
  }
  const bool crlf = all_lines_end_in_crlf(content);
  const std::string_view line_end = crlf ? "\r\n" : "\n";
  const std::size_t at = line_offset(content, static_cast<std::size_t>(line));
  const bool after_open_line = at > 0 && content[at - 1] != '\n';
  std::string inserted = crlf ? with_crlf(text) : std::string(text);
  const bool may_stay_open = after_open_line && !inserted.empty();
  if (!inserted.ends_with('\n') && !may_stay_open) inserted += line_end;
  const std::size_t lines = count_lines(inserted);
  if (after_open_line) inserted.insert(0, line_end);
  if (content.size() + inserted.size() > kMostEditable.count) {
    return std::unexpected(refuse_path(EditProblem::too_large, ""));
  }
  return Insertion{.content = fmt::format("{}{}{}", content.substr(0, at), inserted, content.substr(at)),
                   .first_line = static_cast<std::size_t>(line) + 1,
                   .lines = lines};
}

std::size_t EditHistory::cost(const Version& version) {
  return kVersionOverhead + version.path.size() + (version.before ? version.before->size() : 0);
}

void EditHistory::forget(std::deque<Version>::iterator version) {
  cost_ -= cost(*version);
  versions_.erase(version);
}

void EditHistory::remember(std::string_view path, std::optional<std::string> before) {
  const auto of_path = [&](const Version& version) { return version.path == path; };
  if (static_cast<std::size_t>(std::ranges::count_if(versions_, of_path)) >= kMostVersions) {
    forget(std::ranges::find_if(versions_, of_path));
  }
  versions_.push_back({.path = std::string(path), .before = std::move(before)});
  cost_ += cost(versions_.back());
  while (cost_ > kMostHistory) forget(versions_.begin());
}

Edited<std::optional<std::string>> EditHistory::undo(std::string_view path) {
  const auto last = std::ranges::find(versions_.rbegin(), versions_.rend(), path, &Version::path);
  if (last == versions_.rend()) {
    return refuse(EditProblem::bad_arguments, fmt::format("No edit history found for {}.", path));
  }
  cost_ -= cost(*last);
  std::optional<std::string> before = std::move(last->before);
  versions_.erase(std::next(last).base());
  return before;
}

}  // namespace hutch
