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

void append(std::string& text, const json::value& value);

void append(std::string& text, const json::object& object) {
  text += '{';
  bool first = true;
  for (const auto& [key, member] : object) {
    if (!std::exchange(first, false)) text += ',';
    append_text(text, key);
    text += ':';
    append(text, member);
  }
  text += '}';
}

void append(std::string& text, const json::array& array) {
  text += '[';
  bool first = true;
  for (const auto& item : array) {
    if (!std::exchange(first, false)) text += ',';
    append(text, item);
  }
  text += ']';
}

void append(std::string& text, const json::value& value) {
  switch (value.kind()) {
    case json::kind::object:
      return append(text, value.get_object());
    case json::kind::array:
      return append(text, value.get_array());
    case json::kind::string:
      return append_text(text, std::string_view(value.get_string()));
    case json::kind::double_:
      if (!std::isfinite(value.get_double())) break;
      fmt::format_to(std::back_inserter(text), "{}", value.get_double());
      return;
    case json::kind::int64:
      fmt::format_to(std::back_inserter(text), "{}", value.get_int64());
      return;
    case json::kind::uint64:
      fmt::format_to(std::back_inserter(text), "{}", value.get_uint64());
      return;
    case json::kind::bool_:
      text += value.get_bool() ? "true" : "false";
      return;
    case json::kind::null:
      break;
  }
  text += "null";
}

template <class T>
std::string text_of(const T& value) {
  std::string text;
  text.reserve(4096);
  append(text, value);
  return text;
}

}  // namespace

std::string json_text(const json::value& value) { return text_of(value); }
std::string json_text(const json::object& object) { return text_of(object); }
std::string json_text(const json::array& array) { return text_of(array); }

}  // namespace hutch
