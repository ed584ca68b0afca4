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

Error step_failed(Step step, int error_number) {
  return system_error(error_number).during("make sandbox: " + std::string(name_of(step)));
}

// Waits for the next report of init; one that died or hangs is a failure.
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

Result<ShellBirth> ShellBirth::begin(const ShellSource& source, const IdMap& ids, const Limits& limits,
                                     std::optional<Cgroup> cgroup, Step fault, Step& failed) {
  const std::uint64_t begin = kernel::monotonic_ns();
  failed = Step::namespaces;
  ShellBirth birth;
  Shell& shell = birth.shell_;
  shell.ids_ = ids;
  shell.cgroup_ = std::move(cgroup);

  const std::string size = std::to_string(limits.scratch.count);
  const std::string inodes = std::to_string(limits.inodes);
  const std::string owner = std::to_string(ids.runner_outside);
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) return system_error(errno);
  birth.socket_.reset(sockets[0]);
  const UniqueFd theirs{sockets[1]};
  InitPlan plan{.source = source,
                .ids = ids,
                .scratch_size = size.c_str(),
                .scratch_inodes = inodes.c_str(),
                .scratch_uid = owner.c_str(),
                .scratch_gid = owner.c_str(),
                .keeper = theirs.get(),
                .fault = fault};

  int pidfd = -1;
  clone_args args{};
  // init makes the other namespaces itself: one of the network takes its time.
  args.flags = CLONE_NEWPID | CLONE_PIDFD | CLONE_CLEAR_SIGHAND;
  args.pidfd = reinterpret_cast<std::uint64_t>(&pidfd);
  args.exit_signal = SIGCHLD;
  if (shell.cgroup_) {
    const auto files = shell.cgroup_->attach_fds();
    if (source.cgroup_is_directory) {
      args.flags |= CLONE_INTO_CGROUP;
      args.cgroup = static_cast<std::uint64_t>(files[0].get());
    } else {
      for (std::size_t i = 0; i < files.size() && i < kMostCgroupFiles; ++i) plan.cgroup_tasks[i] = files[i].get();
    }
  }
  const pid_t pid = kernel::clone3(args);
  if (pid < 0) return step_failed(Step::namespaces, errno);
  if (pid == 0) run_init(plan);
  shell.init_pid_ = pid;
  shell.init_pidfd_.reset(pidfd);
  birth.last_ns_ = begin;
  return birth;
}

Error ShellBirth::abandon(Step step, Error error, Step& failed) {
  failed = step;
  shell_.kill();
  ::waitpid(shell_.init_pid_, nullptr, 0);
  if (shell_.cgroup_) std::ignore = shell_.cgroup_->destroy();
  return error;
}

Result<std::optional<Shell>> ShellBirth::advance(Step& failed) {
  std::array<int, kInitFdCount> fds;
  fds.fill(-1);
  std::size_t fd_count = 0;
  auto report = receive_report(socket_.get(), fds, fd_count);
  UniqueFd* const owners[kInitFdCount] = {
      &shell_.landlock_, &shell_.workspace_,        &shell_.proc_,  &shell_.pid_, &shell_.net_, &shell_.ipc_,
      &shell_.uts_,      &shell_.cgroup_namespace_, &shell_.mount_, &shell_.user_};
  for (std::size_t i = 0; i < kInitFdCount; ++i) owners[i]->reset(fds[i]);
  if (!report) return abandon(Step::init_privileges, std::move(report).error(), failed);
  if (report->failed != Step::none) {
    return abandon(report->failed, step_failed(report->failed, report->error_number), failed);
  }
  if (report->wants_root) {
    if (root_ < 0 || wire::send_with_fds(socket_.get(), std::string_view("r"), std::span(&root_, 1)) != 1) {
      return abandon(Step::enter_root, make_error(ErrorCode::internal, "there is no root to enter"), failed);
    }
    return std::optional<Shell>{};
  }
  if (report->wants_ids) {
    auto mapped = map_ids(shell_.init_pid_, shell_.ids_);
    if (mapped && ::write(socket_.get(), "y", 1) != 1) mapped = system_error(errno);
    if (!mapped) return abandon(Step::user_namespace, std::move(mapped).error(), failed);
    return std::optional<Shell>{};
  }
  if (fd_count != kInitFdCount) {
    return abandon(Step::init_privileges, make_error(ErrorCode::protocol, "init sent too little"), failed);
  }
  for (std::size_t step = 0; step < kStepCount; ++step) {
    if (report->ended_ns[step] == 0) continue;
    shell_.steps_.duration_ns[step] = report->ended_ns[step] > last_ns_ ? report->ended_ns[step] - last_ns_ : 0;
    last_ns_ = report->ended_ns[step];
  }
  failed = Step::none;
  return std::optional<Shell>{std::move(shell_)};
}

Result<Shell> ShellBirth::finish(Step& failed) {
  for (;;) {
    HUTCH_TRY(auto shell, advance(failed));
    if (shell) return std::move(*shell);
  }
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

void Shell::close_entrances() {
  for (UniqueFd* fd : {&workspace_, &landlock_, &pid_, &net_, &ipc_, &uts_, &cgroup_namespace_, &mount_, &user_}) {
    fd->reset();
  }
  if (cgroup_) {
    cgroup_->close_attach_fds();
    proc_.reset();  // only the watchdog reads it
  }
}

// Whoever ends a mount namespace has everybody else on the machine wait who makes or ends one. So it is not to be one
// that stands back, nor the keeper: it holds no namespace any more.
void Shell::kill() {
  close_entrances();
  if (cgroup_) cgroup_->unthrottle();
  kernel::pidfd_send_signal(init_pidfd_.get(), SIGKILL);
}

}  // namespace hutch
