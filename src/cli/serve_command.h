// `hutch serve`: the daemon.
#pragma once

#include <string>

#include "cli/config.h"

namespace hutch {

struct ServeOptions {  // empty: as the configuration says
  std::string listen, socket, data, tls_certificate, tls_key, ready_file, log_file;
  bool weaker_limits = false;
  bool mcp_fixtures = false;
};

int serve_command(const ServeOptions& options, const Config& config, const std::string& version);

// Where the daemon keeps its things: --data, serve.data, or the data directory.
Result<std::filesystem::path> serve_directory(const std::string& given, const Config& config);

}  // namespace hutch
