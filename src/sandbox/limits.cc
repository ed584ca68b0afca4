#include "sandbox/limits.h"

#include <fmt/format.h>

#include <string>

namespace hutch {
namespace {

constexpr std::chrono::milliseconds kShortest{100};

Result<void> in_range(const char* name, std::uint64_t value, std::uint64_t least, std::uint64_t most) {
  if (value >= least && value <= most) return {};
  return make_error(ErrorCode::invalid_argument,
                    fmt::format("{} must be between {} and {}, not {}", name, least, most, value));
}

Result<void> time_in_range(const char* name, std::chrono::milliseconds value, std::chrono::milliseconds most) {
  if (value >= kShortest && value <= most) return {};
  return make_error(ErrorCode::invalid_argument, fmt::format("{} must be between {:g} s and {:g} s, not {:g} s", name,
                                                             static_cast<double>(kShortest.count()) / 1000.0,
                                                             static_cast<double>(most.count()) / 1000.0,
                                                             static_cast<double>(value.count()) / 1000.0));
}

}  // namespace

Result<void> validate(const Limits& limits, const LimitCeiling& ceiling) {
  HUTCH_TRY(time_in_range("the time limit", limits.wall, ceiling.wall));
  HUTCH_TRY(time_in_range("the CPU time limit", limits.cpu, ceiling.wall * 64));
  HUTCH_TRY(in_range("the memory limit", limits.memory.count, (16_MiB).count, ceiling.memory.count));
  HUTCH_TRY(in_range("the CPU share", limits.cpu_percent, 1, 100 * 1024));
  HUTCH_TRY(in_range("the number of processes", limits.processes, 1, 32'768));
  HUTCH_TRY(in_range("the number of open files", limits.open_files, 16, 65'536));
  HUTCH_TRY(in_range("the scratch space", limits.scratch.count, (1_MiB).count, ceiling.memory.count));
  HUTCH_TRY(in_range("the number of inodes", limits.inodes, 64, 10'000'000));
  return in_range("the output limit", limits.output.count, 1, (1_GiB).count);
}

}  // namespace hutch
