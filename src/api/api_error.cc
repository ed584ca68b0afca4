#include "api/api_error.h"

#include <boost/json.hpp>
#include <cerrno>

#include "api/json_text.h"
#include "base/utf8.h"

namespace hutch {
namespace {

namespace json = boost::json;

bool retryable(const ApiError& error) {
  return error.retry_after.count() > 0 || error.category == "capacity" || error.category == "session_busy" ||
         error.category == "rate_limited";
}

json::value or_null(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(clean_utf8(text));
}

}  // namespace

std::string in_terms_of_fields(std::string text) {
  static constexpr std::pair<std::string_view, std::string_view> kWords[] = {
      {"the time limit", "limits.timeout"},
      {"the CPU time limit", "limits.cpu_time"},
      {"the memory limit", "limits.memory"},
      {"the CPU share", "limits.cpu_percent"},
      {"the number of processes", "limits.processes"},
      {"the number of open files", "limits.open_files"},
      {"the scratch space must", "limits.scratch must"},
      {"the number of inodes", "limits.inodes"},
      {"the output limit", "limits.output"},
      {"--cpu-time", "limits.cpu_time"},
      {"--open-files", "limits.open_files"},
      {"--timeout", "limits.timeout"},
      {"--memory", "limits.memory"},
      {"--processes", "limits.processes"},
      {"--scratch", "limits.scratch"},
      {"--inodes", "limits.inodes"},
      {"Pass the input on standard input, as an argument after --, or as a file with --in.",
       "Send `stdin` with the run (a text, or true to send it while it runs), or pass the data as a file."},
      {"put the data in with --in", "put the data in as files"},
      {"put data into files with --in", "put data into files"}};
  for (const auto& [from, to] : kWords) {
    if (const auto at = text.find(from); at != std::string::npos) text.replace(at, from.size(), to);
  }
  return text;
}

ApiError bad_request(std::string message, std::string hint, std::string code) {
  return {.status = 400,
          .category = "invalid_request",
          .code = std::move(code),
          .message = std::move(message),
          .hint = std::move(hint)};
}

ApiError session_missing() {
  return {.status = 404,
          .category = "session_not_found",
          .code = "unknown",
          .message = "There is no such session.",
          .hint = "It may have expired. Make a new one with POST /v1/sessions."};
}

ApiError shutting_down() {
  return {.status = 503,
          .category = "capacity",
          .code = "shutting_down",
          .message = "The daemon is stopping.",
          .retry_after = std::chrono::seconds(2)};
}

ApiError run_missing() {
  return {.status = 404,
          .category = "run_not_found",
          .code = "unknown",
          .message = "There is no such run.",
          .hint = "GET /v1/runs lists the ones that are kept."};
}

ApiError file_error(unsigned status, std::string code, std::string message) {
  return {.status = status, .category = "file_error", .code = std::move(code), .message = std::move(message)};
}

ApiError from_error(const Error& error) {
  switch (error.code) {
    case ErrorCode::invalid_argument:
    case ErrorCode::unsupported:
      return bad_request(in_terms_of_fields(error.message), in_terms_of_fields(error.hint));
    case ErrorCode::not_found:
      return {.status = 404,
              .category = "template_not_found",
              .code = "unknown_template",
              .message = error.message,
              .hint = error.hint};
    case ErrorCode::limit:
      return {.status = 503,
              .category = "capacity",
              .code = "no_slots",
              .message = error.message,
              .hint = error.hint,
              .retry_after = std::chrono::seconds(1)};
    case ErrorCode::disconnected:
      return {.status = 409,
              .category = "cancelled",
              .code = "user_cancelled",
              .message = error.message,
              .hint = "Run it again if it is still wanted."};
    case ErrorCode::already_exists:
    case ErrorCode::permission:
    case ErrorCode::timed_out:
    case ErrorCode::protocol:
    case ErrorCode::internal:
      break;
    case ErrorCode::system:
      if (error.system_errno != ENOSPC) break;
      return {.status = 507,
              .category = "resource_limit",
              .code = "disk_full",
              .message = error.message,
              .hint = error.hint};
  }
  return {.status = 500,
          .category = "internal",
          .code = "sandbox_start_failed",
          .message = "The sandbox could not be started.",
          .hint = "Try once more; the operator finds the reason in the log, under the request id."};
}

ApiError from_failure(const StartFailure& failure) {
  if (failure.step == Step::none || failure.retry_after.count() > 0) {
    ApiError error = from_error(failure.error);
    if (failure.retry_after.count() > 0) error.retry_after = failure.retry_after;
    return error;
  }
  ApiError error = from_error(make_error(ErrorCode::internal, {}));
  error.message = "The sandbox could not be started: the step `" + std::string(name_of(failure.step)) + "` failed.";
  return error;
}

std::string_view fix_of(const ApiError& error) {
  if (error.category == "unauthorized" || error.code == "agent_not_configured") return "ask_operator";
  if (error.category == "session_not_found") return "new_session";
  if (error.category == "cancelled") return "none";
  if (error.status == 507) return "change_code";
  return retryable(error) || error.status >= 500 ? "wait_and_retry" : "change_code";
}

Answer to_answer(const ApiError& error, const std::string& request_id) {
  const auto ms = error.retry_after.count();
  json::object body{{"category", error.category},
                    {"code", error.code},
                    {"message", clean_utf8(error.message)},
                    {"hint", or_null(error.hint)},
                    {"fix", fix_of(error)},
                    {"retryable", retryable(error)},
                    {"state", nullptr},
                    {"retry_after_ms", ms > 0 ? json::value(ms) : json::value(nullptr)},
                    {"request_id", request_id}};
  Answer answer{.status = error.status, .body = json_text(json::object{{"error", std::move(body)}})};
  if (ms > 0) answer.headers.emplace_back("Retry-After", std::to_string((ms + 999) / 1000));
  if (!error.allow.empty()) answer.headers.emplace_back("Allow", error.allow);
  if (error.status == 401) answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  return answer;
}

}  // namespace hutch
