#include "sandbox/init.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "sandbox/kernel.h"
#include "sandbox/privileges.h"
#include "sandbox/rest.h"
#include "wire/fd_passing.h"

namespace hutch {
namespace {

constexpr unsigned kScratchFlags = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;

struct Mounts {
  int proc = -1;
  int workspace = -1;
  int temporary = -1;
  int shared_memory = -1;
};

class Progress {
 public:
  explicit Progress(const InitPlan& plan) : plan_(plan) {}

  // Goes on only if the step worked.
  void must(Step step, int result) {
    if (plan_.fault == step) {
      errno = EIO;
      result = -1;
    }
    if (result < 0) {
      report_.failed = step;
      report_.error_number = errno;
      send({});
      ::_exit(125);
    }
    report_.ended_ns[static_cast<std::size_t>(step)] = kernel::monotonic_ns();
  }

  // The template's root was still being made when we were born.
  int ask_for_root() {
    report_.wants_root = true;
    send({});
    report_.wants_root = false;
    char answer = 0;
    int root = -1;
    std::size_t count = 0;
    return wire::receive_with_fds(plan_.keeper, std::span(&answer, 1), std::span(&root, 1), count) == 1 ? root : -1;
  }

  // The keeper writes the id maps: only it has rights over the parent namespace.
  int ask_for_ids() {
    report_.wants_ids = true;
    send({});
    report_.wants_ids = false;
    char answer = 0;
    return ::read(plan_.keeper, &answer, 1) == 1 && answer == 'y' ? 0 : -1;
  }

  void send(std::span<const int> fds) const {
    const std::span<const char> bytes{reinterpret_cast<const char*>(&report_), sizeof(report_)};
    if (wire::send_with_fds(plan_.keeper, bytes, fds) < 0) ::_exit(125);
  }

 private:
  const InitPlan& plan_;
  InitReport report_;
};

// The keeper's other descriptors, at once: held for longer, they could be the last of a sandbox that has ended since,
// and whoever closes these takes apart its mounts. The standard streams are no sandbox's, and sanitizers need one.
void close_inherited(const InitPlan& plan) {
  std::array<int, 3 + kMostCgroupFiles> kept{plan.keeper, plan.source.template_mounts, plan.source.sysctl_user};
  std::ranges::copy(plan.cgroup_tasks, kept.begin() + 3);
  std::ranges::sort(kept);
  unsigned next = STDERR_FILENO + 1;
  for (const int fd : kept) {
    if (fd < static_cast<int>(next)) continue;
    const auto number = static_cast<unsigned>(fd);
    if (number > next) kernel::close_range(next, number - 1);
    next = number + 1;
  }
  kernel::close_range(next, ~0U);
}

// A proc that shows this pid namespace and nothing else: no /proc/sys, no host-wide counters. Made here, in the
// keeper's user namespace, because the kernel refuses a new proc where none is fully visible, and the root has none.
int make_proc() {
  const int fs = ::fsopen("proc", FSOPEN_CLOEXEC);
  if (fs < 0) return -1;
  if (::fsconfig(fs, FSCONFIG_SET_STRING, "subset", "pid", 0) != 0) return -1;
  if (::fsconfig(fs, FSCONFIG_SET_STRING, "hidepid", "invisible", 0) != 0) return -1;
  if (::fsconfig(fs, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) return -1;
  return ::fsmount(fs, FSMOUNT_CLOEXEC, kScratchFlags);
}

int make_tmpfs(const InitPlan& plan) {
  const int fs = ::fsopen("tmpfs", FSOPEN_CLOEXEC);
  if (fs < 0) return -1;
  if (::fsconfig(fs, FSCONFIG_SET_STRING, "size", plan.scratch_size, 0) != 0) return -1;
  if (::fsconfig(fs, FSCONFIG_SET_STRING, "nr_inodes", plan.scratch_inodes, 0) != 0) return -1;
  if (::fsconfig(fs, FSCONFIG_SET_STRING, "uid", plan.scratch_uid, 0) != 0) return -1;
  if (::fsconfig(fs, FSCONFIG_SET_STRING, "gid", plan.scratch_gid, 0) != 0) return -1;
  if (::fsconfig(fs, FSCONFIG_SET_STRING, "mode", "0755", 0) != 0) return -1;
  if (::fsconfig(fs, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) return -1;
  return ::fsmount(fs, FSMOUNT_CLOEXEC, kScratchFlags);
}

int make_directory(int parent, const char* name, mode_t mode, const IdMap& ids) {
  if (::mkdirat(parent, name, mode) != 0) return -1;
  if (::fchmodat(parent, name, mode, 0) != 0) return -1;  // whatever the umask
  return ::fchownat(parent, name, ids.runner_outside, ids.runner_outside, AT_SYMLINK_NOFOLLOW);
}

int attach(int mount, const char* target) { return ::move_mount(mount, "", AT_FDCWD, target, MOVE_MOUNT_F_EMPTY_PATH); }

// One tmpfs, one budget, three places: its three directories are attached one by one. Its own root, which has nothing
// else, stays below /tmp, where nobody gets: to take it away, the kernel would wait until no processor can be in it.
int place_mounts(const Mounts& made) {
  if (attach(made.proc, "/proc") != 0) return -1;
  if (attach(made.workspace, "/tmp") != 0) return -1;  // the whole tmpfs
  const int workspace = ::open_tree(AT_FDCWD, "/tmp/workspace", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  const int temporary = ::open_tree(AT_FDCWD, "/tmp/tmp", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  const int shared_memory = ::open_tree(AT_FDCWD, "/tmp/shm", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC);
  if (workspace < 0 || temporary < 0 || shared_memory < 0) return -1;
  if (attach(workspace, "/workspace") != 0 || attach(temporary, "/tmp") != 0) return -1;
  return attach(shared_memory, "/dev/shm");
}

// Without this a process that got past seccomp could make a user namespace, and be root in it. Every other kind needs
// rights that only such a one could give; their limits are left alone, because opening each file takes the kernel
// longer the more sandboxes there are (all have the same name, and share a hash chain).
int forbid_namespaces(int sysctl_user) {
  const int file = ::openat(sysctl_user, "max_user_namespaces", O_WRONLY | O_CLOEXEC);
  if (file < 0) return -1;
  const bool written = ::write(file, "0", 1) == 1;
  ::close(file);
  return written ? 0 : -1;
}

int give_up_everything(const IdMap& ids) {
  if (privileges::drop_bounding_set() != 0) return -1;
  if (privileges::become(ids.init_inside, ids.init_inside, ids.groups()) != 0) return -1;
  if (privileges::drop_capabilities() != 0) return -1;
  return privileges::set_no_new_privileges();
}

// What a joining process and the engine need of this shell. Opened here, because from outside the kernel shows a
// process that gave up everything to nobody.
bool open_descriptors(std::span<int> fds) {
  std::size_t next = 0;
  for (const char* path : {"/workspace", "/proc"}) fds[next++] = ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  for (const char* path : {"/proc/self/ns/pid", "/proc/self/ns/net", "/proc/self/ns/ipc", "/proc/self/ns/uts",
                           "/proc/self/ns/cgroup", "/proc/self/ns/mnt", "/proc/self/ns/user"}) {
    fds[next++] = ::open(path, O_RDONLY | O_CLOEXEC);
  }
  return std::ranges::all_of(fds, [](int fd) { return fd >= 0; });
}

}  // namespace

void run_init(const InitPlan& plan) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  ::prctl(PR_SET_NAME, "hutch-init", 0, 0, 0);
  ::signal(SIGCHLD, SIG_IGN);  // the kernel reaps orphans; before there can be any
  close_inherited(plan);
  Progress progress{plan};
  Mounts mounts;

  progress.must(Step::cgroup, join_cgroups(plan.cgroup_tasks));  // first: what follows is charged to the sandbox
  progress.must(Step::namespaces, ::unshare(CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS));

  // Still in the keeper's user namespace: what needs rights over it.
  mounts.proc = make_proc();
  progress.must(Step::proc, mounts.proc);
  mounts.workspace = make_tmpfs(plan);
  const int scratch = mounts.workspace;
  const bool made = scratch >= 0 && make_directory(scratch, "workspace", 0755, plan.ids) == 0 &&
                    make_directory(scratch, "tmp", 01777, plan.ids) == 0 &&
                    make_directory(scratch, "shm", 01777, plan.ids) == 0;
  progress.must(Step::scratch, made ? 0 : -1);
  progress.must(Step::host_name, ::sethostname("hutch", 5));
  const int root = plan.source.template_mounts >= 0 ? plan.source.template_mounts : progress.ask_for_root();
  progress.must(Step::enter_root, ::setns(root, CLONE_NEWNS));

  // From here on root of a namespace of its own, which owns nothing but its copy of the mounts.
  progress.must(Step::user_namespace, ::unshare(CLONE_NEWUSER | CLONE_NEWNS) == 0 ? progress.ask_for_ids() : -1);
  progress.must(Step::cgroup_namespace, ::unshare(CLONE_NEWCGROUP));  // after we are in our group
  progress.must(Step::mounts, place_mounts(mounts));
  progress.must(Step::namespace_limits, forbid_namespaces(plan.source.sysctl_user));
  const int rules = landlock::build_ruleset(plan.source.landlock_abi, plan.source.readable);
  progress.must(Step::landlock_rules, rules);
  std::array<int, kInitFdCount> fds{rules};
  const bool opened = open_descriptors(std::span(fds).subspan(1));
  progress.must(Step::init_privileges, opened ? give_up_everything(plan.ids) : -1);
  progress.send(fds);
  kernel::close_range(0, ~0U);
  rest_for_ever();
}

}  // namespace hutch
