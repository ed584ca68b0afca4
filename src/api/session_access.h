// How handlers come to the session that a request names.
#pragma once

#include <memory>

#include "api/routes.h"
#include "api/run_request.h"

namespace hutch {

// The caller's own; otherwise why not: unknown, or lost when the daemon restarted.
Api<std::shared_ptr<Session>> find_session(Request& request);
// The same with a sandbox: a session whose files were kept gets a new one.
net::awaitable<Api<std::shared_ptr<Session>>> open_session(Request& request);

// A new one with a sandbox, within the key's limits.
net::awaitable<Api<std::shared_ptr<Session>>> start_session(Request& request, SessionAsked asked);

}  // namespace hutch
