// A session as a notebook: what it ran and what came of it, in order.
#pragma once

#include <string>

#include "api/daemon.h"

namespace hutch {

// Also of a session that is over, as long as its runs are kept.
net::awaitable<Api<std::string>> notebook_of(Daemon& daemon, const Caller& caller, std::string session_id);

}  // namespace hutch
