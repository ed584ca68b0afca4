#include "sandbox/limits.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <thread>

namespace hutch {
namespace {

constexpr std::chrono::milliseconds kShortest{100};

Result<void> in_range(const char* name, std::uint64_t value, std::uint64_t least, std::uint64_t most) {
  if (value >= least && value <= most) return {};
  return make_error(ErrorCode::invalid_argument,
                    fmt::format("{} must be between {} and {}, not {}", name, least, most, value));
}

// Where the operator decides how much is too much, whoever is refused learns what to ask for.
Result<void> below_ceiling(const char* name, std::uint64_t value, std::uint64_t least, std::uint64_t most,
                           const char* setting) {
  auto checked = in_range(name, value, least, most);
  if (checked || value < least) return checked;
  return std::move(checked).error().with_hint(fmt::format("{} in the configuration says how much is allowed", setting));
}

Result<void> time_in_range(const char* name, std::chrono::milliseconds value, std::chrono::milliseconds most) {
  if (value >= kShortest && value <= most) return {};
  return make_error(ErrorCode::invalid_argument, fmt::format("{} must be between {:g} s and {:g} s, not {:g} s", name,
                                                             static_cast<double>(kShortest.count()) / 1000.0,
                                                             static_cast<double>(most.count()) / 1000.0,
                                                             static_cast<double>(value.count()) / 1000.0));
}

}  // namespace

LimitCeiling LimitCeiling::of_this_machine() {
  const long pages = ::sysconf(_SC_PHYS_PAGES);
  const long page_size = ::sysconf(_SC_PAGESIZE);
  const std::uint64_t half =
      pages > 0 ? static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page_size) / 2 : 0;
  LimitCeiling ceiling;
  ceiling.memory = std::clamp(Bytes{half}, Limits{}.memory, ceiling.memory);
  ceiling.cpu_percent = std::max(100 * std::thread::hardware_concurrency(), Limits{}.cpu_percent);
  return ceiling;
}

Result<void> validate(const Limits& limits, const LimitCeiling& ceiling) {
  HUTCH_TRY(time_in_range("the time limit", limits.wall, ceiling.wall));
  HUTCH_TRY(time_in_range("the CPU time limit", limits.cpu, ceiling.wall * 64));
  HUTCH_TRY(below_ceiling("the memory limit", limits.memory.count, (16_MiB).count, ceiling.memory.count,
                          "engine.max_memory"));
  HUTCH_TRY(below_ceiling("the CPU share", limits.cpu_percent, 1, ceiling.cpu_percent, "engine.max_cpu_percent"));
  HUTCH_TRY(below_ceiling("the number of processes", limits.processes, 1, ceiling.processes, "engine.max_processes"));
  HUTCH_TRY(in_range("the number of open files", limits.open_files, 16, 65'536));
  HUTCH_TRY(below_ceiling("the scratch space", limits.scratch.count, (1_MiB).count,
                          std::min(ceiling.scratch, ceiling.memory).count, "engine.max_scratch"));
  HUTCH_TRY(in_range("the number of inodes", limits.inodes, 64, 10'000'000));
  return in_range("the output limit", limits.output.count, 1, (1_GiB).count);
}

}  // namespace hutch
