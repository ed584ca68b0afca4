// Lines as text_edit.h means them: they end at '\n', and the last one perhaps not at all.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace hutch {

inline std::size_t count_lines(std::string_view text) {
  const auto ends = static_cast<std::size_t>(std::ranges::count(text, '\n'));
  return ends + (text.empty() || text.ends_with('\n') ? 0 : 1);
}

// Takes the next line off, with its end.
inline std::string_view take_line(std::string_view& text) {
  const std::string_view line = text.substr(0, std::min(text.find('\n'), text.size() - 1) + 1);
  text.remove_prefix(line.size());
  return line;
}

// Where line `number`, counted from 0, begins.
inline std::size_t line_offset(std::string_view content, std::size_t number) {
  std::string_view rest = content;
  for (; number > 0 && !rest.empty(); --number) take_line(rest);
  return content.size() - rest.size();
}

}  // namespace hutch
