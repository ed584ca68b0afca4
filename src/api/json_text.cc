#include "api/json_text.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <cmath>
#include <iterator>
#include <utility>

namespace hutch {
namespace {

namespace json = boost::json;

// Nearly every text needs no escapes, and goes in one piece.
void append_text(std::string& text, std::string_view value) {
  text += '"';
  std::size_t begin = 0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    const auto byte = static_cast<unsigned char>(value[i]);
    if (byte >= 0x20 && byte != '"' && byte != '\\') continue;
    text += value.substr(begin, i - begin);
    begin = i + 1;
    switch (byte) {
      case '"':
      case '\\':
        text += '\\';
        text += value[i];
        break;
      case '\n':
        text += "\\n";
        break;
      case '\r':
        text += "\\r";
        break;
      case '\t':
        text += "\\t";
        break;
      default:
        fmt::format_to(std::back_inserter(text), "\\u{:04x}", byte);
    }
  }
  text += value.substr(begin);
  text += '"';
}

void append(std::string& text, const json::value& value) {
  if (const auto* object = value.if_object()) {
    text += '{';
    bool first = true;
    for (const auto& [key, member] : *object) {
      if (!std::exchange(first, false)) text += ',';
      append_text(text, key);
      text += ':';
      append(text, member);
    }
    text += '}';
  } else if (const auto* array = value.if_array()) {
    text += '[';
    bool first = true;
    for (const auto& item : *array) {
      if (!std::exchange(first, false)) text += ',';
      append(text, item);
    }
    text += ']';
  } else if (const auto* string = value.if_string()) {
    append_text(text, std::string_view(*string));
  } else if (const auto* number = value.if_double()) {
    if (std::isfinite(*number)) {
      fmt::format_to(std::back_inserter(text), "{}", *number);
    } else {
      text += "null";
    }
  } else {
    text += json::serialize(value);
  }
}

}  // namespace

std::string json_text(const boost::json::value& value) {
  std::string text;
  text.reserve(4096);
  append(text, value);
  return text;
}

}  // namespace hutch
