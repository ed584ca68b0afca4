#include "api/json_text.h"

#include <fmt/format.h>

#include <boost/json.hpp>
#include <cmath>
#include <utility>

namespace hutch {
namespace {

namespace json = boost::json;

void append(std::string& text, const json::value& value) {
  if (const auto* object = value.if_object()) {
    text += '{';
    bool first = true;
    for (const auto& [key, member] : *object) {
      if (!std::exchange(first, false)) text += ',';
      text += json::serialize(json::string_view(key));
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
  } else if (const auto* number = value.if_double()) {
    text += std::isfinite(*number) ? fmt::format("{}", *number) : "null";
  } else {
    text += json::serialize(value);
  }
}

}  // namespace

std::string json_text(const boost::json::value& value) {
  std::string text;
  append(text, value);
  return text;
}

}  // namespace hutch
