// Between the keeper and a zygote, both ours: fixed structs over a packet socket, descriptors in a fixed order.
#pragma once

#include <cstdint>

#include "sandbox/join.h"

namespace hutch {

// Keeper to zygote, once, before anything else: how long the two filters are that follow in one packet each. Attached:
// the zygote's own pid namespace, to come back to after each fork.
struct ZygoteHello {
  std::uint32_t base_filter_length = 0;
  std::uint32_t final_filter_length = 0;
};

// What every word of a zygote begins with: those that follow are of the same size.
enum class ZygoteWord : std::uint32_t { none, ready, forked };

// Zygote to keeper, once, when the preload is done and the base filter is in place.
struct ZygoteReady {
  ZygoteWord word = ZygoteWord::ready;
  std::uint64_t preload_us = 0;
  std::uint64_t heap_bytes = 0;  // moved to where fork is cheap
};

// Keeper to zygote: fork a runner into this shell. Attached: net, ipc, uts, cgroup, mount, user, pid namespaces,
// Landlock rules, stdin, stdout, stderr, control, then `cgroup_file_count` descriptors.
struct ForkRequest {
  ProcessLimits limits;
  std::uint32_t uid = 0;
  std::uint32_t gid = 0;
  privileges::Groups groups = privileges::Groups::must_go;
  std::uint8_t cgroup_file_count = 0;
  bool cgroup_is_directory = false;  // v2: the one descriptor is the group itself
  bool in_advance = false;           // nobody waits for it yet
  bool only_measure = false;         // fork a child that ends at once; no descriptors come along
  Step fault = Step::none;
};

inline constexpr std::size_t kFixedForkFds = 12;

// Zygote to keeper: the runner, in the keeper's pid namespace.
struct ForkReply {
  ZygoteWord word = ZygoteWord::forked;
  std::int32_t pid = -1;
  std::int32_t error_number = 0;
  std::uint64_t fork_ns = 0;  // of one that was only to be measured
};

}  // namespace hutch
