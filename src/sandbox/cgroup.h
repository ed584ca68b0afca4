// Control groups: the wall around memory, processor time and the number of processes of one sandbox. Two kernels'
// worth of them: v1 (one tree per controller) and v2 (one tree). CgroupRoot is found once, by the keeper, before it
// changes its namespaces; from then on everything goes through descriptors. A CgroupRoot outlives its Cgroups.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sandbox/limits.h"

namespace hutch {

namespace cgroup_internal {
struct AppliedLimits;
struct Group;
struct Tree;
}  // namespace cgroup_internal

enum class CgroupVersion { v1, v2 };

struct CgroupUsage {
  std::uint64_t cpu_us = 0;
  std::uint64_t peak_memory = 0;  // bytes; 0 where the kernel does not keep it (v2 before 5.19)
  std::uint64_t memory_now = 0;   // bytes
  std::uint64_t oom_kills = 0;
  std::uint64_t process_limit_hits = 0;  // at least 1 when the rlimit refused, with knows_most_processes()
};

// What somebody may do who does not ask the keeper: read the two figures that every run ends with, see how many there
// are, and say who goes first. False when default-constructed, and where the kernel has not all of it: then there may
// still be `cpu`, alone.
struct CgroupHandle {
  struct Reading {
    std::uint64_t cpu_us = 0;
    std::uint64_t peak_memory = 0;
  };
  UniqueFd cpu, peak, idle;
  std::string threads;  // the file that counts them, below CgroupRoot::counts(): seldom read, so it is not kept open
  CgroupVersion version = CgroupVersion::v2;
  explicit operator bool() const { return cpu && peak && idle; }
  bool stands_back = false;
  [[nodiscard]] Result<Reading> read() const;
  [[nodiscard]] Result<std::uint64_t> read_cpu_us() const;
  [[nodiscard]] Result<std::uint64_t> read_peak_memory() const;
  [[nodiscard]] Result<std::uint64_t> count_threads(int counts) const;  // of all its processes
  void stand_back(bool back);  // behind everybody else who wants a processor, whatever their number
};

// One sandbox's control group. Empty when default-constructed: then every call but the destructor is an error.
class Cgroup {
 public:
  Cgroup();
  Cgroup(Cgroup&&) noexcept;
  Cgroup& operator=(Cgroup&&) noexcept;
  ~Cgroup();  // one attempt to remove the group, without waiting; what stays is the next engine's sweep()

  explicit operator bool() const { return group_ != nullptr; }

  // Memory (without swap), processor share and processes. May be called again; limits that stand are not rewritten.
  Result<void> apply(const Limits& limits);

  // Moves another process in. v1 moves the one thread with that id, so this comes before it makes others.
  Result<void> attach(pid_t pid);

  // For a child that attaches itself. v1: a writable `tasks` file per hierarchy, at most four; the child writes "0" to
  // each. The kernel checks the opener, not the writer, but the writer's uid must be the opener's unless that is root.
  // v2: the one directory, for CLONE_INTO_CGROUP.
  [[nodiscard]] std::span<const UniqueFd> attach_fds() const;
  void close_attach_fds();  // once the last child is in, to keep few descriptors open per sandbox

  [[nodiscard]] Result<CgroupUsage> usage() const;
  [[nodiscard]] Result<std::uint64_t> count_threads() const;  // of all its processes
  [[nodiscard]] std::vector<pid_t> threads() const;
  void stand_back();
  CgroupHandle take_handle();  // once; for whoever reports the end of the run

  // Lifts the processor share, before a kill: a process that is throttled or stands back dies when its turn comes.
  void unthrottle();
  // Lets nobody be born in it.
  void stop_forks();
  // Puts back what the two have changed; after a failure it can be tried again.
  Result<void> restore();

  // Where memory is used up, the kernel kills the largest process, as v1 does, and not all of them with init: what is
  // in the workspace is to outlive the program.
  void spare_init();

  // Peak memory counts from here on, where the kernel lets us say so.
  void forget_peak();

  // SIGKILL for every member; they may still be dying when it returns.
  void kill_all();
  // The same but for these; false when others are still here. A child that is just being born may be missed, so only
  // when nobody is left, and stop_forks() was called before, is it certain that nobody will be.
  bool kill_all_but(std::span<const pid_t> spared);

  // Removes the group. EBUSY after so many attempts, half a millisecond apart, means that members are still dying: call
  // again later.
  Result<void> destroy(int attempts = 12);

 private:
  friend class CgroupRoot;
  Result<void> write(const cgroup_internal::AppliedLimits& limits);
  explicit Cgroup(std::unique_ptr<cgroup_internal::Group> group);

  std::unique_ptr<cgroup_internal::Group> group_;
};

// What the search for a usable place goes by.
struct CgroupSearch {
  std::string mounts_text;  // /proc/self/mountinfo
  std::string self_text;    // /proc/self/cgroup
  uid_t uid = 0;            // as the host numbers it: taken before a user namespace is entered
  std::string user;         // the name by which a hint calls that uid
  bool systemd = false;     // systemd is init
  std::string place;        // a directory below every mount, used instead of the usual ones; empty: the usual ones
  void (*on_made)(int directory) = nullptr;  // tests on a fake tree fill each new directory as a kernel would

  static Result<CgroupSearch> of_this_process();
};

// Where the groups of sandboxes live.
class CgroupRoot {
 public:
  // The places tried, in order. root: `<mount>/hutch`, made when missing, then the group of this process. Others: the
  // group of this process, then `<mount>/hutch-<uid>`. On v2 the processes of this process's own group move to its
  // leaf `engine`, because a group with members cannot hand controllers down. The error is `unsupported`, says what
  // was tried, and its hint is the one command that helps.
  static Result<CgroupRoot> open(const CgroupSearch& search);

  CgroupRoot(CgroupRoot&&) noexcept;
  CgroupRoot& operator=(CgroupRoot&&) noexcept;
  ~CgroupRoot();

  Result<Cgroup> create(std::uint64_t id);  // `id` is unique within this process
  [[nodiscard]] CgroupVersion version() const;
  [[nodiscard]] std::string describe() const;  // "cgroup v1: memory, cpu, cpuacct, pids"
  // Whether a process limit shows in usage() also when something else refused before it did: there is pids.peak.
  [[nodiscard]] bool knows_most_processes() const;

  [[nodiscard]] int counts() const;  // the directory in which processes are counted, for handles

  // Removes empty groups left behind by engines that are dead. Engines in other pid namespaces are left alone, because
  // from here nobody can tell whether they live.
  void sweep();

 private:
  explicit CgroupRoot(std::unique_ptr<cgroup_internal::Tree> tree);

  std::unique_ptr<cgroup_internal::Tree> tree_;
};

// As root: makes `<mount>/hutch-<uid>` and gives it to the user; says what it did. On v2 the kernel lets a user move
// processes only within a group of theirs, so `member` (the shell that asked) moves in; 0 moves nobody.
Result<std::string> delegate_cgroup(uid_t uid, gid_t gid, pid_t member = 0);
Result<std::string> undelegate_cgroup(uid_t uid);

}  // namespace hutch
