// Runners that join a sandbox which is already in use: the next interpreter of a session, and helpers that work beside
// it. Such a sandbox lasts until it is released, not until its first runner ends.
#include <csignal>
#include <vector>

#include "zygote/keeper_loop.h"

namespace hutch {

void KeeperLoop::begin_guest(const StartRequest& request) {
  const auto found = sandboxes_.find(request.into);
  if (found == sandboxes_.end() || !found->second.lasting || found->second.init_gone || found->second.released) {
    return fail(request, Step::join_namespaces, make_error(ErrorCode::not_found, "the sandbox is gone"));
  }
  Sandbox& host = found->second;
  Streams runner;
  Streams engine;
  if (auto made = make_streams(runner, engine, request.task); !made)
    return fail(request, Step::join_namespaces, made.error());
  if (!request.helper && host.shell.cgroup()) {  // killing the last one lifted the limits
    auto applied = host.shell.cgroup()->apply(request.limits.to_limits());
    if (!applied) return fail(request, Step::cgroup, applied.error());
  }
  auto forked = start_warm(request, host.shell, runner);
  if (!forked) return fail(request, Step::join_namespaces, forked.error());
  tell_started(request, host.shell, engine, forked->fork_ns, true);
  guests_[request.run] = {.host = request.into, .process = forked->pid, .helper = request.helper};
  by_process_[forked->pid] = request.run;
  host.guests.push_back(request.run);
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

void KeeperLoop::kill_program(Sandbox& sandbox) {
  if (!sandbox.runner_gone) ::kill(sandbox.runner, SIGKILL);
  if (!sandbox.shell.cgroup()) return;
  sandbox.shell.cgroup()->unthrottle();
  sandbox.shell.cgroup()->kill_all_but(own_processes(sandbox));
}

void KeeperLoop::kill_others(std::uint64_t run) {
  const auto guest = guests_.find(run);
  const auto found = sandboxes_.find(guest != guests_.end() ? guest->second.host : run);
  if (found == sandboxes_.end() || !found->second.shell.cgroup()) return;
  auto spared = own_processes(found->second);
  spared.push_back(guest != guests_.end() ? guest->second.process : found->second.runner);
  found->second.shell.cgroup()->kill_all_but(spared);
}

void KeeperLoop::guest_ended(std::uint64_t run, int wait_status) {
  const Guest guest = guests_.at(run);
  guests_.erase(run);
  ExitedReply words{.run = run, .wait_status = wait_status};
  if (const auto host = sandboxes_.find(guest.host); host != sandboxes_.end()) {
    std::erase(host->second.guests, run);
    words.usage = usage_of(host->second);
    if (!guest.helper) kill_program(host->second);
  }
  send_packet(engine_.get(), KeeperReplyKind::exited, words, {});
}

void KeeperLoop::handle_settle(const SettleRequest& request) {
  const auto found = sandboxes_.find(request.run);
  if (found == sandboxes_.end()) return;
  found->second.lasting = request.lasting;
  if (!request.lasting) found->second.shell.close_entrances();
}

}  // namespace hutch
