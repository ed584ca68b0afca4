// Runners that join a sandbox which is already in use: the next interpreter of a session, and helpers that work beside
// it. Such a sandbox lasts until it is released, not until its first runner ends.
#include <csignal>
#include <utility>
#include <vector>

#include "sandbox/kernel.h"
#include "zygote/keeper_loop.h"

namespace hutch {

void KeeperLoop::begin_guest(const StartRequest& request) {
  const auto found = sandboxes_.find(request.into);
  if (found == sandboxes_.end() || !found->second.lasting || found->second.init_gone || found->second.released) {
    return tell_gone(request);
  }
  Sandbox& host = found->second;
  if (host.being_emptied) return for_guests_.push_back(request);
  Streams runner;
  Streams engine;
  if (auto made = make_streams(runner, engine, request.task); !made)
    return fail(request, Step::join_namespaces, made.error());
  if (!request.helper && host.shell.cgroup()) {
    auto applied = host.shell.cgroup()->apply(request.limits.to_limits());
    if (!applied) return fail(request, Step::cgroup, applied.error());
  }
  if (!request.helper) host.place = place_of(request, host.shell);
  place_zygote(request, host.place);
  auto asked = ask_zygote(request, host.shell, runner);
  if (!asked) return fail(request, Step::join_namespaces, asked.error());
  tell_started(request, host.shell, engine, true);
  auto forked = hear_zygote(request);
  if (!forked) return fail(request, Step::join_namespaces, forked.error());
  guests_[request.run] = {.host = request.into, .process = forked->pid, .helper = request.helper};
  by_process_[forked->pid] = request.run;
  host.guests.push_back(request.run);
}

void KeeperLoop::tell_gone(const StartRequest& request) {
  const FailedReply reply{
      .run = request.run, .step = Step::join_namespaces, .sandbox_gone = true, .message = "the sandbox is gone"};
  send_packet(engine_.get(), KeeperReplyKind::failed, reply, {});
}

// init, which holds the sandbox, and those who work for us.
std::vector<pid_t> KeeperLoop::own_processes(const Sandbox& sandbox) const {
  std::vector<pid_t> own{sandbox.shell.init_pid()};
  for (const std::uint64_t run : sandbox.guests) {
    if (const auto guest = guests_.find(run); guest != guests_.end() && guest->second.helper) {
      own.push_back(guest->second.process);
    }
  }
  return own;
}

void KeeperLoop::kill_program(std::uint64_t run, Sandbox& sandbox) {
  if (!sandbox.runner_gone) ::kill(sandbox.runner, SIGKILL);
  if (!sandbox.shell.cgroup()) return;
  sandbox.shell.cgroup()->unthrottle();
  begin_to_empty(run, sandbox, 0);
}

void KeeperLoop::kill_others(std::uint64_t run) {
  const auto guest = guests_.find(run);
  const auto found = sandboxes_.find(guest != guests_.end() ? guest->second.host : run);
  if (found == sandboxes_.end() || !found->second.shell.cgroup()) return;
  begin_to_empty(found->first, found->second, run);
}

// A process that has SIGKILL pending has no more children, but one that is being born just now is in no list yet: it
// would be missed, and all that come of it. So nobody is born from here on, and the sandbox is empty only when those
// who were told to die are gone.
void KeeperLoop::begin_to_empty(std::uint64_t run, Sandbox& sandbox, std::uint64_t but_for) {
  sandbox.shell.cgroup()->stop_forks();
  std::erase_if(emptying_, [run](const Emptying& other) { return other.run == run; });
  sandbox.being_emptied = !is_empty(sandbox, but_for);
  if (sandbox.being_emptied) {
    emptying_.push_back({.run = run, .but_for = but_for});
  } else {
    guests_may_begin_ = true;
  }
}

void KeeperLoop::go_on_emptying() {
  constexpr std::uint64_t kPauseNs = 2'000'000;
  const std::uint64_t now = kernel::monotonic_ns();
  if (!emptying_.empty() && now - looked_ns_ >= kPauseNs) look_at_emptying(now);
  if (!std::exchange(guests_may_begin_, false)) return;
  // As if they came only now: their zygote may have died meanwhile, and the next one not be ready yet.
  for (const auto& request : std::exchange(for_guests_, {})) handle_start(request);
}

void KeeperLoop::look_at_emptying(std::uint64_t now) {
  looked_ns_ = now;
  const auto empty = std::erase_if(emptying_, [this](const Emptying& one) {
    const auto found = sandboxes_.find(one.run);
    if (found == sandboxes_.end()) return true;
    auto& sandbox = found->second;
    sandbox.being_emptied = !sandbox.released && !sandbox.init_gone && !is_empty(sandbox, one.but_for);
    return !sandbox.being_emptied;
  });
  if (empty > 0) guests_may_begin_ = true;
}

bool KeeperLoop::is_empty(Sandbox& sandbox, std::uint64_t but_for) {
  auto spared = own_processes(sandbox);
  if (but_for != 0) {
    const auto guest = guests_.find(but_for);
    spared.push_back(guest != guests_.end() ? guest->second.process : sandbox.runner);
  }
  if (!sandbox.shell.cgroup()->kill_all_but(spared)) return false;
  if (auto restored = sandbox.shell.cgroup()->restore(); !restored) return false;
  if (but_for != 0) send_packet(engine_.get(), KeeperReplyKind::limited, LimitedReply{.run = but_for}, {});
  return true;
}

void KeeperLoop::guest_ended(std::uint64_t run, int wait_status) {
  const Guest guest = guests_.at(run);
  guests_.erase(run);
  ExitedReply words{.run = run, .wait_status = wait_status};
  if (const auto host = sandboxes_.find(guest.host); host != sandboxes_.end()) {
    std::erase(host->second.guests, run);
    words.usage = usage_of(host->second);
    if (!guest.helper) kill_program(host->first, host->second);
  }
  send_packet(engine_.get(), KeeperReplyKind::exited, words, {});
}

void KeeperLoop::handle_settle(const SettleRequest& request) {
  const auto found = sandboxes_.find(request.run);
  if (found == sandboxes_.end()) return;
  auto& shell = found->second.shell;
  found->second.lasting = request.lasting;
  if (!request.lasting) return shell.close_entrances();
  if (shell.cgroup()) shell.cgroup()->spare_init();
}

}  // namespace hutch
