// `hutch bench`: how long a fresh sandbox takes here, as a ratio to plain Python on the same interpreter, measured in
// turn in one run. The user's engine is used as `hutch run` would use it, and is left running.
#pragma once

#include <string>

namespace hutch {

struct BenchOptions {
  bool quick = false;  // about 20 seconds instead of about 75
  bool json = false;
  bool markdown = false;
  bool weaker_limits = false;
  std::string save;  // a file for the JSON, beside what is printed
  int rounds = 0;    // 0: as many as the time allows
  std::string version;
};

int bench_command(const BenchOptions& options);

}  // namespace hutch
