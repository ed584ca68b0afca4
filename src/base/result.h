// Errors are values. A function that can fail returns Result<T>; the caller adds what was being done on the way up
// with during(), and whoever talks to a person prints message and hint.
#pragma once

#include <cstring>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

namespace hutch {

enum class ErrorCode {
  invalid_argument,  // the caller must change the request
  not_found,
  already_exists,
  permission,   // this user may not; somebody must grant it
  unsupported,  // the kernel or host lacks something we refuse to do without
  limit,        // a cap was reached
  timed_out,
  disconnected,  // the other side went away
  protocol,      // the other side sent bytes we do not accept
  system,        // a system call failed; system_errno says how
  internal,
};

struct Error {
  ErrorCode code = ErrorCode::internal;
  std::string message;
  std::string hint;      // one imperative sentence, or empty
  int system_errno = 0;  // set when code is system

  // Says what was being attempted: "open /x: Permission denied".
  Error during(std::string_view doing) && {
    message = std::string(doing) + ": " + message;
    return std::move(*this);
  }
  Error with_hint(std::string text) && {
    hint = std::move(text);
    return std::move(*this);
  }
};

template <class T>
class [[nodiscard]] Result : public std::expected<T, Error> {
 public:
  using std::expected<T, Error>::expected;
  Result(Error error) : std::expected<T, Error>(std::unexpected(std::move(error))) {}
};

template <>
class [[nodiscard]] Result<void> : public std::expected<void, Error> {
 public:
  using std::expected<void, Error>::expected;
  Result(Error error) : std::expected<void, Error>(std::unexpected(std::move(error))) {}
};

inline Error make_error(ErrorCode code, std::string message) {
  return Error{.code = code, .message = std::move(message), .hint = {}};
}

inline Error system_error(int number) {
  return Error{.code = ErrorCode::system, .message = std::strerror(number), .hint = {}, .system_errno = number};
}

}  // namespace hutch

#define HUTCH_CONCAT_(a, b) a##b
#define HUTCH_CONCAT(a, b) HUTCH_CONCAT_(a, b)
#define HUTCH_PICK_(_1, _2, name, ...) name

// HUTCH_TRY(expression) and HUTCH_TRY(auto value, expression): return the error, or go on with the value.
#define HUTCH_TRY(...) HUTCH_PICK_(__VA_ARGS__, HUTCH_TRY_VALUE_, HUTCH_TRY_VOID_, )(__VA_ARGS__)
#define HUTCH_TRY_VOID_(expression) \
  if (auto hutch_result = (expression); !hutch_result) return std::move(hutch_result).error()
#define HUTCH_TRY_VALUE_(declaration, expression) \
  HUTCH_TRY_NAMED_(HUTCH_CONCAT(hutch_result_, __COUNTER__), declaration, expression)
#define HUTCH_TRY_NAMED_(name, declaration, expression) \
  auto name = (expression);                             \
  if (!name) return std::move(name).error();            \
  declaration = std::move(name).value()

// The same inside a coroutine.
#define HUTCH_CO_TRY(...) HUTCH_PICK_(__VA_ARGS__, HUTCH_CO_TRY_VALUE_, HUTCH_CO_TRY_VOID_, )(__VA_ARGS__)
#define HUTCH_CO_TRY_VOID_(expression) \
  if (auto hutch_result = (expression); !hutch_result) co_return std::move(hutch_result).error()
#define HUTCH_CO_TRY_VALUE_(declaration, expression) \
  HUTCH_CO_TRY_NAMED_(HUTCH_CONCAT(hutch_result_, __COUNTER__), declaration, expression)
#define HUTCH_CO_TRY_NAMED_(name, declaration, expression) \
  auto name = (expression);                                \
  if (!name) co_return std::move(name).error();            \
  declaration = std::move(name).value()
