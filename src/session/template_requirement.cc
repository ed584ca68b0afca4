#include "session/template_requirement.h"

#include <array>
#include <charconv>

namespace hutch {

namespace {

constexpr std::size_t kLongestRequirement = 200;
constexpr std::size_t kLongestName = 40;

// Not <cctype>: the locale has no say in what a package name is.
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
bool is_word(char c) { return is_letter(c) || is_digit(c); }

// Text that goes into a message: control characters must not reach a terminal.
std::string quoted(std::string_view text) {
  std::string clean = "'";
  for (const char c : text.substr(0, kLongestRequirement)) clean += c >= ' ' && c <= '~' ? c : '?';
  return clean + "'";
}

// Reads a requirement from the left; every take_* moves past what it accepted.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : rest_(text) {}

  [[nodiscard]] bool done() const { return rest_.empty(); }
  void skip_spaces() {
    while (!rest_.empty() && rest_.front() == ' ') rest_.remove_prefix(1);
  }
  bool take(std::string_view token) {
    if (!rest_.starts_with(token)) return false;
    rest_.remove_prefix(token.size());
    return true;
  }
  // PEP 508: letters, digits, ". _ -" between the first and the last, which are letters or digits.
  std::string_view take_identifier() {
    std::size_t length = 0;
    while (length < rest_.size() &&
           (is_word(rest_[length]) || (length > 0 && std::string_view("._-").contains(rest_[length])))) {
      ++length;
    }
    const auto taken = rest_.substr(0, length);
    if (taken.empty() || !is_word(taken.back())) return {};
    rest_.remove_prefix(length);
    return taken;
  }
  // PEP 440, loosely: a digit, then letters, digits and ". ! + * _ -". The installer knows the fine print.
  std::string_view take_version() {
    if (rest_.empty() || !is_digit(rest_.front())) return {};
    std::size_t length = 0;
    while (length < rest_.size() && (is_word(rest_[length]) || std::string_view(".!+*_-").contains(rest_[length]))) {
      ++length;
    }
    const auto taken = rest_.substr(0, length);
    rest_.remove_prefix(length);
    return taken;
  }
  // The longer operators come first: "<=" is not "<" and something.
  std::string_view take_operator() {
    constexpr std::array<std::string_view, 7> kOperators = {"==", "!=", "<=", ">=", "~=", "<", ">"};
    for (const auto op : kOperators) {
      if (take(op)) return op;
    }
    return {};
  }

 private:
  std::string_view rest_;
};

bool take_extras(Cursor& cursor) {
  if (!cursor.take("[")) return true;
  do {
    cursor.skip_spaces();
    if (cursor.take_identifier().empty()) return false;
    cursor.skip_spaces();
  } while (cursor.take(","));
  return cursor.take("]");
}

bool take_specifiers(Cursor& cursor) {
  do {
    cursor.skip_spaces();
    if (cursor.take_operator().empty()) return false;
    cursor.skip_spaces();
    if (cursor.take_version().empty()) return false;
    cursor.skip_spaces();
  } while (cursor.take(","));
  return true;
}

bool is_requirement(std::string_view text) {
  if (text.size() > kLongestRequirement) return false;
  Cursor cursor(text);
  if (cursor.take_identifier().empty()) return false;
  cursor.skip_spaces();
  if (!take_extras(cursor)) return false;
  cursor.skip_spaces();
  return cursor.done() || (take_specifiers(cursor) && cursor.done());
}

bool compare(PythonVersion left, std::string_view op, PythonVersion right) {
  if (op == "==") return left == right;
  if (op == "!=") return left != right;
  if (op == "<=") return left <= right;
  if (op == ">=") return left >= right;
  if (op == "<") return left < right;
  return left > right;
}

}  // namespace

Result<void> check_template_name(std::string_view name) {
  bool good = !name.empty() && name.size() <= kLongestName && name.front() != '-' && name.front() != '_';
  for (const char c : name) good = good && ((c >= 'a' && c <= 'z') || is_digit(c) || c == '-' || c == '_');
  if (good) return {};
  return make_error(ErrorCode::invalid_argument, quoted(name) + " is not a template name")
      .with_hint("Use lower-case letters, digits, '-' and '_', at most 40, and begin with a letter or digit.");
}

Result<void> check_requirement(std::string_view requirement) {
  if (is_requirement(requirement)) return {};
  return make_error(ErrorCode::invalid_argument, quoted(requirement) + " is not a package requirement")
      .with_hint("Write a package name with optional versions, such as \"pandas>=2,<4\"; no URLs, paths or options.");
}

Result<void> check_module(std::string_view module) {
  bool good = module.size() <= kLongestRequirement;
  bool starts = true;  // a part of the dotted name begins here
  for (const char c : module) {
    good = good && (c == '.' ? !starts : is_letter(c) || c == '_' || (!starts && is_digit(c)));
    starts = c == '.';
  }
  if (good && !starts) return {};
  return make_error(ErrorCode::invalid_argument, quoted(module) + " is not a module name")
      .with_hint("Write it as in an import statement, such as \"matplotlib.pyplot\".");
}

Result<void> check_variable(std::string_view name, std::string_view value) {
  bool good = !name.empty() && !is_digit(name.front());
  for (const char c : name) good = good && (is_word(c) || c == '_');
  if (!good)
    return make_error(ErrorCode::invalid_argument, quoted(name) + " is not the name of an environment variable");
  for (const char c : value) {
    if (static_cast<unsigned char>(c) < ' ' || c == '\x7f') {
      return make_error(ErrorCode::invalid_argument, "the value of " + quoted(name) + " has control characters");
    }
  }
  return {};
}

Result<PythonVersion> parse_python_version(std::string_view text) {
  PythonVersion version;
  const auto* end = text.data() + text.size();
  const auto major = std::from_chars(text.data(), end, version.major);
  if (major.ec == std::errc{} && major.ptr != end && *major.ptr == '.') {
    const auto minor = std::from_chars(major.ptr + 1, end, version.minor);
    if (minor.ec == std::errc{} && minor.ptr == end && version.major >= 0 && version.minor >= 0) return version;
  }
  return make_error(ErrorCode::invalid_argument, quoted(text) + " is not a Python version")
      .with_hint("Write major and minor, such as \"3.11\".");
}

Result<bool> python_meets(PythonVersion version, std::string_view specifiers) {
  if (specifiers.empty()) return true;
  Cursor cursor(specifiers);
  bool met = true;
  do {
    cursor.skip_spaces();
    const auto op = cursor.take_operator();
    cursor.skip_spaces();
    const auto wanted = cursor.take_version();
    cursor.skip_spaces();
    if (op.empty() || op == "~=" || wanted.empty()) {
      return make_error(ErrorCode::invalid_argument, quoted(specifiers) + " is not a Python version requirement")
          .with_hint("Write it such as \">=3.10\" or \">=3.10,<3.13\".");
    }
    HUTCH_TRY(const auto bound, parse_python_version(wanted));
    met = met && compare(version, op, bound);
  } while (cursor.take(","));
  if (!cursor.done()) {
    return make_error(ErrorCode::invalid_argument, quoted(specifiers) + " is not a Python version requirement");
  }
  return met;
}

std::string to_string(PythonVersion version) {
  return std::to_string(version.major) + "." + std::to_string(version.minor);
}

}  // namespace hutch
