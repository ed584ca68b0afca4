// `hutch agent`: a question in, an answer out, with a model that writes the code and a sandbox that runs it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/config.h"

namespace hutch {

struct AgentOptions {
  std::string question;
  std::vector<std::string> files;
  std::string model;
  std::string base_url;
  std::string api;
  std::string key_file;
  std::string template_name;
  unsigned attempts = 3;
  unsigned iterations = 10;
  std::string transcript;  // where to
  std::string notebook;
  bool json = false;
  bool quiet = false;
  bool weaker_limits = false;
};

int agent_command(const AgentOptions& options, const Config& config, const std::string& version);

}  // namespace hutch
