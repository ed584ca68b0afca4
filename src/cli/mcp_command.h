// `hutch mcp`: tools for a model, over standard input and output, without a daemon; and how clients are told of it.
#pragma once

#include <string>
#include <vector>

#include "cli/config.h"

namespace hutch {

struct McpOptions {
  std::string template_name;
  std::vector<std::string> tools;
  bool fixtures = false;
  bool weaker_limits = false;
  std::string client;  // whose configuration is to be printed
  std::string http;    // of a daemon, for that
};

int mcp_command(const McpOptions& options, const Config& config, const std::string& version);

}  // namespace hutch
