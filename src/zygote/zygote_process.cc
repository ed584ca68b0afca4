#include "zygote/zygote_process.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "sandbox/kernel.h"
#include "sandbox/privileges.h"
#include "sandbox/seccomp_filter.h"
#include "wire/fd_passing.h"

namespace hutch {
namespace {

constexpr int kForkTimeoutMs = 10'000;
constexpr unsigned kMountFlags = MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC;

int make_mount(const char* type) {
  const int fs = ::fsopen(type, FSOPEN_CLOEXEC);
  if (fs < 0 || ::fsconfig(fs, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) return -1;
  return ::fsmount(fs, FSMOUNT_CLOEXEC, kMountFlags);
}

struct Program {
  std::vector<std::string> arguments;
  std::vector<std::string> environment;
  static std::vector<char*> pointers(std::vector<std::string>& strings) {
    std::vector<char*> result;
    for (auto& text : strings) result.push_back(text.data());
    result.push_back(nullptr);
    return result;
  }
};

// In the child: the template's root, a private /tmp, its own proc, no network; then exec.
[[noreturn]] void become_zygote(Program program, int template_mounts, int control) {
  auto arguments = Program::pointers(program.arguments);
  auto environment = Program::pointers(program.environment);
  const auto must = [](bool worked, const char* what) {
    if (worked) return;
    ::dprintf(2, "hutch: zygote: %s: %s\n", what, std::strerror(errno));
    ::_exit(125);
  };
  ::prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0);
  ::prctl(PR_SET_NAME, "hutch-zygote", 0, 0, 0);
  const int proc = make_mount("proc");  // before the host's proc is out of sight: see init.cc
  const int temporary = make_mount("tmpfs");
  must(proc >= 0 && temporary >= 0, "make /proc and /tmp");
  must(::setns(template_mounts, CLONE_NEWNS) == 0, "enter the root");
  must(::unshare(CLONE_NEWNS | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS) == 0, "new namespaces");
  must(::move_mount(proc, "", AT_FDCWD, "/proc", MOVE_MOUNT_F_EMPTY_PATH) == 0, "mount /proc");
  must(::move_mount(temporary, "", AT_FDCWD, "/tmp", MOVE_MOUNT_F_EMPTY_PATH) == 0, "mount /tmp");
  must(::chdir("/workspace") == 0, "chdir");
  // What is left of root's rights in a zygote: joining namespaces.
  must(privileges::keep_only_across_exec({CAP_SYS_ADMIN, CAP_SYS_CHROOT}) == 0, "limit capabilities");
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  must(null >= 0 && ::dup2(null, 0) == 0 && ::dup2(null, 1) == 1, "open /dev/null");
  must(control == kControlFd || ::dup2(control, kControlFd) == kControlFd, "place the control socket");
  ::fcntl(kControlFd, F_SETFD, 0);
  kernel::close_range(kControlFd + 1, ~0U);
  restore_signals();
  ::execve(arguments[0], arguments.data(), environment.data());
  must(false, "start the interpreter");
  ::_exit(125);
}

std::span<const char> bytes_of(std::span<const sock_filter> filter) {
  return {reinterpret_cast<const char*>(filter.data()), filter.size_bytes()};
}

}  // namespace

void restore_signals() {
  // Also those that glibc keeps for itself and those that whoever started us ignored. The kernel's own struct is four
  // words, all zero for the default.
  constexpr std::size_t kMaskSize = 8;
  const unsigned long by_default[4] = {};
  for (int signal = 1; signal <= 64; ++signal) ::syscall(SYS_rt_sigaction, signal, by_default, nullptr, kMaskSize);
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

std::vector<std::string> interpreter_environment(const Template& source) {
  std::map<std::string, std::string> variables = {
      {"PATH", "/usr/local/bin:/usr/bin:/bin"},
      {"HOME", "/tmp"},
      {"USER", "hutch"},
      {"LOGNAME", "hutch"},
      {"LANG", "C.UTF-8"},
      {"TMPDIR", "/tmp"},
      {"PYTHONDONTWRITEBYTECODE", "1"},
  };
  for (const auto& [name, value] : source.environment) variables[name] = value;
  if (!source.skeleton.empty()) variables["HUTCH_SKELETON"] = source.skeleton;
  std::vector<std::string> result;
  for (const auto& [name, value] : variables) result.push_back(name + "=" + value);
  return result;
}

ZygoteProcess ZygoteProcess::at(UniqueFd socket) {
  ZygoteProcess zygote;
  zygote.socket_ = std::move(socket);
  return zygote;
}

Result<ZygoteProcess> ZygoteProcess::start(const Template& source, int template_mounts, int own_pid_namespace,
                                           Step fault) {
  if (fault == Step::zygote) return system_error(EIO).during("start the zygote");
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) return system_error(errno);
  ZygoteProcess zygote = at(UniqueFd{sockets[0]});
  const UniqueFd theirs{sockets[1]};

  Program program{.arguments = {source.interpreter, "-I", "-X", "utf8", "/opt/hutch/runner/zygote_main.py",
                                std::to_string(kControlFd)},
                  .environment = interpreter_environment(source)};
  // Else the linker looks for a function when it is first called, in every child anew. Modules are bound at once
  // anyway.
  program.environment.emplace_back("LD_BIND_NOW=1");
  for (const auto& module : source.preload) program.arguments.push_back(module);

  // Not by fork(), after which a sanitizer starts a thread: nobody with threads may enter a mount namespace.
  clone_args args{};
  args.exit_signal = SIGCHLD;
  const pid_t pid = kernel::clone3(args);
  if (pid < 0) return system_error(errno).during("fork the zygote");
  if (pid == 0) become_zygote(std::move(program), template_mounts, theirs.get());
  zygote.pid_ = pid;

  const ZygoteHello hello{.base_filter_length = static_cast<std::uint32_t>(base_filter().size()),
                          .final_filter_length = static_cast<std::uint32_t>(final_filter().size())};
  const int fds[] = {own_pid_namespace};
  const int socket = zygote.socket_.get();
  if (wire::send_with_fds(socket, {reinterpret_cast<const char*>(&hello), sizeof(hello)}, fds) < 0 ||
      wire::send_with_fds(socket, bytes_of(base_filter()), {}) < 0 ||
      wire::send_with_fds(socket, bytes_of(final_filter()), {}) < 0) {
    return system_error(errno).during("greet the zygote");
  }
  return zygote;
}

Result<void> ZygoteProcess::receive_ready() {
  ZygoteReady message{.word = ZygoteWord::none};
  std::size_t fd_count = 0;
  const ssize_t got =
      wire::receive_with_fds(socket_.get(), {reinterpret_cast<char*>(&message), sizeof(message)}, {}, fd_count);
  if (got != static_cast<ssize_t>(sizeof(message)) || message.word != ZygoteWord::ready) {
    return make_error(ErrorCode::disconnected, "the warm interpreter died while it was starting")
        .with_hint("see the engine's log (`hutch engine status` names it) for what Python said");
  }
  ready_ = true;
  image_ = message.heap_bytes;
  return {};
}

Result<void> ZygoteProcess::ask_for_runner(const ForkRequest& request, std::span<const int> fds) {
  // What it says next is that it is ready: that must not be taken for an answer.
  if (!ready_) return make_error(ErrorCode::internal, "the zygote is not ready yet");
  if (wire::send_with_fds(socket_.get(), {reinterpret_cast<const char*>(&request), sizeof(request)}, fds) < 0) {
    return system_error(errno).during("ask the zygote");
  }
  return {};
}

Result<ForkReply> ZygoteProcess::receive_runner() {
  pollfd waiting{.fd = socket_.get(), .events = POLLIN, .revents = 0};
  if (::poll(&waiting, 1, kForkTimeoutMs) == 0) {
    lost_ = true;  // a late reply would be taken for that to the next request
    return make_error(ErrorCode::timed_out, "the zygote does not answer");
  }
  ForkReply reply{.word = ZygoteWord::none};
  std::size_t fd_count = 0;
  const ssize_t got =
      wire::receive_with_fds(socket_.get(), {reinterpret_cast<char*>(&reply), sizeof(reply)}, {}, fd_count);
  if (got != static_cast<ssize_t>(sizeof(reply)) || reply.word != ZygoteWord::forked) {
    lost_ = true;
    return make_error(ErrorCode::disconnected, got > 0 ? "the zygote talks nonsense" : "the zygote died");
  }
  if (reply.pid < 0) return system_error(reply.error_number).during("fork a runner");
  ++forks_;
  return reply;
}

}  // namespace hutch
