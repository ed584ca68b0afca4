#include "sandbox/seccomp_filter.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <random>
#include <set>
#include <vector>

#include "sandbox/bpf_evaluator.h"
#include "sandbox/syscall_policy.h"

namespace hutch {
namespace {

#ifdef __x86_64__
constexpr std::uint32_t kNative = AUDIT_ARCH_X86_64;
#else
constexpr std::uint32_t kNative = AUDIT_ARCH_AARCH64;
#endif
constexpr std::uint32_t kX32Bit = 0x4000'0000;
constexpr std::uint64_t kUpperGarbage = 0xdead'beef'0000'0000;

using Arguments = std::array<std::uint64_t, 6>;
using Visitor = std::function<void(const seccomp_data&)>;

seccomp_data make_call(std::uint32_t number, const Arguments& arguments = {}, std::uint32_t architecture = kNative) {
  seccomp_data call{};
  call.nr = static_cast<int>(number);
  call.arch = architecture;
  std::ranges::copy(arguments, call.args);
  return call;
}

std::uint32_t failure(int error) { return SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error); }

// The oracle: what the table says, worked out without any of the compiler's ideas.

bool holds(const Condition& condition, const seccomp_data& call) {
  const auto low = static_cast<std::uint32_t>(call.args[condition.argument]);
  return std::ranges::any_of(condition.values, [&](std::uint32_t value) { return (low & condition.mask) == value; });
}

bool permitted(const Rule& rule, const seccomp_data& call) {
  return std::ranges::any_of(rule.forms, [&](const Form& form) {
    return std::ranges::all_of(form, [&](const Condition& condition) { return holds(condition, call); });
  });
}

std::uint32_t policy_verdict(const seccomp_data& call) {
  if (call.arch != kNative) return SECCOMP_RET_KILL_PROCESS;
#ifdef __x86_64__
  if (call.nr != -1 && (static_cast<std::uint32_t>(call.nr) >= kX32Bit)) return SECCOMP_RET_KILL_PROCESS;
#endif
  const Rule* rule = find_rule(call.nr);
  if (rule == nullptr) return failure(ENOSYS);
  if (permitted(*rule, call)) return SECCOMP_RET_ALLOW;
  return rule->refusal == Refusal::tripwire ? SECCOMP_RET_USER_NOTIF : failure(rule->refusal_errno);
}

std::uint32_t setup_verdict(const seccomp_data& call) {
  const std::uint32_t verdict = policy_verdict(call);
  if (verdict == SECCOMP_RET_KILL_PROCESS) return verdict;
  const Rule* rule = find_rule(call.nr);
  return rule != nullptr && rule->during_setup == DuringSetup::anything ? SECCOMP_RET_ALLOW : verdict;
}

std::uint32_t run(std::span<const sock_filter> program, const seccomp_data& call) {
  const auto verdict = evaluate(program, call);
  EXPECT_TRUE(verdict) << verdict.error().message;
  return verdict.value_or(SECCOMP_RET_KILL_PROCESS);
}

std::uint32_t verdict_of(const seccomp_data& call) {
  return stricter(run(final_filter(), call), run(base_filter(), call));
}

std::uint32_t verdict_of(int number, const Arguments& arguments) {
  return verdict_of(make_call(static_cast<std::uint32_t>(number), arguments));
}

// The inputs.

// Per argument, the values that some form asks for and two that fit nothing.
std::vector<std::vector<std::uint32_t>> interesting_values(const Rule& rule) {
  std::vector<std::set<std::uint32_t>> values(6);
  for (const Form& form : rule.forms) {
    for (const Condition& condition : form) {
      for (const std::uint32_t value : condition.values) {
        values[condition.argument].insert({value, value | ~condition.mask, 0, 0xffff'ffff});
      }
    }
  }
  std::vector<std::vector<std::uint32_t>> result;
  for (auto& set : values) {
    if (set.empty()) set.insert(0);
    result.emplace_back(set.begin(), set.end());
  }
  return result;
}

// Every combination of interesting values, and each with every single bit of every argument flipped.
void for_each_corner(const Rule& rule, const Visitor& visit) {
  const auto values = interesting_values(rule);
  std::array<std::size_t, 6> pick{};
  for (;;) {
    Arguments arguments{};
    for (std::size_t i = 0; i < 6; ++i) arguments[i] = values[i][pick[i]];
    visit(make_call(static_cast<std::uint32_t>(rule.number), arguments));
    for (std::size_t i = 0; i < 6; ++i) {
      for (int bit = 0; bit < 32 && values[i].size() > 1; ++bit) {
        Arguments flipped = arguments;
        flipped[i] ^= std::uint64_t{1} << bit;
        visit(make_call(static_cast<std::uint32_t>(rule.number), flipped));
      }
    }
    std::size_t next = 0;
    while (next < 6 && ++pick[next] == values[next].size()) pick[next++] = 0;
    if (next == 6) return;
  }
}

// All that the tests ask the filters about.
void for_each_input(const Visitor& visit) {
  constexpr Arguments kZeros{};
  constexpr Arguments kOnes{~0ull, ~0ull, ~0ull, ~0ull, ~0ull, ~0ull};
  for (std::uint32_t number = 0; number <= 600; ++number) {
    for (const std::uint32_t variant : {number, number | kX32Bit, number | 0x8000'0000}) {
      visit(make_call(variant, kZeros));
      visit(make_call(variant, kOnes));
    }
    visit(make_call(number, kZeros, AUDIT_ARCH_I386));
    visit(make_call(number, kZeros, kNative ^ 1));
  }
  for (const std::uint32_t number :
       {0xffff'ffffu, 0xffff'fffeu, 0x3fff'ffffu, 0x4000'0000u, 0x7fff'ffffu, 0x8000'0000u}) {
    visit(make_call(number, kZeros));
  }
  for (const Rule& rule : syscall_policy()) for_each_corner(rule, visit);
}

TEST(SeccompFilter, AnswersEveryCallAsThePolicySays) {
  std::size_t wrong = 0;
  for_each_input([&](const seccomp_data& call) {
    if (verdict_of(call) == policy_verdict(call) || ++wrong > 10) return;
    ADD_FAILURE() << std::hex << "call " << call.nr << " (" << call.args[0] << ", " << call.args[1] << ", "
                  << call.args[2] << ", " << call.args[3] << "): " << verdict_of(call) << ", the policy says "
                  << policy_verdict(call);
  });
  EXPECT_EQ(wrong, 0u);
}

TEST(SeccompFilter, LeavesSetUpOpenInBaseAndNothingElse) {
  for_each_input([&](const seccomp_data& call) {
    const std::uint32_t verdict = run(base_filter(), call);
    if (verdict != setup_verdict(call)) {
      ADD_FAILURE() << std::hex << "call " << call.nr << ": " << verdict << ", not " << setup_verdict(call);
    }
  });
}

TEST(SeccompFilter, LooksOnlyAtTheLowHalfOfAnArgument) {
  for_each_input([&](seccomp_data call) {
    const std::uint32_t verdict = verdict_of(call);
    for (auto& argument : call.args) argument = static_cast<std::uint32_t>(argument) | kUpperGarbage;
    EXPECT_EQ(verdict_of(call), verdict) << call.nr;
  });
}

TEST(SeccompFilter, AnswersRandomCallsAsThePolicySays) {
  std::mt19937_64 random(20240229);
  const auto policy = syscall_policy();
  std::vector<std::vector<std::vector<std::uint32_t>>> interesting;
  for (const Rule& rule : policy) interesting.push_back(interesting_values(rule));
  for (int i = 0; i < 200'000; ++i) {
    const std::size_t chosen = random() % policy.size();
    const Rule& rule = policy[chosen];
    const auto& values = interesting[chosen];
    Arguments arguments{};
    for (std::size_t k = 0; k < 6; ++k) {
      arguments[k] = random() % 2 == 0 ? random() : (random() << 32) | values[k][random() % values[k].size()];
    }
    const seccomp_data call = make_call(static_cast<std::uint32_t>(rule.number), arguments);
    ASSERT_EQ(verdict_of(call), policy_verdict(call)) << rule.name;
  }
}

TEST(SeccompFilter, HasNoInstructionOrBranchThatTheseTestsDoNotReach) {
  for (const auto program : {base_filter(), final_filter()}) {
    BpfCoverage coverage(program.size());
    for_each_input([&](const seccomp_data& call) { ASSERT_TRUE(evaluate(program, call, coverage)); });
    EXPECT_TRUE(not_covered(program, coverage).empty())
        << not_covered(program, coverage).size() << ", first " << not_covered(program, coverage).front();
  }
}

TEST(SeccompFilter, IsShortAndQuickForReadAndWrite) {
  EXPECT_LE(base_filter().size(), 320u);
  EXPECT_LE(final_filter().size(), 96u);
  for (const int number : {SYS_read, SYS_write, SYS_futex, SYS_openat, SYS_close}) {
    for (const auto program : {base_filter(), final_filter()}) {
      BpfCoverage coverage(program.size());
      ASSERT_TRUE(evaluate(program, make_call(static_cast<std::uint32_t>(number)), coverage));
      EXPECT_LE(std::ranges::count(coverage.executed, true), 16) << syscall_name(number);
    }
  }
}

// The policy in a reviewer's words, so that a slip in the table itself is noticed.

constexpr std::uint32_t kAllow = SECCOMP_RET_ALLOW;
constexpr std::uint32_t kNotify = SECCOMP_RET_USER_NOTIF;

TEST(SyscallPolicy, NeverLetsMemoryBeWrittenAndExecuted) {
  EXPECT_EQ(verdict_of(SYS_mmap, {0, 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS}), kAllow);
  EXPECT_EQ(verdict_of(SYS_mmap, {0, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE}), kAllow);
  EXPECT_EQ(verdict_of(SYS_mmap, {0, 1, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS}), failure(EPERM));
  EXPECT_EQ(verdict_of(SYS_mmap, {0, 1, PROT_WRITE | PROT_EXEC, MAP_PRIVATE}), failure(EPERM));
  EXPECT_EQ(verdict_of(SYS_mprotect, {0, 1, PROT_READ}), kAllow);
  EXPECT_EQ(verdict_of(SYS_mprotect, {0, 1, PROT_READ | PROT_EXEC}), failure(EPERM));
  EXPECT_EQ(verdict_of(SYS_memfd_create, {0, 0x8 | 0x1}), failure(ENOSYS));
  EXPECT_EQ(verdict_of(SYS_memfd_create, {0, 0x1}), failure(ENOSYS));
  EXPECT_EQ(verdict_of(SYS_memfd_create, {0, 0x10}), failure(ENOSYS));
}

TEST(SyscallPolicy, NeverLetsSetIdFilesOrDevicesBeMade) {
  EXPECT_EQ(verdict_of(SYS_openat, {0, 0, 0, 0666}), kAllow);
  EXPECT_EQ(verdict_of(SYS_openat, {0, 0, 0, 04755}), failure(EPERM));
  EXPECT_EQ(verdict_of(SYS_fchmod, {0, 01777}), kAllow);
  EXPECT_EQ(verdict_of(SYS_fchmod, {0, 02755}), failure(EPERM));
  EXPECT_EQ(verdict_of(SYS_mkdirat, {0, 0, 02755}), failure(EPERM));
  EXPECT_EQ(verdict_of(SYS_fchmodat, {0, 0, 06755}), failure(EPERM));
  EXPECT_EQ(verdict_of(SYS_mknodat, {0, 0, S_IFIFO | 0644}), kAllow);
  EXPECT_EQ(verdict_of(SYS_mknodat, {0, 0, S_IFREG | 04755}), failure(EPERM));
  for (const auto type : {S_IFCHR, S_IFBLK, S_IFSOCK, S_IFDIR}) {
    EXPECT_EQ(verdict_of(SYS_mknodat, {0, 0, static_cast<std::uint64_t>(type) | 0644}), failure(EPERM));
  }
  for (const std::uint64_t flags : {0, RENAME_NOREPLACE, RENAME_EXCHANGE}) {
    EXPECT_EQ(verdict_of(SYS_renameat2, {0, 0, 0, 0, flags}), kAllow);
    EXPECT_EQ(verdict_of(SYS_renameat2, {0, 0, 0, 0, flags | RENAME_WHITEOUT}), failure(EPERM));
  }
}

TEST(SyscallPolicy, GivesThreadsAndForksButNoNamespaces) {
  EXPECT_EQ(verdict_of(SYS_clone, {0x3d0f00}), kAllow);   // pthread_create
  EXPECT_EQ(verdict_of(SYS_clone, {0x1200011}), kAllow);  // fork
  EXPECT_EQ(verdict_of(SYS_clone, {0x4111}), kAllow);     // posix_spawn
  EXPECT_EQ(verdict_of(SYS_clone3, {0, 88}), failure(ENOSYS));
  for (const auto flag : {CLONE_NEWNS, CLONE_NEWCGROUP, CLONE_NEWUTS, CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID,
                          CLONE_NEWNET, CLONE_PARENT, CLONE_PTRACE, CLONE_UNTRACED}) {
    EXPECT_EQ(verdict_of(SYS_clone, {static_cast<std::uint64_t>(flag) | 17}), failure(EPERM));
  }
  EXPECT_EQ(verdict_of(SYS_execve, {}), kAllow);
  EXPECT_EQ(verdict_of(SYS_execveat, {}), failure(EPERM));
}

TEST(SyscallPolicy, GivesStreamsAndDatagramsAndNotifiesOfOtherSockets) {
  EXPECT_EQ(verdict_of(SYS_socket, {AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0}), kAllow);
  EXPECT_EQ(verdict_of(SYS_socket, {AF_INET, SOCK_STREAM | SOCK_NONBLOCK, IPPROTO_TCP}), kAllow);
  EXPECT_EQ(verdict_of(SYS_socket, {AF_INET6, SOCK_DGRAM, 0}), kAllow);
  EXPECT_EQ(verdict_of(SYS_socket, {AF_INET, SOCK_DGRAM, IPPROTO_ICMP}), kNotify);
  EXPECT_EQ(verdict_of(SYS_socket, {AF_INET, SOCK_STREAM, 262}), kNotify);  // MPTCP
  EXPECT_EQ(verdict_of(SYS_socket, {AF_INET, SOCK_RAW, IPPROTO_RAW}), kNotify);
  for (const std::uint64_t family : {AF_NETLINK, AF_PACKET, AF_VSOCK, AF_ALG, AF_XDP, AF_UNSPEC, AF_BLUETOOTH}) {
    EXPECT_EQ(verdict_of(SYS_socket, {family, SOCK_STREAM, 0}), kNotify);
  }
  EXPECT_EQ(verdict_of(SYS_socketpair, {AF_UNIX, SOCK_STREAM}), kAllow);
  EXPECT_EQ(verdict_of(SYS_socketpair, {AF_TIPC, SOCK_STREAM}), failure(EAFNOSUPPORT));
}

TEST(SyscallPolicy, LetsSocketsBeTunedButNotProgrammed) {
  const auto set = [](std::uint64_t level, std::uint64_t option) {
    return verdict_of(SYS_setsockopt, {3, level, option});
  };
  for (const std::uint64_t option : {SO_REUSEADDR, SO_REUSEPORT, SO_KEEPALIVE, SO_BROADCAST, SO_SNDBUF, SO_RCVTIMEO}) {
    EXPECT_EQ(set(SOL_SOCKET, option), kAllow) << option;
  }
  EXPECT_EQ(set(IPPROTO_TCP, TCP_NODELAY), kAllow);
  EXPECT_EQ(set(IPPROTO_IPV6, IPV6_V6ONLY), kAllow);
  EXPECT_EQ(set(IPPROTO_IP, IP_RECVERR), kAllow);
  // The last two are SO_ATTACH_REUSEPORT_CBPF and _EBPF.
  for (const std::uint64_t option : {SO_ATTACH_FILTER, SO_ATTACH_BPF, SO_LOCK_FILTER, SO_TIMESTAMP, SO_TIMESTAMPING,
                                     SO_BUSY_POLL, SO_ZEROCOPY, SO_BINDTODEVICE, 51, 52}) {
    EXPECT_EQ(set(SOL_SOCKET, option), failure(EPERM)) << option;
    EXPECT_EQ(set(kUpperGarbage | SOL_SOCKET, kUpperGarbage | option), failure(EPERM)) << option;
  }
  for (const std::uint64_t option : {TCP_ULP, TCP_CONGESTION, TCP_REPAIR, TCP_MD5SIG}) {
    EXPECT_EQ(set(IPPROTO_TCP, option), failure(EPERM)) << option;
  }
  EXPECT_EQ(set(IPPROTO_UDP, 100), failure(EPERM));  // UDP_ENCAP
  EXPECT_EQ(set(IPPROTO_IP, IP_ADD_MEMBERSHIP), failure(EPERM));
  EXPECT_EQ(set(IPPROTO_IP, 64), failure(EPERM));  // IPT_SO_SET_REPLACE
  EXPECT_EQ(set(282, 1), failure(EPERM));          // SOL_TLS
}

TEST(SyscallPolicy, NeverGivesMemoryFromTheHostsPoolOfHugePages) {
  constexpr std::uint64_t kOfFile = MAP_PRIVATE, kAnonymous = MAP_PRIVATE | MAP_ANONYMOUS;
  constexpr std::uint64_t kOneGiB = std::uint64_t{30} << MAP_HUGE_SHIFT;
  for (const std::uint64_t flags : {kOfFile, kAnonymous, kAnonymous | kOneGiB}) {
    EXPECT_EQ(verdict_of(SYS_mmap, {0, 1, PROT_READ | PROT_WRITE, flags | MAP_HUGETLB}), failure(EPERM));
    EXPECT_EQ(verdict_of(SYS_mmap, {0, 1, PROT_READ | PROT_EXEC, flags | MAP_HUGETLB}), failure(EPERM));
  }
  EXPECT_EQ(verdict_of(SYS_memfd_create, {0, 4}), failure(ENOSYS));  // MFD_HUGETLB
  EXPECT_EQ(verdict_of(SYS_shmget, {0, 1, 04000}), failure(EPERM));  // SHM_HUGETLB
}

TEST(SyscallPolicy, NeverTellsWhatOthersDoWithFiles) {
  for (const std::uint64_t command : {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK,
                                      F_SETLKW, F_OFD_SETLK, F_SETPIPE_SZ, F_GETPIPE_SZ}) {
    EXPECT_EQ(verdict_of(SYS_fcntl, {0, command}), kAllow) << command;
  }
  for (const std::uint64_t command : {F_NOTIFY, F_SETLEASE, F_GETLEASE, F_SETSIG, F_SETOWN, F_SETOWN_EX}) {
    EXPECT_EQ(verdict_of(SYS_fcntl, {0, command}), failure(EPERM)) << command;
    EXPECT_EQ(verdict_of(SYS_fcntl, {0, kUpperGarbage | command}), failure(EPERM)) << command;
  }
  for (const int number : {SYS_preadv2, SYS_pwritev2}) {
    EXPECT_EQ(verdict_of(number, {}), kAllow);
    EXPECT_EQ(verdict_of(number, {0, 0, 0, 0, 0, RWF_DSYNC}), kAllow);
    EXPECT_EQ(verdict_of(number, {0, 0, 0, 0, 0, RWF_NOWAIT}), failure(EOPNOTSUPP));
    EXPECT_EQ(verdict_of(number, {0, 0, 0, 0, 0, RWF_DSYNC | 0x80}), failure(EOPNOTSUPP));  // RWF_DONTCACHE
  }
  EXPECT_EQ(verdict_of(SYS_fadvise64, {0, 0, 0, POSIX_FADV_SEQUENTIAL}), kAllow);
  EXPECT_EQ(verdict_of(SYS_fadvise64, {0, 0, 0, POSIX_FADV_DONTNEED}), failure(EPERM));
}

TEST(SyscallPolicy, KeepsSetUpCallsFromTheProgram) {
  for (const int number :
       {SYS_capset, SYS_setresuid, SYS_setresgid, SYS_setgroups, SYS_landlock_restrict_self, SYS_seccomp}) {
    EXPECT_EQ(run(base_filter(), make_call(static_cast<std::uint32_t>(number))), kAllow) << syscall_name(number);
    EXPECT_EQ(verdict_of(number, {}), failure(EPERM)) << syscall_name(number);
  }
  EXPECT_EQ(verdict_of(SYS_prctl, {PR_SET_NAME}), kAllow);
  EXPECT_EQ(verdict_of(SYS_prctl, {PR_SET_VMA, PR_SET_VMA_ANON_NAME}), kAllow);
  for (const std::uint64_t option : {PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_CAPBSET_DROP, PR_CAP_AMBIENT, PR_SET_MM,
                                     PR_SET_PTRACER, PR_SET_KEEPCAPS, PR_SET_SECUREBITS, PR_SET_CHILD_SUBREAPER}) {
    EXPECT_EQ(verdict_of(SYS_prctl, {option, 1}), failure(EPERM)) << option;
  }
  EXPECT_EQ(verdict_of(SYS_prlimit64, {0, 7}), kAllow);
  EXPECT_EQ(verdict_of(SYS_prlimit64, {1, 7}), failure(EPERM));
  EXPECT_EQ(verdict_of(SYS_ioctl, {0, TCGETS}), kAllow);
  for (const std::uint64_t request : {TIOCSTI, TIOCLINUX, TIOCSCTTY, TIOCSETD}) {
    EXPECT_EQ(verdict_of(SYS_ioctl, {0, request}), failure(ENOTTY));
  }
  EXPECT_EQ(verdict_of(SYS_ioctl, {0, kUpperGarbage | TIOCSTI}), failure(ENOTTY));
}

TEST(SyscallPolicy, WatchesTheTripwires) {
  std::vector<int> wires = {SYS_init_module,
                            SYS_finit_module,
                            SYS_kexec_load,
                            SYS_open_by_handle_at,
                            SYS_bpf,
                            SYS_userfaultfd,
                            SYS_ptrace,
                            SYS_process_vm_readv,
                            SYS_process_vm_writev,
                            SYS_mount,
                            SYS_setns,
                            SYS_unshare,
                            SYS_keyctl,
                            SYS_add_key,
                            SYS_request_key,
                            SYS_io_uring_setup,
                            SYS_perf_event_open,
                            SYS_pivot_root,
                            SYS_chroot};
  for (const int number : wires) {
    EXPECT_EQ(verdict_of(number, {}), kNotify) << syscall_name(number);
    EXPECT_EQ(tripwire_errno(number), EPERM) << syscall_name(number);
  }
  EXPECT_EQ(tripwire_errno(SYS_socket), EAFNOSUPPORT);
  wires.push_back(SYS_socket);
  for (int number = -1; number <= 600; ++number) {
    EXPECT_EQ(is_tripwire(number), std::ranges::find(wires, number) != wires.end()) << number;
    EXPECT_FALSE(denial_hint(number).empty());
  }
}

TEST(SyscallPolicy, HasOneCompleteRulePerCall) {
  int previous = -1;
  std::set<std::string_view> names;
  for (const Rule& rule : syscall_policy()) {
    EXPECT_GT(rule.number, previous) << rule.name;
    previous = rule.number;
    EXPECT_TRUE(names.insert(rule.name).second) << rule.name;
    EXPECT_FALSE(rule.why.empty()) << rule.name;
    EXPECT_EQ(syscall_name(rule.number), rule.name);
    const bool always = !rule.forms.empty() && rule.forms.front().empty();
    EXPECT_EQ(rule.refusal_errno == 0, always) << rule.name << " must say how it is refused";
    EXPECT_TRUE(!always || rule.forms.size() == 1) << rule.name;
    for (const Form& form : rule.forms) {
      EXPECT_EQ(form.empty(), always) << rule.name;
      for (const Condition& condition : form) {
        EXPECT_LT(condition.argument, 6u) << rule.name;
        EXPECT_FALSE(condition.values.empty()) << rule.name;
        for (const auto value : condition.values) EXPECT_EQ(value & ~condition.mask, 0u) << rule.name << ": never true";
      }
    }
  }
  EXPECT_EQ(syscall_name(100'000), "unknown");
  EXPECT_EQ(syscall_name(-1), "unknown");
}

#ifdef __x86_64__
// A change of these numbers is a change of the attack surface: say why in the commit.
TEST(SyscallPolicy, CountsWhatAProgramCanReach) {
  std::size_t open = 0, some_forms = 0, tripwires = 0;
  for (const Rule& rule : syscall_policy()) {
    if (rule.refusal == Refusal::tripwire && rule.forms.empty()) ++tripwires;
    if (rule.forms.empty()) continue;
    ++(rule.forms.front().empty() ? open : some_forms);
  }
  EXPECT_EQ(open, 157u);
  EXPECT_EQ(some_forms, 25u);
  EXPECT_EQ(tripwires, 19u);
}
#endif

TEST(SeccompFilter, HasAHashOfSixteenDigits) {
  EXPECT_EQ(filter_hash().size(), 16u);
  EXPECT_EQ(filter_hash().find_first_not_of("0123456789abcdef"), std::string::npos);
  EXPECT_EQ(filter_hash(), filter_hash());
}

TEST(BpfEvaluator, RefusesWhatTheKernelWouldRefuseToLoad) {
  const seccomp_data call = make_call(0);
  const sock_filter division[] = {{BPF_ALU | BPF_DIV | BPF_K, 0, 0, 2}, {BPF_RET | BPF_K, 0, 0, 0}};
  const sock_filter outside[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, sizeof(seccomp_data)}, {BPF_RET | BPF_K, 0, 0, 0}};
  const sock_filter unaligned[] = {{BPF_LD | BPF_W | BPF_ABS, 0, 0, 2}, {BPF_RET | BPF_K, 0, 0, 0}};
  const sock_filter endless[] = {{BPF_JMP | BPF_JA, 0, 0, 7}};
  const sock_filter register_jump[] = {{BPF_JMP | BPF_JEQ | BPF_X, 0, 0, 0}, {BPF_RET | BPF_K, 0, 0, 0}};
  for (const std::span<const sock_filter> program :
       {std::span<const sock_filter>(division), {outside}, {unaligned}, {endless}, {register_jump}, {}}) {
    EXPECT_FALSE(evaluate(program, call));
  }
  BpfCoverage of_another_program(1);
  EXPECT_FALSE(evaluate(base_filter(), call, of_another_program));
}

TEST(BpfEvaluator, RanksActionsAsTheKernelDoes) {
  const std::uint32_t ranked[] = {SECCOMP_RET_KILL_PROCESS, SECCOMP_RET_KILL_THREAD, SECCOMP_RET_TRAP,
                                  SECCOMP_RET_ERRNO,        SECCOMP_RET_USER_NOTIF,  SECCOMP_RET_TRACE,
                                  SECCOMP_RET_LOG,          SECCOMP_RET_ALLOW};
  for (std::size_t i = 0; i < std::size(ranked); ++i) {
    for (std::size_t k = i; k < std::size(ranked); ++k) {
      EXPECT_EQ(stricter(ranked[i], ranked[k]), ranked[i]);
      EXPECT_EQ(stricter(ranked[k], ranked[i]), ranked[i]);
    }
  }
  EXPECT_EQ(stricter(failure(EPERM), failure(ENOSYS)), failure(EPERM));  // of equal ones the newer filter's
}

}  // namespace
}  // namespace hutch
