// Who does the work of each tool.
#pragma once

#include "api/run_request.h"
#include "api/tools/tool.h"

namespace hutch {

// run_tools.cc
net::awaitable<Api<ToolResult>> run_python_tool(ToolCall& call);
net::awaitable<Api<ToolResult>> run_shell_tool(ToolCall& call);
net::awaitable<Api<ToolResult>> answer_tool_calls_tool(ToolCall& call);
net::awaitable<Api<ToolResult>> get_execution_tool(ToolCall& call);
net::awaitable<Api<ToolResult>> cancel_execution_tool(ToolCall& call);
// code_execution.cc, execute_python.cc
net::awaitable<Api<ToolResult>> code_execution_tool(ToolCall& call);
net::awaitable<Api<ToolResult>> execute_python_tool(ToolCall& call);
// file_tools.cc
net::awaitable<Api<ToolResult>> list_files_tool(ToolCall& call);
net::awaitable<Api<ToolResult>> read_file_tool(ToolCall& call);
net::awaitable<Api<ToolResult>> write_file_tool(ToolCall& call);
// edit_file.cc
net::awaitable<Api<ToolResult>> edit_file_tool(ToolCall& call);
// session_tools.cc
net::awaitable<Api<ToolResult>> list_sessions_tool(ToolCall& call);
net::awaitable<Api<ToolResult>> reset_session_tool(ToolCall& call);
net::awaitable<Api<ToolResult>> close_session_tool(ToolCall& call);

// Begins it, and waits as long as the call has patience.
net::awaitable<Api<std::shared_ptr<LiveRun>>> run_fresh(ToolCall& call, OneShot what);
net::awaitable<Api<std::shared_ptr<LiveRun>>> run_in_session(ToolCall& call, Session& session, CellTask task);
// Python as one cell, with the daemon's limits and this time limit.
OneShot one_shot_of(const ToolCall& call, std::string code, std::chrono::milliseconds timeout);

}  // namespace hutch
