#include "api/tools/run_result.h"
#include "api/tools/schema.h"
#include "api/tools/tool.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr int kNoSandbox = 127;  // what a shell says of a program that it cannot find

std::string_view state_of(const ApiError& error) {
  if (error.category == "session_not_found") return "lost";
  return error.category == "internal" || error.category == "capacity" ? "unknown" : "kept";
}

}  // namespace

ToolResult failed_result(const ApiError& error) {
  const bool retryable = error.retry_after.count() > 0 || error.category == "internal";
  const std::string hint = in_terms_of_tools(error.hint);
  const json::object told{
      {"category", error.category},
      {"code", error.code},
      {"message", error.message},
      {"hint", hint},
      {"fix", fix_of(error)},
      {"state", state_of(error)},
      {"retryable", retryable},
      {"retry_after_ms", error.retry_after.count() > 0 ? json::value(error.retry_after.count()) : json::value(nullptr)},
      {"python", nullptr},
      {"limit", nullptr}};
  ToolResult result{.is_error = true, .error = error};
  result.structured = {{"status", "error"}, {"error", told}};
  repeat_error(result.structured, true);
  result.text = error.message + (hint.empty() ? "" : "\nWhat to do: " + hint);
  return result;
}

net::awaitable<ToolResult> call_tool(const Tool& tool, ToolCall& call) {
  const auto fail = [&](const ApiError& error) {
    ToolResult result = failed_result(error);
    if (const auto* session = call.arguments.if_contains("session_id"); session != nullptr && session->is_string()) {
      result.structured["session_id"] = *session;
    }
    if (tool.runs_code) {
      result.structured["stdout"] = "";
      result.structured["stderr"] = error.message;
      if (error.category == "capacity" || error.category == "internal") result.structured["exit_code"] = kNoSandbox;
    }
    return result;
  };
  auto checked = check_arguments(tool.input_schema, call.arguments);
  if (!checked) co_return fail(checked.error());
  call.arguments = std::move(*checked);
  if (!has_scope(call.caller, tool.scope)) {
    co_return fail({.status = 403,
                    .category = "unauthorized",
                    .code = "forbidden",
                    .message = "This key may not use this tool.",
                    .hint = "Ask the operator for a key that may."});
  }
  if (tool.runs_code) {
    if (const auto allowed = call.daemon.may_run(call.caller); !allowed) co_return fail(allowed.error());
  }
  auto result = co_await tool.handler(call);
  if (!result) co_return fail(result.error());
  co_return std::move(*result);
}

}  // namespace hutch
