// `hutch run`: the client side of one run.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "api/engine_client.h"
#include "cli/config.h"
#include "wire/engine_messages.h"

namespace hutch {

struct RunOptions {
  std::string file;  // a path, or "-" for standard input
  std::string code;  // -c
  bool has_code = false;
  std::vector<std::string> arguments;
  std::vector<std::string> inputs;       // --in
  std::string output_directory;          // --out
  std::vector<std::string> environment;  // --env
  std::string template_name;
  std::string timeout, cpu_time, memory, scratch, output;  // as typed; empty: the configuration's
  std::optional<std::uint32_t> cpu_percent, processes, open_files, inodes;
  bool json = false;
  bool quiet = false;
  bool explain = false;
  bool no_engine = false;
  bool weaker_limits = false;
  bool no_pool = false;
  bool as_cell = false;
  bool ipython = false;
  std::string fault;
};

int run_command(const RunOptions& options, const Config& config);
int shell_command(const RunOptions& options, const Config& config);

// The code, and where it comes from.
Result<void> add_program(const RunOptions& options, ClientRun& run);
// Shared by the two: the engine to ask, and limits, template and environment of a request.
Result<EngineClient> reach_engine(const RunOptions& options, const Config& config, const std::string& template_name);
Result<wire::RunRequest> make_request(const RunOptions& options, const Config& config, std::string& notice);

}  // namespace hutch
