// The Python half of Hutch, carried inside the program and written to the data directory once per version of it, with
// byte code for the interpreter that will run it. Mounted read-only at /opt/hutch/runner.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"

namespace hutch {

inline constexpr const char* kRunnerInside = "/opt/hutch/runner";

// `interpreter` is a path on the host. Safe to call from several processes at once.
Result<std::filesystem::path> install_runtime(const std::filesystem::path& data_directory,
                                              const std::string& interpreter);

}  // namespace hutch
