// The tools, resources and prompts that the protocol's conformance suites expect of a server, with the answers they
// expect. Offered only when asked for; nothing here touches a sandbox.
#pragma once

#include <memory>

#include "api/mcp/catalogue.h"

namespace hutch::mcp {

class Server;

// `server` is used when something is called, not before.
std::unique_ptr<Catalogue> conformance_fixtures(Server& server);

}  // namespace hutch::mcp
