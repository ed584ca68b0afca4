// What a caller is told when a request cannot be served: one shape for every route.
#pragma once

#include <chrono>
#include <expected>
#include <string>

#include "api/http_exchange.h"
#include "session/run.h"

namespace hutch {

struct ApiError {
  unsigned status = 500;
  std::string category = "internal";
  std::string code = "bug";
  std::string message;
  std::string hint;
  std::chrono::milliseconds retry_after{0};
  std::string allow;  // of 405
};

template <class T>
using Api = std::expected<T, ApiError>;
using Handled = Api<void>;

ApiError bad_request(std::string message, std::string hint = {}, std::string code = "bad_arguments");
ApiError session_missing();
ApiError shutting_down();
ApiError run_missing();
ApiError file_error(unsigned status, std::string code, std::string message);
// Why a run or a session could not be started; words about the host stay in the log.
ApiError from_failure(const StartFailure& failure);
ApiError from_error(const Error& error);

// Limits are fields here, and options on the command line: what was said for the one, said for the other.
std::string in_terms_of_fields(std::string text);

Answer to_answer(const ApiError& error, const std::string& request_id);
// The same inside a run's record.
std::string_view fix_of(const ApiError& error);

}  // namespace hutch

// Return the error, or go on.
#define HUTCH_API_TRY(declaration, expression) \
  HUTCH_API_TRY_(HUTCH_CONCAT(hutch_api_, __COUNTER__), declaration, expression)
#define HUTCH_API_TRY_(name, declaration, expression)            \
  auto name = (expression);                                      \
  if (!name) co_return std::unexpected(std::move(name).error()); \
  declaration = std::move(name).value()
#define HUTCH_API_CHECK(expression) \
  if (auto hutch_checked = (expression); !hutch_checked) co_return std::unexpected(std::move(hutch_checked).error())
