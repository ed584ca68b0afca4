#include "sandbox/shell.h"

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include <cerrno>
#include <string_view>

#include "sandbox/init.h"
#include "sandbox/kernel.h"
#include "wire/fd_passing.h"

namespace hutch {
namespace {

constexpr int kInitTimeoutMs = 10'000;

Result<void> write_file(const std::string& path, std::string_view text) {
  const UniqueFd file{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return system_error(errno).during("write " + path);
  }
  return {};
}

Result<void> map_ids(pid_t pid, const IdMap& ids) {
  const std::string process = "/proc/" + std::to_string(pid);
  HUTCH_TRY(write_file(process + "/uid_map", ids.text()));
  return write_file(process + "/gid_map", ids.text());
}

Result<UniqueFd> open_namespace(pid_t pid, const char* name) {
  const std::string path = "/proc/" + std::to_string(pid) + "/ns/" + name;
  UniqueFd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!fd) return system_error(errno).during("open " + path);
  return fd;
}

Error step_failed(Step step, int error_number) {
  return system_error(error_number).during("make sandbox: " + std::string(name_of(step)));
}

// Waits for the next report of init. An init that died or hangs is a failure of `expected`.
Result<InitReport> receive_report(int socket, std::span<int> fds, std::size_t& fd_count) {
  pollfd waiting{.fd = socket, .events = POLLIN, .revents = 0};
  const int ready = ::poll(&waiting, 1, kInitTimeoutMs);
  if (ready == 0) return make_error(ErrorCode::timed_out, "init did not answer");
  InitReport report;
  std::span<char> bytes{reinterpret_cast<char*>(&report), sizeof(report)};
  if (wire::receive_with_fds(socket, bytes, fds, fd_count) != static_cast<ssize_t>(sizeof(report))) {
    return make_error(ErrorCode::disconnected, "init died");
  }
  return report;
}

}  // namespace

std::string IdMap::text() const {
  const auto line = [](uid_t inside, uid_t outside) {
    return std::to_string(inside) + " " + std::to_string(outside) + " 1\n";
  };
  if (init_inside == runner_inside) return line(runner_inside, runner_outside);
  return line(init_inside, init_outside) + line(runner_inside, runner_outside);
}

Result<Shell> Shell::make(const ShellSource& source, const IdMap& ids, const Limits& limits,
                          std::optional<Cgroup> cgroup, Step fault, Step& failed) {
  const std::uint64_t begin = kernel::monotonic_ns();
  Shell shell;
  shell.ids_ = ids;
  shell.cgroup_ = std::move(cgroup);

  const std::string size = std::to_string(limits.scratch.count);
  const std::string inodes = std::to_string(limits.inodes);
  const std::string owner = std::to_string(ids.runner_outside);

  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) return system_error(errno);
  UniqueFd ours{sockets[0]};
  UniqueFd theirs{sockets[1]};
  const InitPlan plan{.source = source,
                      .ids = ids,
                      .scratch_size = size.c_str(),
                      .scratch_inodes = inodes.c_str(),
                      .scratch_uid = owner.c_str(),
                      .scratch_gid = owner.c_str(),
                      .keeper = theirs.get(),
                      .fault = fault};

  failed = Step::namespaces;
  int pidfd = -1;
  clone_args args{};
  args.flags = CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS | CLONE_PIDFD;
  args.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  const pid_t pid = fault == Step::namespaces ? -1 : kernel::clone3(args);
  if (pid < 0) return step_failed(Step::namespaces, fault == Step::namespaces ? EIO : errno);
  if (pid == 0) run_init(plan);
  shell.init_pid_ = pid;
  shell.init_pidfd_.reset(pidfd);
  theirs.reset();

  const auto abandon = [&](Step step, Error error) {
    failed = step;
    shell.kill();
    ::waitpid(pid, nullptr, 0);
    if (shell.cgroup_) std::ignore = shell.cgroup_->destroy();
    return error;
  };

  if (shell.cgroup_) {
    if (auto attached = shell.cgroup_->attach(pid); !attached) {
      return abandon(Step::cgroup, std::move(attached).error());
    }
  }
  std::uint64_t last = kernel::monotonic_ns();
  shell.steps_.duration_ns[static_cast<std::size_t>(Step::namespaces)] = last - begin;

  int fds[3] = {-1, -1, -1};
  std::size_t fd_count = 0;
  for (;;) {
    auto report = receive_report(ours.get(), fds, fd_count);
    if (!report) return abandon(Step::init_privileges, std::move(report).error());
    if (report->failed != Step::none) {
      return abandon(report->failed, step_failed(report->failed, report->error_number));
    }
    if (report->wants_ids) {
      if (auto mapped = map_ids(pid, ids); !mapped) return abandon(Step::user_namespace, std::move(mapped).error());
      if (::write(ours.get(), "y", 1) != 1) return abandon(Step::user_namespace, system_error(errno));
      continue;
    }
    for (std::size_t step = 0; step < kStepCount; ++step) {
      if (report->ended_ns[step] == 0) continue;
      shell.steps_.duration_ns[step] = report->ended_ns[step] > last ? report->ended_ns[step] - last : 0;
      last = report->ended_ns[step];
    }
    break;
  }
  shell.landlock_.reset(fds[0]);
  shell.workspace_.reset(fds[1]);
  shell.proc_.reset(fds[2]);
  if (fd_count != 3) return abandon(Step::init_privileges, make_error(ErrorCode::protocol, "init sent too little"));

  const std::pair<const char*, UniqueFd*> wanted[] = {
      {"pid_for_children", &shell.pid_}, {"net", &shell.net_},   {"ipc", &shell.ipc_}, {"uts", &shell.uts_},
      {"cgroup", &shell.cgroup_namespace_}, {"mnt", &shell.mount_}, {"user", &shell.user_}};
  for (const auto& [name, target] : wanted) {
    auto opened = open_namespace(pid, name);
    if (!opened) return abandon(Step::init_privileges, std::move(opened).error());
    *target = std::move(*opened);
  }
  failed = Step::none;
  return shell;
}

ShellDescriptors Shell::descriptors() const {
  ShellDescriptors result{.pid = pid_.get(),
                          .net = net_.get(),
                          .ipc = ipc_.get(),
                          .uts = uts_.get(),
                          .cgroup = cgroup_namespace_.get(),
                          .mount = mount_.get(),
                          .user = user_.get(),
                          .landlock = landlock_.get()};
  return result;
}

void Shell::kill() const { kernel::pidfd_send_signal(init_pidfd_.get(), SIGKILL); }

}  // namespace hutch
