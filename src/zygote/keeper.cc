#include "zygote/keeper.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>

#include "sandbox/cgroup.h"
#include "sandbox/kernel.h"
#include "sandbox/landlock.h"
#include "sandbox/privileges.h"
#include "wire/codec.h"
#include "wire/fd_passing.h"
#include "zygote/keeper_loop.h"
#include "zygote/user_namespace.h"

namespace hutch {
namespace {

constexpr int kLeastLandlockAbi = 1;

struct Found {
  std::optional<CgroupRoot> cgroups;
  KeeperHello hello;
};

// What the host offers, looked up before we leave its pid and mount namespaces.
Found look_around(const Result<CgroupSearch>& search, bool sweep) {
  Found found;
  auto cgroups = search ? CgroupRoot::open(*search) : Result<CgroupRoot>(search.error());
  if (cgroups) {
    found.cgroups = std::move(*cgroups);
    if (sweep) found.cgroups->sweep();
    found.hello.cgroup = found.cgroups->describe();
  } else {
    found.hello.cgroup_problem = cgroups.error().message;
    found.hello.cgroup_hint = cgroups.error().hint;
  }
  found.hello.landlock_abi = static_cast<std::uint8_t>(landlock::abi_version());
  return found;
}

Result<KeeperTools> prepare(Found found) {
  if (found.hello.landlock_abi < kLeastLandlockAbi) {
    return make_error(ErrorCode::unsupported, "this kernel has no Landlock")
        .with_hint("boot Linux 5.13 or later with `landlock` in the lsm= list; `hutch doctor` shows the details");
  }
  if (::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) {
    return system_error(errno).during("make the keeper's mounts private");
  }
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0) {
    return system_error(errno)
        .during("mount /proc for the keeper")
        .with_hint(
            "inside a container, run it with an unmasked /proc (for Docker: --security-opt systempaths=unconfined)");
  }
  KeeperTools tools;
  tools.cgroups = std::move(found.cgroups);
  tools.landlock_abi = found.hello.landlock_abi;
  HUTCH_TRY(tools.sysctl_user, SysctlUser::open());
  tools.own_pid_namespace.reset(::open("/proc/self/ns/pid", O_RDONLY | O_CLOEXEC));
  if (!tools.own_pid_namespace) return system_error(errno).during("open /proc/self/ns/pid");
  HUTCH_TRY(tools.ids, IdAllocator::open());
  return tools;
}

// An engine that dies closes its socket, and the loop takes everything apart. Should the loop hang just then, the alarm
// ends it; and with the keeper, PID 1 of its namespace, the kernel ends everything it made.
void leave_soon_after_the_engine() {
  constexpr unsigned kSeconds = 5;
  struct sigaction action{};
  action.sa_handler = [](int) { ::alarm(kSeconds); };
  ::sigaction(SIGUSR1, &action, nullptr);
  action.sa_handler = [](int) { ::_exit(1); };
  ::sigaction(SIGALRM, &action, nullptr);
  ::prctl(PR_SET_PDEATHSIG, SIGUSR1, 0, 0, 0);
}

[[noreturn]] void run_keeper(const KeeperOptions& options, Found found, UniqueFd engine) {
  ::prctl(PR_SET_NAME, "hutch-keeper", 0, 0, 0);
  if (options.priority) ::setpriority(PRIO_PROCESS, 0, *options.priority);
  leave_soon_after_the_engine();
  ::setsid();
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE}) ::signal(signal, SIG_IGN);
  KeeperHello hello = found.hello;
  auto tools = prepare(std::move(found));
  hello.ok = tools.has_value();
  if (tools) {
    hello.own_ids = tools->ids.own_ids();
  } else {
    hello.message = tools.error().message;
    hello.hint = tools.error().hint;
  }
  send_packet(engine.get(), KeeperReplyKind::hello, hello, {});
  // Never destroyed: when run() returns, everything it made is gone, and the kernel is quicker with the rest. Hanging
  // up tells the engine so.
  const int socket = engine.get();
  if (tools) std::make_unique<KeeperLoop>(options, std::move(*tools), std::move(engine)).release()->run();
  ::shutdown(socket, SHUT_RDWR);
  ::_exit(0);
}

}  // namespace

Result<KeeperHandle> start_keeper(const KeeperOptions& options) {
  // The search names the user by the id the host knows, so it comes before the user namespace.
  auto search = CgroupSearch::of_this_process();
  if (search && !options.cgroup_override.empty()) search->place = options.cgroup_override;
  HUTCH_TRY(become_namespace_root());
  Found found = look_around(search, options.sweep);

  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) return system_error(errno);
  KeeperHandle handle;
  if (found.cgroups) handle.counts.reset(::fcntl(found.cgroups->counts(), F_DUPFD_CLOEXEC, 0));
  handle.socket.reset(sockets[0]);
  UniqueFd theirs{sockets[1]};

  clone_args args{};
  args.flags = CLONE_NEWPID | CLONE_NEWNS;
  args.exit_signal = SIGCHLD;
  handle.pid = kernel::clone3(args);
  if (handle.pid < 0) return system_error(errno).during("start the keeper");
  if (handle.pid == 0) {
    handle.socket.reset();
    handle.counts.reset();
    run_keeper(options, std::move(found), std::move(theirs));
  }
  theirs.reset();

  // The engine keeps one right: reading what a sandbox left in its workspace, whoever owns it.
  if (privileges::keep_only({CAP_DAC_READ_SEARCH}) != 0) return system_error(errno).during("give up privileges");
  if (privileges::set_no_new_privileges() != 0) return system_error(errno).during("set no_new_privs");

  std::string bytes(kMostKeeperBytes, '\0');
  std::size_t fd_count = 0;
  const ssize_t got = wire::receive_with_fds(handle.socket.get(), bytes, {}, fd_count);
  if (got < 1) return make_error(ErrorCode::disconnected, "the keeper died while it was starting");
  HUTCH_TRY(handle.hello,
            wire::decode<KeeperHello>(std::string_view(bytes).substr(1, static_cast<std::size_t>(got) - 1)));
  if (!handle.hello.ok) {
    return make_error(ErrorCode::unsupported, handle.hello.message).with_hint(handle.hello.hint);
  }
  return handle;
}

}  // namespace hutch
