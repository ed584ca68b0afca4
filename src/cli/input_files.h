// `--in PATH[:NAME]`: files of the host that go into the workspace.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "wire/runner_messages.h"

namespace hutch {

// Directories go in whole; links inside them are left out. `room` is what the scratch space can hold.
Result<std::vector<wire::PutFile>> read_inputs(const std::vector<std::string>& specifications, Bytes room);

}  // namespace hutch
