// `hutch engine status|stop`, and the two ways in which this binary becomes an engine.
#pragma once

#include <string>

#include "cli/config.h"
#include "cli/template_command.h"

namespace hutch {

int engine_status(OutputFormat format);
int engine_stop();
int engine_serve(const Config& config);

}  // namespace hutch
