#include "sandbox/feature_probes.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <span>
#include <string_view>

#include "base/unique_fd.h"
#include "sandbox/cgroup.h"
#include "sandbox/kernel.h"
#include "sandbox/landlock.h"
#include "sandbox/seccomp_filter.h"

namespace hutch::probe {
namespace {

constexpr int kPatienceMs = 10'000;
constexpr unsigned kWaitKillable = 1U << 5;  // SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV

Error failed(const std::string& doing) { return system_error(errno).during(doing); }

Result<void> write_file(const char* path, const std::string& text) {
  const UniqueFd file{::open(path, O_WRONLY | O_CLOEXEC)};
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return failed(std::string("write ") + path);
  }
  return {};
}

Result<void> new_user_namespace() {
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (::unshare(CLONE_NEWUSER) != 0) return failed("new user namespace");
  HUTCH_TRY(write_file("/proc/self/setgroups", "deny"));
  HUTCH_TRY(write_file("/proc/self/uid_map", "0 " + std::to_string(uid) + " 1\n"));
  return write_file("/proc/self/gid_map", "0 " + std::to_string(gid) + " 1\n");
}

// As the engine does: root stays what it is, anybody else becomes root of a namespace.
Result<void> gain_rights() {
  if (::geteuid() == 0) return {};
  return new_user_namespace();
}

Result<void> private_mounts() {
  HUTCH_TRY(gain_rights());
  if (::unshare(CLONE_NEWNS) != 0) return failed("new mount namespace");
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return failed("make the mounts private");
  return {};
}

Result<UniqueFd> detached(const char* type, std::initializer_list<std::pair<const char*, const char*>> options) {
  const UniqueFd fs{::fsopen(type, FSOPEN_CLOEXEC)};
  if (!fs) return failed(std::string("fsopen ") + type);
  for (const auto& [key, value] : options) {
    if (::fsconfig(fs.get(), FSCONFIG_SET_STRING, key, value, 0) != 0) {
      return failed(std::string(type) + " " + key + "=" + value);
    }
  }
  if (::fsconfig(fs.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) return failed(std::string("new ") + type);
  UniqueFd mount{::fsmount(fs.get(), FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)};
  if (!mount) return failed(std::string("fsmount ") + type);
  return mount;
}

Result<int> install(std::span<const sock_filter> filter, unsigned flags) {
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0) return failed("no_new_privs");
  const sock_fprog program{.len = static_cast<unsigned short>(filter.size()),
                           .filter = const_cast<sock_filter*>(filter.data())};
  const long result = ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program);
  if (result < 0) return failed("install a system call filter");
  return static_cast<int>(result);
}

Result<std::string> listener(unsigned flags) {
  constexpr sock_filter kAllow[] = {{.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = SECCOMP_RET_ALLOW}};
  HUTCH_TRY(install(kAllow, SECCOMP_FILTER_FLAG_NEW_LISTENER | flags));
  return "";
}

// For a child whose exit code is an errno.
Result<void> wait_for(pid_t child, const std::string& doing) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) return failed("wait");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return {};
  return system_error(WIFEXITED(status) ? WEXITSTATUS(status) : EFAULT).during(doing);
}

// One letter, then message and hint, each ended by a zero byte.
std::string encode(const Result<std::string>& result) {
  if (result) return "y" + *result + '\0';
  return "n" + result.error().message + '\0' + result.error().hint + '\0';
}

Result<std::string> decode(std::string_view bytes) {
  const std::size_t end = bytes.find('\0');
  if (end == std::string_view::npos || end == 0) return make_error(ErrorCode::unsupported, "the attempt was killed");
  const std::string text(bytes.substr(1, end - 1));
  if (bytes.front() == 'y') return text;
  const std::string_view rest = bytes.substr(end + 1);
  return make_error(ErrorCode::unsupported, text).with_hint(std::string(rest.substr(0, rest.find('\0'))));
}

}  // namespace

Result<std::string> in_child(const std::function<Result<std::string>()>& what) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return failed("make a pipe");
  const UniqueFd reader{fds[0]};
  UniqueFd writer{fds[1]};
  const pid_t child = ::fork();
  if (child < 0) return failed("fork");
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
    const std::string answer = encode(what());
    [[maybe_unused]] const auto sent = ::write(writer.get(), answer.data(), answer.size());
    ::_exit(0);
  }
  writer.reset();
  std::string answer;
  pollfd waiting{.fd = reader.get(), .events = POLLIN, .revents = 0};
  while (::poll(&waiting, 1, kPatienceMs) > 0) {
    char chunk[1024];
    const ssize_t got = ::read(reader.get(), chunk, sizeof(chunk));
    if (got <= 0) break;
    answer.append(chunk, static_cast<std::size_t>(got));
  }
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  return decode(answer);
}

Result<std::string> user_namespaces() {
  HUTCH_TRY(gain_rights());
  HUTCH_TRY(new_user_namespace());
  // AppArmor may hand out a namespace in which root has no rights.
  if (::unshare(CLONE_NEWUTS) != 0 || ::sethostname("hutch", 5) != 0) return failed("use a right in a user namespace");
  return "";
}

Result<std::string> one_namespace(int flag) {
  HUTCH_TRY(gain_rights());
  if (::unshare(flag) != 0) return failed("unshare");
  return "";
}

Result<std::string> mount_interface() {
  HUTCH_TRY(private_mounts());
  HUTCH_TRY(const auto scratch, detached("tmpfs", {{"size", "65536"}, {"nr_inodes", "8"}, {"mode", "0755"}}));
  const UniqueFd tree{::open_tree(AT_FDCWD, "/usr", OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE)};
  if (!tree) return failed("open_tree /usr");
  mount_attr attributes{};
  attributes.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV;
  attributes.propagation = MS_PRIVATE;
  if (::mount_setattr(tree.get(), "", AT_EMPTY_PATH | AT_RECURSIVE, &attributes, sizeof(attributes)) != 0) {
    return failed("mount_setattr");
  }
  if (::move_mount(scratch.get(), "", AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH) != 0) return failed("move_mount");
  return "";
}

Result<std::string> private_proc() {
  HUTCH_TRY(private_mounts());
  if (::unshare(CLONE_NEWPID) != 0) return failed("new pid namespace");
  const pid_t child = ::fork();
  if (child < 0) return failed("fork");
  if (child == 0) {
    // First a whole one, as the engine's keeper has; then the narrow one that a sandbox gets.
    if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) ::_exit(errno);
    const auto narrow = detached("proc", {{"subset", "pid"}, {"hidepid", "invisible"}});
    if (!narrow) ::_exit(narrow.error().system_errno);
    ::_exit(::faccessat(narrow->get(), "sys", F_OK, 0) == 0 ? EEXIST : 0);
  }
  HUTCH_TRY(wait_for(child, "mount a proc of a new pid namespace"));
  return "";
}

Result<std::string> filters() {
  HUTCH_TRY(install(base_filter(), 0));
  HUTCH_TRY(install(final_filter(), 0));
  if (::unshare(CLONE_NEWUSER) == 0) return make_error(ErrorCode::unsupported, "installed, but refuses nothing");
  return "filter " + filter_hash();
}

Result<std::string> notification() { return listener(0); }
Result<std::string> killable_wait() { return listener(kWaitKillable); }

Result<std::string> landlock_rules() {
  const int abi = landlock::abi_version();
  if (abi < 1) return make_error(ErrorCode::unsupported, "this kernel has no Landlock, or it is not turned on");
  const UniqueFd rules{landlock::build_ruleset(abi, {})};
  if (!rules) return failed("make a ruleset");
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || landlock::restrict_self(rules.get()) != 0) {
    return failed("restrict oneself");
  }
  const UniqueFd forbidden{::open("/etc/passwd", O_RDONLY | O_CLOEXEC)};
  if (forbidden) return make_error(ErrorCode::unsupported, "installed, but refuses nothing");
  return std::to_string(abi);
}

Result<std::string> clone_with_arguments() {
  int pidfd = -1;
  clone_args args{};
  args.flags = CLONE_PIDFD;
  args.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  const pid_t child = kernel::clone3(args);
  if (child < 0) return failed("clone3");
  if (child == 0) ::_exit(0);
  HUTCH_TRY(wait_for(child, "clone3"));
  return "";
}

// A descriptor that is none: a kernel that knows the flag complains of the descriptor, any other of the flag.
Result<std::string> clone_into_cgroup() {
  clone_args args{};
  args.flags = CLONE_INTO_CGROUP;
  args.exit_signal = SIGCHLD;
  args.cgroup = 1'000'000;
  const pid_t child = kernel::clone3(args);
  if (child == 0) ::_exit(0);
  if (child < 0 && errno == EBADF) return "";
  return failed("clone3");
}

Result<std::string> process_descriptors() {
  const pid_t child = ::fork();
  if (child < 0) return failed("fork");
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const UniqueFd pidfd{kernel::pidfd_open(child)};
  const int sent = pidfd ? kernel::pidfd_send_signal(pidfd.get(), SIGKILL) : -1;
  const int reason = errno;
  if (sent != 0) ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  if (sent != 0) return system_error(reason).during("signal through a pidfd");
  return "";
}

Result<std::string> closing_ranges() {
  if (kernel::close_range(900, 901) != 0) return failed("close_range");
  return "";
}

Result<std::string> beneath_resolution() {
  const UniqueFd directory{::open("/usr", O_PATH | O_DIRECTORY | O_CLOEXEC)};
  const kernel::OpenHow how{.flags = O_PATH | O_CLOEXEC, .resolve = kernel::kResolveBeneath};
  const UniqueFd inside{kernel::openat2(directory.get(), ".", how)};
  if (!inside) return failed("openat2");
  const UniqueFd outside{kernel::openat2(directory.get(), "..", how)};
  if (outside || errno != EXDEV) return make_error(ErrorCode::unsupported, "RESOLVE_BENEATH does not hold");
  return "";
}

Result<std::string> thread_id_address() {
  int* address = nullptr;
  if (::prctl(PR_GET_TID_ADDRESS, &address, 0, 0, 0) != 0) return failed("PR_GET_TID_ADDRESS");
  if (address == nullptr) return make_error(ErrorCode::unsupported, "PR_GET_TID_ADDRESS knows no address");
  return "";
}

Result<std::string> control_groups(const std::string& place) {
  HUTCH_TRY(auto search, CgroupSearch::of_this_process());
  if (!place.empty()) search.place = place;
  HUTCH_TRY(auto root, CgroupRoot::open(search));
  HUTCH_TRY(auto group, root.create(1));
  HUTCH_TRY(group.apply(Limits{}));
  const pid_t child = ::fork();
  if (child < 0) return failed("fork");
  if (child == 0) {
    ::pause();
    ::_exit(0);
  }
  const auto attached = group.attach(child);
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  HUTCH_TRY(group.destroy());
  if (!attached) return attached.error();
  return root.describe();
}

}  // namespace hutch::probe
