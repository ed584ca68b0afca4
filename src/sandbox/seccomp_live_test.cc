// The compiled filters in the real kernel: a forked child installs both, makes raw calls, and reports their errno.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <span>

#include "sandbox/bpf_evaluator.h"
#include "sandbox/seccomp_filter.h"

namespace hutch {
namespace {

struct RawCall {
  long number;
  std::array<long, 6> arguments;
};

enum class Filters : std::uint8_t { base, both };

// The exit codes of a child; an errno is less than 200.
constexpr int kSucceeded = 200;
constexpr int kNotInstalled = 201;

// In the child only straight calls: no allocation, and no library function that would make calls of its own.
bool install(std::span<const sock_filter> filter) {
  const sock_fprog program{static_cast<unsigned short>(filter.size()), const_cast<sock_filter*>(filter.data())};
  return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

[[noreturn]] void make_call_and_exit(Filters filters, const RawCall& call) {
  bool installed = ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && install(base_filter());
  if (filters == Filters::both) installed = installed && install(final_filter());
  if (!installed) ::_exit(kNotInstalled);
  const auto& [a, b, c, d, e, f] = call.arguments;
  const long result = ::syscall(call.number, a, b, c, d, e, f);
  ::_exit(result == -1 ? errno : kSucceeded);
}

// The wait status of a child that makes the call.
int status_of(Filters filters, const RawCall& call) {
  const pid_t child = ::fork();
  if (child == 0) make_call_and_exit(filters, call);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

int outcome_of(Filters filters, const RawCall& call) {
  const int status = status_of(filters, call);
  EXPECT_TRUE(WIFEXITED(status)) << call.number << " ended by signal " << WTERMSIG(status);
  return WEXITSTATUS(status);
}

// What the programs say of the call when the evaluator runs them. A notification that nobody listens to is ENOSYS.
int predicted_refusal(const RawCall& call) {
  seccomp_data data{};
  data.nr = static_cast<int>(call.number);
#ifdef __x86_64__
  data.arch = 0xc000003e;
#else
  data.arch = 0xc00000b7;
#endif
  for (std::size_t i = 0; i < 6; ++i) data.args[i] = static_cast<std::uint64_t>(call.arguments[i]);
  const std::uint32_t verdict = stricter(evaluate(final_filter(), data).value(), evaluate(base_filter(), data).value());
  if (verdict == SECCOMP_RET_ALLOW) return 0;
  return verdict == SECCOMP_RET_USER_NOTIF ? ENOSYS : static_cast<int>(verdict & SECCOMP_RET_DATA);
}

TEST(SeccompLive, TheKernelRefusesWhatTheProgramsRefuse) {
  const RawCall refused[] = {
      {SYS_mmap, {0, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}},
      {SYS_mmap, {0, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}},
      {SYS_mprotect, {0, 0, PROT_EXEC}},
      {SYS_openat, {AT_FDCWD, 0, O_CREAT | O_WRONLY, 04755}},
      {SYS_memfd_create, {0, 0}},
      {SYS_ioctl, {0, TIOCSTI}},
      {SYS_socketpair, {AF_NETLINK, SOCK_STREAM}},
      {SYS_clone3, {0, 0}},
      {SYS_clone, {CLONE_NEWUSER | SIGCHLD}},
      {SYS_prctl, {PR_SET_DUMPABLE, 1}},
      {SYS_prlimit64, {1, 0}},
      {SYS_seccomp, {0, 0}},
      {SYS_capset, {0, 0}},
      {SYS_setresuid, {0, 0, 0}},
      {SYS_personality, {0xffffffff}},
      {SYS_openat2, {0}},
      {SYS_mlockall, {0}},
      {SYS_execveat, {0}},
      {SYS_setsockopt, {-1, SOL_SOCKET, SO_ATTACH_FILTER, 0, 0}},
      {SYS_mmap, {0, 2 << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1, 0}},
      {SYS_fcntl, {0, F_NOTIFY, 0}},
      {SYS_preadv2, {0, 0, 0, 0, 0, RWF_NOWAIT}},
      {SYS_renameat2, {AT_FDCWD, 0, AT_FDCWD, 0, RENAME_WHITEOUT}},
      {-1, {}},
      {600, {}},
      // tripwires
      {SYS_socket, {AF_NETLINK, SOCK_RAW, 0}},
      {SYS_socket, {AF_INET, SOCK_RAW, 255}},
      {SYS_bpf, {0}},
      {SYS_ptrace, {0}},
      {SYS_setns, {-1, 0}},
      {SYS_unshare, {CLONE_NEWUSER}},
      {SYS_mount, {0}},
  };
  for (const RawCall& call : refused) {
    const int predicted = predicted_refusal(call);
    EXPECT_NE(predicted, 0) << call.number;
    EXPECT_EQ(outcome_of(Filters::both, call), predicted) << call.number;
  }
}

TEST(SeccompLive, TheKernelMakesTheCallsThatTheProgramsAllow) {
  const RawCall allowed[] = {
      {SYS_getpid, {}},
      {SYS_mmap, {0, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0}},
      {SYS_socket, {AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0}},
      {SYS_socket, {AF_INET, SOCK_DGRAM, 0}},
      {SYS_prctl, {PR_GET_DUMPABLE}},
      {SYS_prlimit64, {0, 7, 0, 0}},
      {SYS_clock_gettime, {1, 0}},
      {SYS_fcntl, {0, F_GETFD}},
      {SYS_fcntl, {0, F_DUPFD_CLOEXEC, 3}},
  };
  for (const RawCall& call : allowed) {
    EXPECT_EQ(predicted_refusal(call), 0) << call.number;
    const int outcome = outcome_of(Filters::both, call);
    EXPECT_TRUE(outcome == kSucceeded || outcome == EFAULT) << syscall_name(static_cast<int>(call.number)) << outcome;
  }
}

TEST(SeccompLive, SetUpIsOpenUntilTheFinalFilter) {
  EXPECT_EQ(outcome_of(Filters::base, {SYS_prctl, {PR_SET_DUMPABLE, 1}}), kSucceeded);
  EXPECT_EQ(outcome_of(Filters::base, {SYS_capset, {0, 0}}), EFAULT);
  EXPECT_EQ(outcome_of(Filters::base, {SYS_setns, {-1, 0}}), EBADF);
  EXPECT_EQ(outcome_of(Filters::base, {SYS_clone3, {0, 0}}), EINVAL);
  EXPECT_EQ(outcome_of(Filters::base, {SYS_openat2, {0}}), ENOSYS);
}

#ifdef __x86_64__
TEST(SeccompLive, AnX32CallEndsTheProcess) {
  for (const Filters filters : {Filters::base, Filters::both}) {
    const int status = status_of(filters, {SYS_getpid | 0x40000000, {}});
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), SIGSYS);
  }
}

TEST(SeccompLive, ACallOfThe32BitTableEndsTheProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || !install(base_filter())) ::_exit(kNotInstalled);
    long number = 20;  // getpid for i386
    asm volatile("int $0x80" : "+a"(number) : : "memory", "r8", "r9", "r10", "r11");
    ::_exit(number == -ENOSYS ? ENOSYS : kSucceeded);  // ENOSYS: a kernel without the 32-bit table
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE((WIFSIGNALED(status) && WTERMSIG(status) == SIGSYS) || WEXITSTATUS(status) == ENOSYS) << status;
}
#endif

}  // namespace
}  // namespace hutch
