// System calls and constants that glibc 2.36 and the headers of Debian 12 do not have yet. Nothing here allocates:
// these are called between fork and exec.
#pragma once

#include <fcntl.h>
#include <linux/sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdint>
#include <ctime>

namespace hutch::kernel {

inline int pidfd_open(pid_t pid) { return static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)); }
inline int pidfd_send_signal(int pidfd, int signal) {
  return static_cast<int>(::syscall(SYS_pidfd_send_signal, pidfd, signal, nullptr, 0));
}
inline int close_range(unsigned first, unsigned last) {
  return static_cast<int>(::syscall(SYS_close_range, first, last, 0));
}
inline pid_t clone3(const clone_args& args) { return static_cast<pid_t>(::syscall(SYS_clone3, &args, sizeof(args))); }
inline std::uint64_t monotonic_ns() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

// openat2(2): the one way in which a path from a client or a sandbox is resolved.
struct OpenHow {
  std::uint64_t flags = 0;
  std::uint64_t mode = 0;
  std::uint64_t resolve = 0;
};
inline constexpr std::uint64_t kResolveNoXdev = 0x01;
inline constexpr std::uint64_t kResolveNoMagicLinks = 0x02;
inline constexpr std::uint64_t kResolveNoSymlinks = 0x04;
inline constexpr std::uint64_t kResolveBeneath = 0x08;
inline int openat2(int directory, const char* path, const OpenHow& how) {
  return static_cast<int>(::syscall(SYS_openat2, directory, path, &how, sizeof(how)));
}

}  // namespace hutch::kernel
