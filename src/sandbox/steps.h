// Every step of making a sandbox, in the order in which they happen. A step that fails ends the sandbox with
// {step, errno}; `--explain` shows how long each one took; the fault-injection test makes each one fail once.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace hutch {

enum class Step : std::uint8_t {
  none,
  // the keeper, once per template
  template_root,  // build the read-only root
  zygote,         // start the warm interpreter
  // the keeper, once per shell
  cgroup,      // create the control group and write its limits
  namespaces,  // net, ipc and uts, beside the pid namespace that init was born into
  // init, inside the shell
  proc,              // a proc of the new pid namespace
  scratch,           // a sized tmpfs for /workspace, /tmp and /dev/shm
  host_name,         //
  enter_root,        // the template's mount namespace
  user_namespace,    // own user and mount namespace, ids mapped by the keeper
  cgroup_namespace,  //
  mounts,            // proc and scratch into place
  namespace_limits,  // user.max_*_namespaces = 0
  landlock_rules,    //
  init_privileges,   // init gives up everything
  // the runner, from the fork on
  fork,
  join_cgroup,
  join_namespaces,
  working_directory,
  new_session,
  rlimits,
  bounding_set,
  ids,
  capabilities,
  no_new_privileges,
  landlock,
  descriptors,
  seccomp,
  announce,  // tell the engine that every wall is up
  execute,   // cold start only: exec the interpreter
  last = execute,
};

inline constexpr std::size_t kStepCount = static_cast<std::size_t>(Step::last) + 1;

inline constexpr std::array<std::string_view, kStepCount> kStepNames = {
    "none",
    "template_root",
    "zygote",
    "cgroup",
    "namespaces",
    "proc",
    "scratch",
    "host_name",
    "enter_root",
    "user_namespace",
    "cgroup_namespace",
    "mounts",
    "namespace_limits",
    "landlock_rules",
    "init_privileges",
    "fork",
    "join_cgroup",
    "join_namespaces",
    "working_directory",
    "new_session",
    "rlimits",
    "bounding_set",
    "ids",
    "capabilities",
    "no_new_privileges",
    "landlock",
    "descriptors",
    "seccomp",
    "announce",
    "execute",
};

constexpr std::string_view name_of(Step step) { return kStepNames[static_cast<std::size_t>(step)]; }

}  // namespace hutch
