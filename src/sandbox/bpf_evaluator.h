// Runs a classic BPF program the way the kernel runs a seccomp filter, for tests: what a filter answers, and which of
// its instructions and branches some set of calls has reached. Knows only what our compiler emits; the rest is an
// error.
#pragma once

#include <linux/filter.h>
#include <linux/seccomp.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"

namespace hutch {

// What evaluations have reached so far, by instruction.
struct BpfCoverage {
  explicit BpfCoverage(std::size_t instructions) : executed(instructions), taken(instructions), passed(instructions) {}
  std::vector<bool> executed;
  std::vector<bool> taken;   // conditional jumps whose condition held
  std::vector<bool> passed;  // conditional jumps whose condition did not
};

Result<std::uint32_t> evaluate(std::span<const sock_filter> program, const seccomp_data& data);

// The same, adding to the coverage, which must be as long as the program.
Result<std::uint32_t> evaluate(std::span<const sock_filter> program, const seccomp_data& data, BpfCoverage& coverage);

// Instructions that never ran, and conditional jumps that went only one way.
std::vector<std::size_t> not_covered(std::span<const sock_filter> program, const BpfCoverage& coverage);

// What the kernel makes of two stacked filters: the stricter action; of equal ones, that of the newer filter.
std::uint32_t stricter(std::uint32_t newer, std::uint32_t older);

}  // namespace hutch
