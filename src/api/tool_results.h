// What a client answers to calls of its tools, over HTTP and WebSocket.
#pragma once

#include <boost/json.hpp>
#include <string>
#include <vector>

#include "api/api_error.h"
#include "session/live_run.h"

namespace hutch {

struct ToolAnswer {
  std::string call_id;
  std::string text;
  bool is_error = false;
};

// One {call_id, content, is_error}, added to `into`.
Handled read_tool_answer(const boost::json::object& object, std::vector<ToolAnswer>& into);
// Every call that is pending gets its answer; the error names those that are not.
Handled give_tool_answers(LiveRun& run, std::vector<ToolAnswer> answers);

}  // namespace hutch
