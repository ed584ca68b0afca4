// `hutch tools`: the definitions of the tools that agents are given.
#pragma once

#include <string>
#include <vector>

#include "cli/config.h"

namespace hutch {

struct ToolsOptions {
  std::string format = "anthropic";
  std::vector<std::string> names;
};

int tools_command(const ToolsOptions& options, const Config& config);

}  // namespace hutch
