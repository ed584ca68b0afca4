// MCP over two descriptors: one message a line, nothing else on the way out, requests side by side.
#pragma once

#include "api/mcp/server.h"

namespace hutch::mcp {

// Until the input ends or SIGTERM or SIGINT comes; what still runs then is cancelled.
net::awaitable<void> serve_stdio(Server& server, Caller caller, int input, int output);

}  // namespace hutch::mcp
