// How handlers come to the session that a request names.
#pragma once

#include <memory>

#include "api/routes.h"
#include "api/run_request.h"

namespace hutch {

// The caller's own; otherwise why not: unknown, or lost when the daemon restarted.
Api<std::shared_ptr<Session>> find_session(Daemon& daemon, const Caller& caller, const std::string& id);
// The same with a sandbox: a session whose files were kept gets a new one.
net::awaitable<Api<std::shared_ptr<Session>>> open_session(Daemon& daemon, const Caller& caller, std::string id);

// A new one with a sandbox, within the key's limits.
net::awaitable<Api<std::shared_ptr<Session>>> start_session(Daemon& daemon, const Caller& caller, SessionAsked asked);

// Of one that ended while the request was on its way: it was deleted or expired, or everything ends.
inline ApiError session_over(const Daemon& daemon) { return daemon.stopping() ? shutting_down() : session_missing(); }

// Of the session that the path begins with.
inline Api<std::shared_ptr<Session>> find_session(Request& request) {
  return find_session(request.daemon, request.caller, request.parameters[0]);
}
inline net::awaitable<Api<std::shared_ptr<Session>>> open_session(Request& request) {
  return open_session(request.daemon, request.caller, request.parameters[0]);
}

}  // namespace hutch
