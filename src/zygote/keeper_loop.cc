#include "zygote/keeper_loop.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "sandbox/kernel.h"
#include "zygote/cold_start.h"
#include "zygote/proc_usage.h"
#include "zygote/template_root.h"

namespace hutch {
namespace {

constexpr std::uint64_t kForksPerZygote = 1'000;  // forks of one share its address layout and hash seed
constexpr std::uint32_t kMostSpareFailures = 3;
constexpr std::uint64_t kTimeToLeaveNs = 2'000'000'000;
constexpr int kRetryMs = 5;  // a control group whose last member is still dying

std::uint64_t microseconds(const timeval& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000U + static_cast<std::uint64_t>(time.tv_usec);
}

}  // namespace

KeeperLoop::KeeperLoop(const KeeperOptions& options, KeeperTools tools, UniqueFd engine)
    : options_(options), tools_(std::move(tools)), engine_(std::move(engine)), prepared_(options.templates.size()) {
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &child, nullptr);
  signals_.reset(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
}

void KeeperLoop::run() {
  while (serve_once()) {
  }
  take_everything_apart();
}

bool KeeperLoop::serve_once() {
  std::vector<pollfd> waiting = {{.fd = engine_.get(), .events = POLLIN, .revents = 0},
                                 {.fd = signals_.get(), .events = POLLIN, .revents = 0}};
  for (const auto& prepared : prepared_) {
    const bool starting = prepared.zygote && !prepared.zygote->ready();
    const int next = prepared.next_zygote ? prepared.next_zygote->socket() : -1;
    waiting.push_back({.fd = starting ? prepared.zygote->socket() : next, .events = POLLIN, .revents = 0});
    waiting.push_back({.fd = prepared.next_spare ? prepared.next_spare->socket() : -1, .events = POLLIN, .revents = 0});
  }
  int ready = ::poll(waiting.data(), waiting.size(), 0);
  if (ready == 0) {
    if (!anybody_running()) {  // never at the cost of a program that is running
      refill();
      for (std::uint32_t i = 0; i < prepared_.size(); ++i) recycle_zygote(i);
    }
    const bool dying = std::ranges::any_of(sandboxes_, [](const auto& entry) { return entry.second.released; });
    for (std::size_t i = 0; i < prepared_.size(); ++i) {
      if (prepared_[i].next_zygote) waiting[2 + 2 * i].fd = prepared_[i].next_zygote->socket();
      if (prepared_[i].next_spare) waiting[3 + 2 * i].fd = prepared_[i].next_spare->socket();
    }
    ready = ::poll(waiting.data(), waiting.size(), dying ? kRetryMs : -1);
  }
  if (ready < 0 && errno != EINTR) return false;
  if (waiting[1].revents != 0) reap();
  if (waiting[0].revents != 0 && !receive_request()) return false;
  finish_released();
  for (std::uint32_t i = 0; i < prepared_.size(); ++i) {
    if (waiting[2 + 2 * i].revents != 0) {
      if (prepared_[i].zygote && !prepared_[i].zygote->ready()) {
        zygote_readable(i);
      } else {
        next_zygote_readable(i);
      }
    }
    if (waiting[3 + 2 * i].revents != 0) birth_readable(i);
  }
  return true;
}

// The engine is gone, in whatever way: kill every sandbox and remove its control group. What does not go in time dies
// with us, and its group is left for the next engine's sweep.
void KeeperLoop::take_everything_apart() {
  for (auto& prepared : prepared_) {
    prepared.zygote.reset();
    prepared.next_zygote.reset();
    for (auto& shell : prepared.spare) retire(std::move(shell));
    prepared.spare.clear();
    if (!prepared.next_spare) continue;
    Step failed = Step::none;
    if (auto shell = prepared.next_spare->finish(failed)) retire(std::move(*shell));
    prepared.next_spare.reset();
  }
  for (auto& [run, sandbox] : sandboxes_) {
    sandbox.released = true;
    sandbox.shell.kill();
  }
  const std::uint64_t deadline = kernel::monotonic_ns() + kTimeToLeaveNs;
  while (!sandboxes_.empty() && kernel::monotonic_ns() < deadline) {
    pollfd child{.fd = signals_.get(), .events = POLLIN, .revents = 0};
    ::poll(&child, 1, kRetryMs);
    reap();
    finish_released();
  }
}

bool KeeperLoop::anybody_running() const {
  return std::ranges::any_of(sandboxes_,
                             [](const auto& entry) { return !entry.second.released && !entry.second.parked; });
}

bool KeeperLoop::receive_request() {
  std::string bytes(kMostKeeperBytes, '\0');
  std::size_t fd_count = 0;
  const ssize_t got = wire::receive_with_fds(engine_.get(), bytes, {}, fd_count);
  if (got < 1) return false;
  const auto payload = std::string_view(bytes).substr(1, static_cast<std::size_t>(got) - 1);
  switch (static_cast<KeeperRequestKind>(bytes[0])) {
    case KeeperRequestKind::start: {
      auto request = wire::decode<StartRequest>(payload);
      if (!request || request->template_index >= prepared_.size()) return false;
      handle_start(*request);
      return true;
    }
    case KeeperRequestKind::signal: {
      auto request = wire::decode<SignalRequest>(payload);
      if (!request) return false;
      handle_signal(*request);
      return true;
    }
    case KeeperRequestKind::usage: {
      auto request = wire::decode<UsageRequest>(payload);
      if (!request) return false;
      const auto found = sandboxes_.find(request->run);
      if (found == sandboxes_.end()) return true;
      send_packet(engine_.get(), KeeperReplyKind::usage,
                  UsageReply{.run = request->run, .usage = usage_of(found->second)}, {});
      return true;
    }
    case KeeperRequestKind::release: {
      auto request = wire::decode<ReleaseRequest>(payload);
      if (!request) return false;
      handle_release(request->run);
      return true;
    }
  }
  return false;
}

void KeeperLoop::handle_signal(const SignalRequest& request) {
  const auto found = sandboxes_.find(request.run);
  if (found == sandboxes_.end()) return;
  auto& sandbox = found->second;
  if (request.signal == SIGKILL) {
    if (sandbox.shell.cgroup()) sandbox.shell.cgroup()->unthrottle();
    return sandbox.shell.kill();
  }
  if (!sandbox.runner_gone) ::kill(sandbox.runner, request.signal);
}

void KeeperLoop::handle_release(std::uint64_t run) {
  const auto found = sandboxes_.find(run);
  if (found == sandboxes_.end()) return;
  found->second.shell.kill();
  found->second.released = true;
  finish_released();
}

void KeeperLoop::zygote_readable(std::uint32_t index) {
  auto& prepared = prepared_[index];
  const auto ready = prepared.zygote->receive_ready();
  if (ready) {
    prepared.zygote_failures = 0;
  } else {
    ++prepared.zygote_failures;
    prepared.zygote.reset();
  }
  std::vector<StartRequest> mine;
  std::vector<StartRequest> others;
  for (const auto& request : waiting_) (request.template_index == index ? mine : others).push_back(request);
  waiting_ = std::move(others);
  for (const auto& request : mine) {
    if (ready) {
      begin(request);
    } else {
      fail(request, Step::zygote, ready.error());
    }
  }
}

// The next one imports while the old one goes on serving, so nobody waits.
void KeeperLoop::recycle_zygote(std::uint32_t index) {
  auto& prepared = prepared_[index];
  if (!prepared.zygote || prepared.zygote->forks() < kForksPerZygote || prepared.next_zygote) return;
  auto next = ZygoteProcess::start(options_.templates[index], prepared.mounts.get(), tools_.own_pid_namespace.get(),
                                   Step::none);
  if (next) prepared.next_zygote = std::move(*next);
}

void KeeperLoop::next_zygote_readable(std::uint32_t index) {
  auto& prepared = prepared_[index];
  if (!prepared.next_zygote) return;
  if (prepared.next_zygote->receive_ready()) prepared.zygote = std::move(*prepared.next_zygote);
  prepared.next_zygote.reset();  // the old one ends when its socket closes
}

void KeeperLoop::reap() {
  signalfd_siginfo drained[16];
  while (::read(signals_.get(), drained, sizeof(drained)) > 0) {
  }
  for (;;) {
    int status = 0;
    rusage used{};
    const pid_t pid = ::wait4(-1, &status, WNOHANG, &used);
    if (pid <= 0) return;
    for (auto& prepared : prepared_) {
      if (prepared.zygote && prepared.zygote->ready() && prepared.zygote->pid() == pid) prepared.zygote.reset();
    }
    for (auto& [run, sandbox] : sandboxes_) {
      if (sandbox.shell.init_pid() == pid) sandbox.init_gone = true;
      if (sandbox.runner == pid && !sandbox.runner_gone) {
        runner_ended(run, sandbox, status, microseconds(used.ru_utime) + microseconds(used.ru_stime),
                     static_cast<std::uint64_t>(used.ru_maxrss) << 10);
      }
    }
  }
}

// The runner's end is the sandbox's end: whatever it left running is killed before anybody looks at its files.
void KeeperLoop::runner_ended(std::uint64_t run, Sandbox& sandbox, int wait_status, std::uint64_t rusage_cpu_us,
                              std::uint64_t rusage_peak) {
  sandbox.runner_gone = true;
  if (sandbox.parked) {  // before it was ever used: another is made when there is need
    for (auto& prepared : prepared_) {
      if (prepared.parked == run) prepared.parked.reset();
    }
    sandbox.released = true;
    return sandbox.shell.kill();
  }
  ExitedReply reply{.run = run, .wait_status = wait_status, .usage = usage_of(sandbox)};
  sandbox.shell.kill();
  if (!reply.usage.from_cgroup) {
    reply.usage.cpu_us = std::max(reply.usage.cpu_us, rusage_cpu_us);
    reply.usage.peak_memory = std::max(reply.usage.peak_memory, rusage_peak);
  }
  send_packet(engine_.get(), KeeperReplyKind::exited, reply, {});
}

UsageNumbers KeeperLoop::usage_of(Sandbox& sandbox) const {
  if (!sandbox.shell.cgroup()) return usage_from_proc(sandbox.shell.proc(), sandbox.image);
  const auto usage = sandbox.shell.cgroup()->usage();
  if (!usage) return {};
  return {.cpu_us = usage->cpu_us > sandbox.cpu_before ? usage->cpu_us - sandbox.cpu_before : 0,
          .peak_memory = usage->peak_memory,
          .memory_now = usage->memory_now,
          .oom_kills = usage->oom_kills,
          .process_limit_hits = usage->process_limit_hits,
          .from_cgroup = true};
}

void KeeperLoop::finish_released() {
  for (auto at = sandboxes_.begin(); at != sandboxes_.end();) {
    auto& sandbox = at->second;
    const bool gone = sandbox.released && sandbox.runner_gone && sandbox.init_gone;
    const bool removed = gone && (!sandbox.shell.cgroup() || sandbox.shell.cgroup()->destroy().has_value());
    at = removed ? sandboxes_.erase(at) : std::next(at);
  }
}

void KeeperLoop::retire(Shell shell) {
  shell.kill();
  sandboxes_.emplace(next_retired_++, Sandbox{.shell = std::move(shell), .runner_gone = true, .released = true});
}

void KeeperLoop::refill() {
  for (std::uint32_t i = 0; i < prepared_.size(); ++i) {
    auto& prepared = prepared_[i];
    if (!prepared.zygote || !prepared.zygote->ready()) continue;
    if (!prepared.parked && !prepared.spare.empty()) park(i);
    if (prepared.next_spare) continue;
    if (prepared.spare.size() >= options_.spare_shells || prepared.spare_failures >= kMostSpareFailures) continue;
    Step failed = Step::none;
    auto birth = begin_shell(i, Limits{}, tools_.cgroups.has_value(), Step::none, failed);
    if (birth) {
      prepared.next_spare = std::move(*birth);
    } else {
      ++prepared.spare_failures;
    }
  }
}

void KeeperLoop::birth_readable(std::uint32_t index) {
  auto& prepared = prepared_[index];
  if (!prepared.next_spare) return;  // taken meanwhile
  Step failed = Step::none;
  auto shell = prepared.next_spare->advance(failed);
  if (shell && !*shell) return;
  if (shell) {
    prepared.spare.push_back(std::move(**shell));
  } else {
    ++prepared.spare_failures;
  }
  prepared.next_spare.reset();
}

void KeeperLoop::fail(const StartRequest& request, Step step, const Error& error) {
  send_packet(engine_.get(), KeeperReplyKind::failed,
              FailedReply{.run = request.run, .step = step, .message = error.message, .hint = error.hint}, {});
}

}  // namespace hutch
