// The keeper: the only privileged part. Makes shells, control groups and zygotes, starts runners in them, reaps them,
// and guarantees by being PID 1 of its own pid namespace that nothing outlives it. Single-threaded, no network, no
// JSON; its templates are fixed when it starts.
#pragma once

#include <sys/types.h>

#include <optional>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "zygote/keeper_messages.h"
#include "zygote/template.h"

namespace hutch {

struct KeeperOptions {
  std::vector<Template> templates;
  std::string cgroup_override;  // tests: a subtree to use instead of the one we would find
  bool prepare = false;         // the first template's root and a shell, before anybody asks
  std::optional<int> priority;  // of the keeper and of what it makes, where the engine's own is another
  bool sweep = true;  // remove what a dead engine left; one that lives for a single run does not take the time
};

struct KeeperHandle {
  UniqueFd socket;  // packets of keeper_messages.h
  pid_t pid = -1;
  KeeperHello hello;
  UniqueFd counts;  // CgroupRoot::counts()
};

// Enters a user namespace when the caller is not root, then starts the keeper. Must be called before the process has
// a second thread. Dropping the socket ends the keeper and everything it made.
Result<KeeperHandle> start_keeper(const KeeperOptions& options);

}  // namespace hutch
