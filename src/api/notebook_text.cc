#include "api/notebook_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cmath>
#include <iterator>
#include <utility>
#include <vector>

namespace hutch {
namespace {

namespace json = boost::json;

char short_escape(unsigned char byte) {
  switch (byte) {
    case '"':
    case '\\':
      return static_cast<char>(byte);
    case '\b':
      return 'b';
    case '\f':
      return 'f';
    case '\n':
      return 'n';
    case '\r':
      return 'r';
    case '\t':
      return 't';
    default:
      return '\0';
  }
}

void append_text(std::string& text, std::string_view value) {
  text += '"';
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    if (const char escape = short_escape(byte); escape != '\0') {
      text += '\\';
      text += escape;
    } else if (byte < 0x20) {
      fmt::format_to(std::back_inserter(text), "\\u{:04x}", byte);
    } else {
      text += c;
    }
  }
  text += '"';
}

// 1.0 stays a number with a point: to Python it is another type than 1.
void append_number(std::string& text, double number) {
  if (!std::isfinite(number)) {
    text += "null";
    return;
  }
  const std::string digits = fmt::format("{}", number);
  text += digits;
  if (digits.find_first_of(".e") == std::string::npos) text += ".0";
}

void append_line(std::string& text, std::size_t depth) {
  text += '\n';
  text.append(depth, ' ');
}

void append(std::string& text, const json::value& value, std::size_t depth) {
  if (const auto* object = value.if_object()) {
    std::vector<const json::key_value_pair*> members;
    members.reserve(object->size());
    for (const auto& member : *object) members.push_back(&member);
    std::ranges::sort(members, {}, [](const auto* member) { return std::string_view(member->key()); });
    text += '{';
    bool first = true;
    for (const auto* member : members) {
      if (!std::exchange(first, false)) text += ',';
      append_line(text, depth + 1);
      append_text(text, member->key());
      text += ": ";
      append(text, member->value(), depth + 1);
    }
    if (!members.empty()) append_line(text, depth);
    text += '}';
  } else if (const auto* array = value.if_array()) {
    text += '[';
    bool first = true;
    for (const auto& item : *array) {
      if (!std::exchange(first, false)) text += ',';
      append_line(text, depth + 1);
      append(text, item, depth + 1);
    }
    if (!array->empty()) append_line(text, depth);
    text += ']';
  } else if (const auto* string = value.if_string()) {
    append_text(text, std::string_view(*string));
  } else if (const auto* number = value.if_double()) {
    append_number(text, *number);
  } else {
    text += json::serialize(value);
  }
}

// The length of the end of line that begins here, or 0. Those of str.splitlines().
std::size_t line_end(std::string_view rest) {
  if (rest.starts_with("\r\n")) return 2;
  const auto byte = static_cast<unsigned char>(rest.front());
  if ((byte >= '\n' && byte <= '\r') || (byte >= 0x1c && byte <= 0x1e)) return 1;
  if (rest.starts_with("\xc2\x85")) return 2;
  return rest.starts_with("\xe2\x80\xa8") || rest.starts_with("\xe2\x80\xa9") ? 3 : 0;
}

}  // namespace

std::string notebook_text(const json::value& value) {
  std::string text;
  text.reserve(64U << 10);
  append(text, value, 0);
  text += '\n';
  return text;
}

json::array lines_of(std::string_view text) {
  json::array lines;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = line_end(text.substr(at));
    at += std::max<std::size_t>(end, 1);
    if (end == 0) continue;
    lines.emplace_back(text.substr(begin, at - begin));
    begin = at;
  }
  if (begin < text.size()) lines.emplace_back(text.substr(begin));
  return lines;
}

bool join_lines(const json::value& value, std::string& into) {
  into.clear();
  if (const auto* text = value.if_string()) {
    into.assign(*text);
    return true;
  }
  const auto* lines = value.if_array();
  if (lines == nullptr) return false;
  for (const auto& line : *lines) {
    if (!line.is_string()) return false;
    into += std::string_view(line.get_string());
  }
  return true;
}

}  // namespace hutch
