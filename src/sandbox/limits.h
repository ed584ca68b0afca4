// What one run may use. Every field has a default and the default is the strictest that ordinary data work lives with.
// validate() runs before anything is created; the ranges are also what `--help` and error messages quote.
#pragma once

#include <chrono>
#include <cstdint>

#include "base/result.h"
#include "base/units.h"

namespace hutch {

struct Limits {
  std::chrono::milliseconds wall{30'000};
  std::chrono::milliseconds cpu{30'000};  // summed over every process of the sandbox
  Bytes memory = 512_MiB;
  std::uint32_t cpu_percent = 100;  // 100 is one core
  std::uint32_t processes = 64;     // threads count, as the kernel counts them
  std::uint32_t open_files = 1024;  // per process
  Bytes scratch = 64_MiB;           // /workspace, /tmp and /dev/shm together
  std::uint32_t inodes = 16'384;
  Bytes output = 8_MiB;  // stdout and stderr together
};

// The most that a request may ask for; an operator raises or lowers it in the configuration, as engine.max_*.
struct LimitCeiling {
  std::chrono::milliseconds wall{300'000};
  Bytes memory = 64_GiB;
  Bytes scratch = 4_GiB;  // and no more than `memory`, which is what it is made of
  std::uint32_t processes = 4096;
  std::uint32_t cpu_percent = 100;

  // Half of the memory, up to 64 GiB, and every processor; the defaults of a run fit in any case.
  static LimitCeiling of_this_machine();
};

Result<void> validate(const Limits& limits, const LimitCeiling& ceiling);

}  // namespace hutch
