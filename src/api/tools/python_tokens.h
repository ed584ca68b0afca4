// Python source, cut into words: enough to find names, literals and where a statement begins, and no more. It never
// fails: what no Python would accept gives some tokens or other. One pass, no recursion, nothing kept.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace hutch {

struct PythonToken {
  enum class Kind : std::uint8_t { name, number, string, symbol, line_end, end };

  Kind kind = Kind::end;
  std::string_view text;        // of a string, what is between the quotes, escapes as they were written
  std::size_t line = 1;         // where it begins
  std::size_t statement = 0;    // which logical line it belongs to
  std::size_t indentation = 0;  // of that logical line, in columns
  bool plain = true;            // of a string: text means itself; no bytes, no f-string, no escapes

  [[nodiscard]] bool is_name(std::string_view word) const { return kind == Kind::name && text == word; }
  [[nodiscard]] bool is_symbol(char symbol) const { return kind == Kind::symbol && text.front() == symbol; }
};

// Reads from `source`, which must outlive it and the tokens.
class PythonTokens {
 public:
  explicit PythonTokens(std::string_view source);

  [[nodiscard]] const PythonToken& peek() const { return next_; }
  PythonToken take();  // at the end, `end` for ever

 private:
  PythonToken read();
  PythonToken read_string(std::string_view prefix);
  PythonToken make(PythonToken::Kind kind, std::string_view text) const;
  void skip_blanks();
  void count_indentation();
  bool skip_line_end();  // '\n', "\r\n" or '\r', as Python reads its source
  [[nodiscard]] bool at(std::size_t offset, char c) const;

  std::string_view source_;
  std::size_t position_ = 0;
  std::size_t line_ = 1;
  std::size_t statement_ = 0;
  std::size_t indentation_ = 0;
  std::size_t brackets_ = 0;  // open: the end of a line is no end of a statement
  bool statement_begun_ = false;
  PythonToken next_;
};

}  // namespace hutch
