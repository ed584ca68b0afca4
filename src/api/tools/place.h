// Where the code of a call runs: the session that it names, a new one, or a fresh sandbox of its own.
#pragma once

#include <memory>
#include <string>

#include "api/tools/tool.h"

namespace hutch {

// Null: a fresh sandbox.
net::awaitable<Api<std::shared_ptr<Session>>> place_of(ToolCall& call);
// For tools that look at what is there.
net::awaitable<Api<std::shared_ptr<Session>>> existing_session(ToolCall& call);
// For tools that are of no use without one: the named session, or a new one.
net::awaitable<Api<std::shared_ptr<Session>>> session_of(ToolCall& call);
// The same for tools that are no runs: a session that they make counts as one.
net::awaitable<Api<std::shared_ptr<Session>>> session_for_files(ToolCall& call);
net::awaitable<Api<std::shared_ptr<Session>>> make_session(ToolCall& call);

// Relative to the workspace; `/workspace/a`, `a` and `./a` are the same.
Api<std::string> workspace_path(std::string_view path, bool may_be_empty = false);

// An argument that the schema has checked.
std::string text_argument(const ToolCall& call, std::string_view name, std::string otherwise = {});
bool has_argument(const ToolCall& call, std::string_view name);
bool flag_argument(const ToolCall& call, std::string_view name);
std::int64_t number_argument(const ToolCall& call, std::string_view name, std::int64_t otherwise = 0);

}  // namespace hutch
