// Runs, events and sessions as JSON: what every route shows of them.
#pragma once

#include <boost/json.hpp>
#include <memory>
#include <string>

#include "session/live_run.h"
#include "session/run_store.h"
#include "session/session.h"
#include "session/session_store.h"

namespace hutch {

// Without events; what is not known yet is null.
std::string run_text(const LiveRun& run);
// `text` is an object; the field is added to its end.
std::string with_field(std::string text, std::string_view name, std::string_view value);
std::string events_text(const LiveRun& run);
std::string status_of(const LiveRun& run);
// The record of a run that a dead daemon had under way.
std::string interrupted_text(const StoredRun& run);
boost::json::object summary_of(const StoredRun& run);
boost::json::object summary_of(const LiveRun& run);

// One text for all who are being told of it at the same time.
std::shared_ptr<const std::string> event_text(const StreamEvent& event, Clock::time_point began);
std::string_view event_name(const StreamEvent& event);

boost::json::object session_object(const Session& session);
boost::json::object session_object(const StoredSession& session);
boost::json::object limits_object(const wire::RunLimits& limits);

}  // namespace hutch
