// A shell: an empty sandbox with nobody in it yet. The keeper clones `init`, which makes the namespaces, puts the root
// together, builds the Landlock rules, gives up everything and from then on only reaps. A runner joins later; a shell
// is used once.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sandbox/cgroup.h"
#include "sandbox/join.h"
#include "sandbox/landlock.h"
#include "sandbox/limits.h"
#include "sandbox/privileges.h"
#include "sandbox/steps.h"

namespace hutch {

// Who is who in a shell's user namespace. With a range of ids of its own, init and the runner differ from each other
// and from every other sandbox; with one id they are the same, and only init's non-dumpable memory parts them.
struct IdMap {
  uid_t init_inside = 0;
  uid_t runner_inside = 0;
  uid_t init_outside = 0;  // as the keeper's user namespace numbers them
  uid_t runner_outside = 0;
  std::shared_ptr<const void> held = nullptr;  // as long as it lives, nobody else is given these ids
  [[nodiscard]] std::string text() const;      // for uid_map and gid_map
  [[nodiscard]] privileges::Groups groups() const {
    return init_outside == runner_outside ? privileges::Groups::may_stay : privileges::Groups::must_go;
  }
};

inline constexpr uid_t kRunnerId = 1000;  // what the runner sees as its own uid and gid

// What does not change from shell to shell of one template.
struct ShellSource {
  int template_mounts = -1;  // mount namespace whose root is the template's; -1: it follows, by give_root()
  int sysctl_user = -1;      // /proc/sys/user of the host
  int landlock_abi = 0;
  bool cgroup_is_directory = false;  // v2: a process is born into its group instead of moving there
  landlock::ReadablePaths readable;
};

// How long each step of making it took, and which failed.
struct StepLog {
  std::array<std::uint64_t, kStepCount> duration_ns{};
};

class Shell {
 public:
  Shell(Shell&&) = default;
  Shell& operator=(Shell&&) = default;

  [[nodiscard]] ShellDescriptors descriptors() const;
  [[nodiscard]] pid_t init_pid() const { return init_pid_; }
  [[nodiscard]] int workspace() const { return workspace_.get(); }
  [[nodiscard]] int proc() const { return proc_.get(); }
  [[nodiscard]] const IdMap& ids() const { return ids_; }
  [[nodiscard]] const StepLog& steps() const { return steps_; }
  [[nodiscard]] std::optional<Cgroup>& cgroup() { return cgroup_; }
  // Once a runner is in and the engine has what it needs: a sandbox that lives long holds few descriptors.
  void close_entrances();
  // SIGKILL for init, and with it for every process of the sandbox.
  void kill();

 private:
  friend class ShellBirth;
  Shell() = default;

  IdMap ids_;
  pid_t init_pid_ = -1;
  std::optional<Cgroup> cgroup_;  // none: the weaker limits were asked for
  UniqueFd init_pidfd_;
  UniqueFd workspace_;
  UniqueFd proc_;
  UniqueFd landlock_;
  UniqueFd pid_, net_, ipc_, uts_, cgroup_namespace_, mount_, user_;
  StepLog steps_;
};

// A shell that is being made. init does the work in its own process; the keeper answers it when its socket is readable
// and is free for others meanwhile. Given up half-way, it leaves nothing behind.
class ShellBirth {
 public:
  // `fault` makes one step fail, in tests; `failed` says which did.
  static Result<ShellBirth> begin(const ShellSource& source, const IdMap& ids, const Limits& limits,
                                  std::optional<Cgroup> cgroup, Step fault, Step& failed);

  ShellBirth(ShellBirth&&) = default;
  ShellBirth& operator=(ShellBirth&&) = default;

  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] pid_t init_pid() const { return shell_.init_pid_; }
  void give_root(int template_mounts) { root_ = template_mounts; }  // before init can ask for it
  // Hears what init has to say: the shell when it is ready, nothing yet, or an error.
  Result<std::optional<Shell>> advance(Step& failed);
  // Waits for the end of it.
  Result<Shell> finish(Step& failed);

 private:
  ShellBirth() = default;
  Error abandon(Step step, Error error, Step& failed);

  Shell shell_;
  UniqueFd socket_;
  int root_ = -1;
  std::uint64_t last_ns_ = 0;
};

}  // namespace hutch
