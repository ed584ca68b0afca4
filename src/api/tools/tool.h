// One call of a tool, from the arguments to a result that is in nobody's dialect yet.
#pragma once

#include <boost/json.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "api/daemon.h"
#include "api/tools/registry.h"

namespace hutch {

struct Picture {
  std::string mime;  // image/png, image/jpeg, image/gif or image/webp
  std::string bytes;
};

struct ToolResult {
  boost::json::object structured;  // fits the tool's output schema, also when it failed
  std::string text;                // words that are enough for a reader who sees nothing else
  std::vector<Picture> pictures;
  bool is_error = false;          // the tool itself failed; an exception of the code is a result like others
  std::optional<ApiError> error;  // why, when it did
  std::shared_ptr<LiveRun> run;   // when there was one
};

// What becomes of code that names no session.
enum class WithoutSession : std::uint8_t { fresh_sandbox, new_session };

struct ToolCall {
  Daemon& daemon;
  Caller caller;
  boost::json::object arguments;
  WithoutSession without_session = WithoutSession::fresh_sandbox;
  std::chrono::milliseconds patience = std::chrono::minutes(10);  // then the answer is that it is still running
  std::function<void(const std::shared_ptr<LiveRun>&)> on_run;    // told as soon as there is one: to watch, to cancel
};

// Checks the arguments and the caller's rights, and does it. Never fails: what goes wrong is in the result.
net::awaitable<ToolResult> call_tool(const Tool& tool, ToolCall& call);

// The same shape for every failure, with the fields that every output schema has.
ToolResult failed_result(const ApiError& error);

}  // namespace hutch
