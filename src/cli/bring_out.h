// The files of a run on a daemon, brought into a directory here.
#pragma once

#include <boost/json.hpp>

#include "cli/output_files.h"
#include "cli/report.h"
#include "cli/steady_client.h"

namespace hutch {

enum class Told : std::uint8_t { everything, losses };

// False when one of them could not be brought; why is said.
bool bring_out(SteadyClient& client, const boost::json::object& run, OutputDirectory& directory, const Report& report,
               Told told);

}  // namespace hutch
