// PID 1 of a shell. Runs in a fresh clone of the keeper: straight-line, no allocation, no locks. Makes the inside of
// the shell, reports, gives up everything, its memory too, and rests. Dies with the keeper.
#pragma once

#include <array>
#include <cstdint>

#include "sandbox/landlock.h"
#include "sandbox/shell.h"
#include "sandbox/steps.h"

namespace hutch {

struct InitPlan {
  const ShellSource& source;
  const IdMap& ids;
  const char* scratch_size;    // "size=" of the tmpfs
  const char* scratch_inodes;  // "nr_inodes="
  const char* scratch_uid;     // the runner, as the keeper's user namespace numbers it
  const char* scratch_gid;
  std::array<int, kMostCgroupFiles> cgroup_tasks{-1, -1, -1, -1};
  int keeper = -1;  // socket to the keeper
  Step fault = Step::none;
};

// What init tells the keeper: when it needs the root, unless it was born with it, when it needs its ids mapped, and
// when the shell is ready (then with the descriptors of the Landlock rules, the workspace, proc, and the pid, net, ipc,
// uts, cgroup, mount and user namespaces attached, in this order). A failed step ends the conversation.
struct InitReport {
  Step failed = Step::none;
  std::int32_t error_number = 0;
  bool wants_root = false;
  bool wants_ids = false;
  std::array<std::uint64_t, kStepCount> ended_ns{};
};

inline constexpr std::size_t kInitFdCount = 10;

[[noreturn]] void run_init(const InitPlan& plan);

}  // namespace hutch
