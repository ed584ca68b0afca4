#include "api/tools/python_tokens.h"

#include <algorithm>

namespace hutch {
namespace {

constexpr std::size_t kTab = 8;
constexpr std::size_t kLongestPrefix = 2;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
// Letters beyond ASCII are not told apart: whatever is not ASCII may be part of a name.
bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || static_cast<unsigned char>(c) >= 0x80;
}
bool continues_name(char c) { return begins_name(c) || is_digit(c); }

// r, b, u, f, t and pairs with r, in any case and order.
bool is_string_prefix(std::string_view name) {
  return name.size() <= kLongestPrefix &&
         std::ranges::all_of(name, [](char c) { return std::string_view("rbuftRBUFT").contains(c); });
}

bool has_any(std::string_view text, std::string_view letters) {
  return text.find_first_of(letters) != std::string_view::npos;
}

}  // namespace

PythonTokens::PythonTokens(std::string_view source) : source_(source) {
  if (source_.starts_with("\xEF\xBB\xBF")) position_ = 3;
  count_indentation();
  next_ = read();
}

PythonToken PythonTokens::take() {
  const PythonToken taken = next_;
  next_ = read();
  return taken;
}

bool PythonTokens::at(std::size_t offset, char c) const {
  return position_ + offset < source_.size() && source_[position_ + offset] == c;
}

PythonToken PythonTokens::make(PythonToken::Kind kind, std::string_view text) const {
  return {.kind = kind, .text = text, .line = line_, .statement = statement_, .indentation = indentation_};
}

bool PythonTokens::skip_line_end() {
  if (!at(0, '\n') && !at(0, '\r')) return false;
  position_ += at(0, '\r') && at(1, '\n') ? 2 : 1;
  ++line_;
  return true;
}

// Of a line that turns out to be empty it does not matter.
void PythonTokens::count_indentation() {
  indentation_ = 0;
  for (; position_ < source_.size(); ++position_) {
    const char c = source_[position_];
    if (c == ' ') {
      ++indentation_;
    } else if (c == '\t') {
      indentation_ = (indentation_ / kTab + 1) * kTab;
    } else if (c == '\f') {
      indentation_ = 0;
    } else {
      return;
    }
  }
}

// Blanks, comments, joined lines, and the ends of lines inside brackets.
void PythonTokens::skip_blanks() {
  while (position_ < source_.size()) {
    const char c = source_[position_];
    if (c == ' ' || c == '\t' || c == '\f') {
      ++position_;
    } else if (c == '#') {
      position_ = std::min(source_.find_first_of("\r\n", position_), source_.size());
    } else if (c == '\\' && (at(1, '\n') || at(1, '\r'))) {
      ++position_;
      skip_line_end();
    } else if (brackets_ == 0 || !skip_line_end()) {
      return;
    }
  }
}

PythonToken PythonTokens::read() {
  using Kind = PythonToken::Kind;
  skip_blanks();
  while (!statement_begun_ && skip_line_end()) {
    count_indentation();
    skip_blanks();
  }
  if (position_ == source_.size()) return make(Kind::end, {});
  const std::size_t begin = position_;
  const char c = source_[begin];
  if (c == '\n' || c == '\r') {
    const PythonToken token = make(Kind::line_end, source_.substr(begin, 1));
    skip_line_end();
    count_indentation();
    ++statement_;
    statement_begun_ = false;
    return token;
  }
  statement_begun_ = true;
  if (c == '"' || c == '\'') return read_string({});
  if (begins_name(c)) {
    while (position_ < source_.size() && continues_name(source_[position_])) ++position_;
    const std::string_view name = source_.substr(begin, position_ - begin);
    if ((at(0, '"') || at(0, '\'')) && is_string_prefix(name)) return read_string(name);
    return make(Kind::name, name);
  }
  if (is_digit(c) || (c == '.' && begin + 1 < source_.size() && is_digit(source_[begin + 1]))) {
    while (position_ < source_.size() && (continues_name(source_[position_]) || source_[position_] == '.')) ++position_;
    return make(Kind::number, source_.substr(begin, position_ - begin));
  }
  if (c == '(' || c == '[' || c == '{') ++brackets_;
  if ((c == ')' || c == ']' || c == '}') && brackets_ > 0) --brackets_;
  ++position_;
  return make(Kind::symbol, source_.substr(begin, 1));
}

// A backslash guards the next character even in a raw string. A string that is not closed ends with its line, or with
// the source if it has three quotes.
PythonToken PythonTokens::read_string(std::string_view prefix) {
  const char quote = source_[position_];
  const bool triple = at(1, quote) && at(2, quote);
  position_ += triple ? 3 : 1;
  PythonToken token = make(PythonToken::Kind::string, {});
  const std::size_t begin = position_;
  std::size_t end = source_.size();
  while (position_ < source_.size()) {
    if (at(0, quote) && (!triple || (at(1, quote) && at(2, quote)))) {
      end = position_;
      position_ += triple ? 3 : 1;
      break;
    }
    if (!triple && (at(0, '\n') || at(0, '\r'))) {
      end = position_;
      break;
    }
    if (at(0, '\\')) ++position_;
    if (position_ < source_.size() && !skip_line_end()) ++position_;
  }
  token.text = source_.substr(begin, end - begin);
  token.plain = !has_any(prefix, "bBfFtT") && (has_any(prefix, "rR") || !token.text.contains('\\'));
  return token;
}

}  // namespace hutch
