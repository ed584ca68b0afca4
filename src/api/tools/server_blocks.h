// Anthropic's own code execution tool, imitated: its calls become calls of our tools, and our results its blocks, so
// that a proxy can stand in for it.
#pragma once

#include "api/tools/dialect.h"

namespace hutch {

// The names and arguments of our tools, in place.
Handled from_server_tool(CallAsked& call);
boost::json::object server_block(const CallAsked& call, const ToolResult& result);

}  // namespace hutch
