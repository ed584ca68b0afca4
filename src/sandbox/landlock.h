// Landlock: the second wall around files, and the first around TCP, abstract sockets and signals. init builds the
// rules inside the shell, where the paths mean what they will mean to the runner; the runner only restricts itself.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace hutch::landlock {

// 0 when the kernel has no Landlock. We use what the kernel has up to ABI 7 and report which.
int abi_version();

// What is readable and executable besides the fixed places, as plain C strings that outlive the fork.
struct ReadablePaths {
  static constexpr std::size_t kMost = 24;
  std::array<const char*, kMost> paths{};
  std::size_t count = 0;
  bool add(const char* path) {
    if (count == kMost) return false;
    paths[count++] = path;
    return true;
  }
};

// A ruleset descriptor for a shell, or -1 with errno. Paths are those of the calling process. Allocates nothing.
int build_ruleset(int abi, const ReadablePaths& readable);

// Confines the calling thread for ever; 0 or -1 with errno.
int restrict_self(int ruleset);

}  // namespace hutch::landlock
