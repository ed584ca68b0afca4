// Runs a program of the host and waits for it: for build steps and doctor checks, never for code of a client. There is
// no shell and no search in PATH: argv[0] is the file. The child gets the environment it is given, /dev/null as
// standard input, pipes as output, and no other descriptor. It stays in our process group, so that Ctrl-C reaches it.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace hutch {

struct Command {
  std::vector<std::string> argv;         // argv[0] is an absolute path
  std::vector<std::string> environment;  // the whole of it, "NAME=value"
  std::string directory;                 // where it runs; empty: where we are
  std::chrono::milliseconds timeout = std::chrono::minutes{1};
  Bytes capture = 1_MiB;  // of each stream the last so many bytes are kept
  // Called for each line of either stream as it arrives, ended by \n or \r, without the end.
  std::function<void(std::string_view)> on_line;
};

struct Completed {
  int exit_code = 0;  // 128 + signal when a signal ended it
  std::string output;
  std::string errors;
};

// An error when the program could not be started or was killed at its deadline; any exit code is a result.
Result<Completed> run_command(const Command& command);

// The same, but an exit code other than 0 is an error that carries the last lines the program wrote.
Result<Completed> run_checked(const Command& command);

// The environment of this process as a list for Command::environment.
std::vector<std::string> current_environment();

}  // namespace hutch
