// A file, two texts and a place: whatever they are, an edit gives text, its diff adds up, and nothing else is touched.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ranges>
#include <string>
#include <string_view>
#include <vector>

#include "api/tools/text_edit.h"
#include "api/tools/text_view.h"
#include "base/utf8.h"

namespace {

using namespace hutch;

void must(bool holds) {
  if (!holds) std::abort();
}

std::string_view take_field(std::string_view& rest) {
  const std::string_view field = rest.substr(0, rest.find('\x01'));
  rest.remove_prefix(std::min(rest.size(), field.size() + 1));
  return field;
}

std::ptrdiff_t count_signed(const EditDiff& diff, char sign) {
  return std::ranges::count_if(diff.lines, [sign](const std::string& line) { return line.starts_with(sign); });
}

void try_view(std::string_view content, ViewRange range, std::size_t max_characters) {
  const auto viewed = view_text("f", content, range, max_characters);
  if (!viewed) return;
  must(content.contains(viewed->content));
  must(is_utf8(viewed->text) && viewed->line_count <= viewed->total_lines);
  must(viewed->cut || range.first != 1 || range.last != -1 || viewed->content == content);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 3) return 0;
  const auto first = static_cast<std::int8_t>(data[0]);
  const auto last = static_cast<std::int8_t>(data[1]);
  std::string_view rest(reinterpret_cast<const char*>(data + 3), size - 3);
  const std::string_view content = take_field(rest);
  const std::string_view old_text = take_field(rest);
  const std::string_view new_text = rest;

  try_view(content, {.first = first, .last = last}, data[2]);
  try_view(content, {}, data[2]);
  if (const auto edit = replace_text(content, old_text, new_text)) {
    must(is_utf8(edit->content));
    must(count_signed(edit->diff, '-') == static_cast<std::ptrdiff_t>(edit->diff.old_lines));
    must(count_signed(edit->diff, '+') == static_cast<std::ptrdiff_t>(edit->diff.new_lines));
    must(edit->diff.lines.empty() == (edit->content == content));
    must(is_utf8(replaced_text(*edit, "f")));
    if (!new_text.empty()) must(edit->content.contains('\r') || edit->content.contains(new_text));
  }
  if (const auto edit = insert_text(content, first, new_text)) {
    const auto total = view_text("f", edit->content, std::nullopt, 1)->total_lines;
    must(total == view_text("f", content, std::nullopt, 1)->total_lines + edit->lines);
    must(is_utf8(inserted_text(*edit, "f")));
  }
  std::vector<DirectoryEntry> entries;
  for (const auto part : std::views::split(rest, '\n')) {
    entries.push_back({.path = std::string(part.begin(), part.end()), .size = {data[0] * 1'000'003ULL}});
  }
  must(is_utf8(view_directory("/workspace", entries)));
  return 0;
}
