// The second half of `fork + join`: a freshly forked process enters a shell that was made in advance, gives up every
// privilege and becomes the runner. Used by the zygote (after its fork) and by the keeper (cold start, before exec).
// Straight-line, no allocation, no locks: the order is the documentation.
#pragma once

#include <linux/filter.h>
#include <sys/types.h>

#include <array>
#include <cstdint>
#include <span>

#include "sandbox/privileges.h"
#include "sandbox/steps.h"

namespace hutch {

inline constexpr std::size_t kMostCgroupFiles = 4;
inline constexpr int kControlFd = 3;  // the runner's socket to the engine

// Descriptors of a shell that a joining process needs, all borrowed.
struct ShellDescriptors {
  std::array<int, kMostCgroupFiles> cgroup_tasks{-1, -1, -1, -1};  // v1: writing "0" moves the writer
  int pid = -1;                                                    // namespace; joined before the fork
  int net = -1;
  int ipc = -1;
  int uts = -1;
  int cgroup = -1;
  int mount = -1;
  int user = -1;
  int landlock = -1;  // ruleset
};

struct RunnerStreams {
  int input = -1;
  int output = -1;
  int error = -1;
  int control = -1;
};

// What the kernel enforces per process, beside the control group.
struct ProcessLimits {
  std::uint64_t open_files = 0;
  std::uint64_t processes = 0;
  std::uint64_t file_size = 0;
  std::uint64_t address_space = 0;  // 0: no limit of its own
  std::uint64_t cpu_seconds = 0;
};

struct JoinPlan {
  ShellDescriptors shell;
  RunnerStreams streams;
  ProcessLimits limits;
  uid_t uid = 0;
  gid_t gid = 0;
  privileges::Groups groups = privileges::Groups::must_go;
  std::span<const sock_filter> base_filter;   // empty in the zygote's child: it inherited one
  std::span<const sock_filter> final_filter;  // what it takes back after set-up
  bool close_control_on_exec = true;
  std::uint64_t begun_ns = 0;  // before the fork
  Step fault = Step::none;     // the step that fails on purpose, in tests
};

// Moves the calling process into a v1 control group. By itself, because moving another process takes the kernel
// milliseconds.
int join_cgroups(const std::array<int, kMostCgroupFiles>& tasks);

// Returns when every wall is up and the engine has been told so; otherwise reports {step, errno} on the control
// socket and ends the process. Afterwards 0, 1, 2 and kControlFd are the only descriptors.
void join_shell(const JoinPlan& plan);

// Reports a failed step in the same way.
[[noreturn]] void fail_step(int control, Step step, int error_number);

}  // namespace hutch
