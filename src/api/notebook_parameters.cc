#include "api/notebook_parameters.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/json.hpp>
#include <cmath>
#include <iterator>

#include "base/utf8.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::string_view kDefaults = "parameters";
constexpr std::string_view kInjected = "injected-parameters";
constexpr std::size_t kLongestName = 100;
constexpr std::size_t kMostDepth = 32;

constexpr std::array<std::string_view, 35> kKeywords{
    "False", "None",     "True",  "and",    "as",   "assert", "async",  "await",    "break",
    "class", "continue", "def",   "del",    "elif", "else",   "except", "finally",  "for",
    "from",  "global",   "if",    "import", "in",   "is",     "lambda", "nonlocal", "not",
    "or",    "pass",     "raise", "return", "try",  "while",  "with",   "yield"};

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

Result<void> check_name(std::string_view name) {
  const bool plain = !name.empty() && name.size() <= kLongestName && is_letter(name.front()) &&
                     std::ranges::all_of(name, [](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
  if (plain && std::ranges::find(kKeywords, name) == kKeywords.end()) return {};
  return make_error(ErrorCode::invalid_argument,
                    "not a name for a parameter: " + printable(name.substr(0, kLongestName)))
      .with_hint("use letters, digits and _, and no word of Python's own");
}

// Line ends that are not ASCII are escaped too: an editor may show what follows them as a line of its own.
std::string python_text(std::string_view text) {
  std::string literal = "\"";
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const std::string_view rest = text.substr(i);
    if (byte == '"' || byte == '\\') {
      literal += '\\';
      literal += text[i];
    } else if (byte == '\n') {
      literal += "\\n";
    } else if (byte == '\t') {
      literal += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      fmt::format_to(std::back_inserter(literal), "\\x{:02x}", byte);
    } else if (rest.starts_with("\xc2\x85")) {
      literal += "\\x85";
      i += 1;
    } else if (rest.starts_with("\xe2\x80\xa8") || rest.starts_with("\xe2\x80\xa9")) {
      literal += rest[2] == '\xa8' ? "\\u2028" : "\\u2029";
      i += 2;
    } else {
      literal += text[i];
    }
  }
  return literal + '"';
}

std::string python_number(double number) {
  if (std::isnan(number)) return "float(\"nan\")";
  if (std::isinf(number)) return number > 0 ? "float(\"inf\")" : "float(\"-inf\")";
  std::string text = fmt::format("{}", number);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace

Result<void> add_parameter(json::object& parameters, std::string_view given) {
  const std::size_t equals = given.find('=');
  if (equals == std::string_view::npos || !is_utf8(given)) {
    return make_error(ErrorCode::invalid_argument, "not a parameter: " + printable(given.substr(0, kLongestName)))
        .with_hint("write NAME=VALUE");
  }
  const std::string_view name = given.substr(0, equals);
  const std::string_view text = given.substr(equals + 1);
  HUTCH_TRY(check_name(name));
  json::parse_options options;
  options.max_depth = kMostDepth;
  boost::system::error_code failed;
  json::value value = json::parse(text, failed, {}, options);
  if (failed) value = json::value(text);
  if (text == "True" || text == "False") value = text == "True";
  if (text == "None") value = nullptr;
  parameters[name] = std::move(value);
  return {};
}

std::string python_literal(const json::value& value) {
  if (value.is_null()) return "None";
  if (const auto* flag = value.if_bool()) return *flag ? "True" : "False";
  if (const auto* text = value.if_string()) return python_text(*text);
  if (const auto* number = value.if_double()) return python_number(*number);
  std::string literal;
  if (const auto* array = value.if_array()) {
    for (const auto& item : *array) literal += (literal.empty() ? "" : ", ") + python_literal(item);
    return "[" + literal + "]";
  }
  if (const auto* object = value.if_object()) {
    for (const auto& [name, item] : *object) {
      literal += (literal.empty() ? "" : ", ") + python_text(name) + ": " + python_literal(item);
    }
    return "{" + literal + "}";
  }
  return json::serialize(value);  // a whole number
}

Result<void> inject_parameters(Notebook& notebook, const json::object& parameters) {
  if (parameters.empty()) return {};
  std::string source = "# Parameters\n";
  for (const auto& [name, value] : parameters) {
    HUTCH_TRY(check_name(name));
    source += std::string(name) + " = " + python_literal(value) + "\n";
  }
  std::size_t place = 0;
  for (std::size_t i = 0; i < notebook.size(); ++i) {
    if (notebook.is_code(i) && notebook.has_tag(i, kInjected)) {  // of an earlier run
      notebook.erase(i);
      place = i;
      break;
    }
    if (place == 0 && notebook.is_code(i) && notebook.has_tag(i, kDefaults)) place = i + 1;
  }
  notebook.insert(place, {.source = source, .tag = std::string(kInjected)});
  return {};
}

}  // namespace hutch
