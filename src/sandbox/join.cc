#include "sandbox/join.h"

#include <fcntl.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "sandbox/kernel.h"
#include "sandbox/landlock.h"
#include "sandbox/privileges.h"
#include "wire/runner_messages.h"

namespace hutch {
namespace {

constexpr std::size_t kBegun = static_cast<std::size_t>(Step::fork) - 1;  // when the first step began
constexpr std::size_t kTimeCount = static_cast<std::size_t>(Step::seccomp) - kBegun + 1;

struct Progress {
  const JoinPlan& plan;
  int control;
  std::array<std::uint64_t, kTimeCount> ended{plan.begun_ns};
};

// Goes on only if the step worked.
void must(Progress& progress, Step step, int result) {
  if (progress.plan.fault == step) {
    errno = EIO;
    result = -1;
  }
  if (result < 0) fail_step(progress.control, step, errno);
  progress.ended[static_cast<std::size_t>(step) - kBegun] = kernel::monotonic_ns();
}

// The user namespace comes last: entering it gives up the rights over the others, which the keeper owns.
int join_namespaces(const ShellDescriptors& shell) {
  if (::setns(shell.net, CLONE_NEWNET) != 0) return -1;
  if (::setns(shell.ipc, CLONE_NEWIPC) != 0) return -1;
  if (::setns(shell.uts, CLONE_NEWUTS) != 0) return -1;
  if (::setns(shell.cgroup, CLONE_NEWCGROUP) != 0) return -1;
  if (::setns(shell.mount, CLONE_NEWNS) != 0) return -1;
  return ::setns(shell.user, CLONE_NEWUSER);
}

int set_limit(unsigned resource, std::uint64_t value) {
  const rlimit64 limit{.rlim_cur = value, .rlim_max = value};
  return static_cast<int>(::syscall(SYS_prlimit64, 0, resource, &limit, nullptr));
}

int set_limits(const ProcessLimits& limits) {
  // 1, not 0: a core_pattern that pipes ignores 0 and refuses 1.
  if (set_limit(RLIMIT_CORE, 1) != 0) return -1;
  if (set_limit(RLIMIT_NPROC, limits.processes) != 0) return -1;
  if (set_limit(RLIMIT_FSIZE, limits.file_size) != 0) return -1;
  if (set_limit(RLIMIT_CPU, limits.cpu_seconds) != 0) return -1;
  if (limits.address_space != 0 && set_limit(RLIMIT_AS, limits.address_space) != 0) return -1;
  if (set_limit(RLIMIT_MEMLOCK, 64 << 10) != 0) return -1;
  if (set_limit(RLIMIT_MSGQUEUE, 0) != 0) return -1;
  if (set_limit(RLIMIT_SIGPENDING, 256) != 0) return -1;
  if (set_limit(RLIMIT_NICE, 0) != 0) return -1;
  return set_limit(RLIMIT_RTPRIO, 0);
}

// The four arrive above 3, so none of these overwrites another.
int arrange_descriptors(const RunnerStreams& streams) {
  if (::dup2(streams.input, 0) < 0 || ::dup2(streams.output, 1) < 0 || ::dup2(streams.error, 2) < 0) return -1;
  return kernel::close_range(kControlFd + 1, ~0U);
}

int install(std::span<const sock_filter> filter, unsigned flags) {
  const sock_fprog program{.len = static_cast<unsigned short>(filter.size()),
                           .filter = const_cast<sock_filter*>(filter.data())};
  return static_cast<int>(::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program));
}

// Installs both filters; returns the listener on which forbidden calls are announced.
int install_filters(const JoinPlan& plan) {
  if (!plan.base_filter.empty() && install(plan.base_filter, 0) != 0) return -1;
  constexpr unsigned kWaitKillable = 1U << 5;  // SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, Linux 5.19
  const int listener = install(plan.final_filter, SECCOMP_FILTER_FLAG_NEW_LISTENER | kWaitKillable);
  if (listener >= 0 || errno != EINVAL) return listener;
  return install(plan.final_filter, SECCOMP_FILTER_FLAG_NEW_LISTENER);
}

// The frame `ready`, with the listener attached: the only descriptor that ever comes out of a sandbox.
int announce(const Progress& progress, int listener) {
  struct [[gnu::packed]] {
    std::uint32_t length;
    std::uint8_t type;
    std::uint32_t count;
    std::array<std::uint64_t, kTimeCount> ended;
  } frame{.length = sizeof(frame) - sizeof(std::uint32_t),
          .type = static_cast<std::uint8_t>(wire::RunnerType::ready),
          .count = kTimeCount,
          .ended = progress.ended};
  iovec piece{.iov_base = &frame, .iov_len = sizeof(frame)};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof(control);
  cmsghdr* header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(header), &listener, sizeof(int));
  if (::sendmsg(kControlFd, &message, MSG_NOSIGNAL) != static_cast<ssize_t>(sizeof(frame))) return -1;
  return ::close(listener);
}

}  // namespace

void fail_step(int control, Step step, int error_number) {
  struct [[gnu::packed]] {
    std::uint32_t length;
    std::uint8_t type;
    std::uint8_t step;
    std::uint32_t error_number;
  } frame{.length = sizeof(frame) - sizeof(std::uint32_t),
          .type = static_cast<std::uint8_t>(wire::RunnerType::setup_failed),
          .step = static_cast<std::uint8_t>(step),
          .error_number = static_cast<std::uint32_t>(error_number)};
  [[maybe_unused]] const auto sent = ::write(control, &frame, sizeof(frame));
  ::_exit(125);
}

int join_cgroups(const std::array<int, kMostCgroupFiles>& tasks) {
  for (const int file : tasks) {
    if (file >= 0 && ::write(file, "0", 1) != 1) return -1;
  }
  return 0;
}

void join_shell(const JoinPlan& plan) {
  Progress progress{.plan = plan, .control = plan.streams.control};
  must(progress, Step::fork, 0);
  must(progress, Step::join_cgroup,
       join_cgroups(plan.shell.cgroup_tasks));  // first: what follows is charged to the sandbox
  must(progress, Step::join_namespaces, join_namespaces(plan.shell));
  must(progress, Step::working_directory, ::chdir("/workspace"));
  ::umask(022);
  must(progress, Step::new_session, ::setsid());  // no terminal, own process group
  must(progress, Step::rlimits, set_limits(plan.limits));
  must(progress, Step::bounding_set, privileges::drop_bounding_set());  // before the ids: later it fails silently
  must(progress, Step::ids, privileges::become(plan.uid, plan.gid, plan.groups));
  must(progress, Step::capabilities, privileges::drop_capabilities());
  must(progress, Step::no_new_privileges, privileges::set_no_new_privileges());
  must(progress, Step::landlock, landlock::restrict_self(plan.shell.landlock));
  const int control = ::dup3(plan.streams.control, kControlFd, plan.close_control_on_exec ? O_CLOEXEC : 0);
  if (control == kControlFd) progress.control = control;
  must(progress, Step::descriptors, control == kControlFd ? arrange_descriptors(plan.streams) : -1);
  const int listener = install_filters(plan);  // last: it forbids the calls above
  must(progress, Step::seccomp, listener);
  if (plan.fault == Step::announce) fail_step(kControlFd, Step::announce, EIO);
  if (announce(progress, listener) != 0) fail_step(kControlFd, Step::announce, errno);
  // Only now: descriptors on their way are counted against it, and other sandboxes of the same user may have many.
  if (set_limit(RLIMIT_NOFILE, plan.limits.open_files) != 0) fail_step(kControlFd, Step::rlimits, errno);
}

}  // namespace hutch
