// The record of a run as JSON: the same names everywhere. Program output is cleaned to valid UTF-8 here and nowhere
// else; bytes that were not text are in `stdout_base64` and `stderr_base64` as well, so nothing is lost.
#pragma once

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <string>
#include <vector>

#include "wire/engine_messages.h"

namespace hutch {

std::string_view name_of(wire::Status status);
std::string timestamp(std::int64_t ns);  // RFC 3339, UTC, milliseconds
boost::json::object error_object(const wire::RunError& error);
boost::json::object file_object(const wire::FileEntry& file);
boost::json::array events_array(const std::vector<wire::OutputEvent>& events);
// Without the events. `where` it is made: hundreds of small pieces, all of which go at once.
boost::json::object record_object(const wire::Record& record, const std::vector<wire::OutputEvent>& events,
                                  const std::vector<wire::FileEntry>& files,
                                  const boost::json::storage_ptr& where = {});
std::string record_to_json(const wire::Record& record, const std::vector<wire::OutputEvent>& events,
                           const std::vector<wire::FileEntry>& files);
// Hutch's own failure in the same shape, so that a caller never has to guess: exit code 125, an error, nothing else.
std::string failure_to_json(const wire::Failed& failure);

}  // namespace hutch
