// Answers that runs of their own and runs of sessions share.
#pragma once

#include <memory>
#include <string>

#include "api/routes.h"
#include "api/run_request.h"

namespace hutch {

// The result, `running` when the client did not want to wait longer, or the events as they come.
net::awaitable<Handled> answer_run(Request& request, std::shared_ptr<LiveRun> run, Wait wait);
// An empty session id: of any session, and of none.
net::awaitable<Handled> list_runs_of(Request& request, std::string session_id);
net::awaitable<Handled> show_run_of(Request& request, std::string id, std::string session_id);

}  // namespace hutch
