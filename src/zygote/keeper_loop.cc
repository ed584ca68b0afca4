#include "zygote/keeper_loop.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "sandbox/kernel.h"
#include "zygote/cold_start.h"
#include "zygote/proc_usage.h"

namespace hutch {
namespace {

constexpr std::uint64_t kForksPerZygote = 1'000;  // forks of one share its address layout and hash seed
constexpr std::uint32_t kMostSpareFailures = 3;
constexpr std::uint32_t kMostSpares = 64;
constexpr std::uint32_t kMostKilledByHand = 1'000;
constexpr std::uint64_t kTimeToLeaveNs = 2'000'000'000;
constexpr std::uint64_t kLongestSleepNs = 500'000'000;   // of a sandbox that is to be taken apart
constexpr std::uint64_t kDiscouragedNs = 5'000'000'000;  // after one that slept as long as that
constexpr std::size_t kDyingAtOnce = 4;                  // of those that slept
constexpr int kHeadStartMs = 3;
constexpr std::size_t kMostToClose = 32;  // sandboxes; a dozen descriptors each
constexpr int kRetryMs = 5;               // a control group whose last member is still dying

std::uint64_t microseconds(const timeval& time) {
  return static_cast<std::uint64_t>(time.tv_sec) * 1'000'000U + static_cast<std::uint64_t>(time.tv_usec);
}

}  // namespace

KeeperLoop::KeeperLoop(const KeeperOptions& options, KeeperTools tools, UniqueFd engine)
    : options_(options), tools_(std::move(tools)), engine_(std::move(engine)), prepared_(options.templates.size()) {
  struct sigaction deaths{};
  deaths.sa_handler = SIG_DFL;
  deaths.sa_flags = SA_NOCLDSTOP;  // not of those that we put to sleep
  ::sigaction(SIGCHLD, &deaths, nullptr);
  sigset_t child;
  ::sigemptyset(&child);
  ::sigaddset(&child, SIGCHLD);
  ::sigprocmask(SIG_BLOCK, &child, nullptr);
  signals_.reset(::signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK));
}

// For the one request that is on its way: its root is built in a child while another makes the rest of a shell. What
// fails here is tried again, and told, when it comes.
void KeeperLoop::prepare() {
  auto& prepared = prepared_[0];
  if (auto root = RootBirth::begin(options_.templates[0])) prepared.root = std::move(*root);
  Step failed = Step::none;
  auto birth = begin_shell(0, Limits{}, tools_.cgroups.has_value(), Step::none, failed);
  const auto ready = prepare_template(prepared, options_.templates[0], {.warm = false});
  if (!birth) return;  // the request will meet the same trouble, and report it
  if (ready) {
    birth->give_root(prepared.mounts.get());
    prepared.next_spare = std::move(*birth);
  } else {
    std::ignore = birth->finish(failed);  // without a root it gives up
  }
}

void KeeperLoop::run() {
  if (options_.prepare && !prepared_.empty()) prepare();
  while (serve_once()) {
  }
  take_everything_apart();
}

// Later, because it takes as long as waking the runner would.
void KeeperLoop::close_entrances() {
  for (const std::uint64_t run : to_close_) {
    if (const auto found = sandboxes_.find(run); found != sandboxes_.end()) found->second.shell.close_entrances();
  }
  to_close_.clear();
}

bool KeeperLoop::serve_once() {
  while (!asleep_.empty() && asleep_.front().until_ns < kernel::monotonic_ns()) {
    slept_in_vain_ns_ = kernel::monotonic_ns();
    let_go_of_sleepers(1);
  }
  std::vector<pollfd> waiting = {{.fd = engine_.get(), .events = POLLIN, .revents = 0},
                                 {.fd = signals_.get(), .events = POLLIN, .revents = 0}};
  for (const auto& prepared : prepared_) {
    const bool starting = prepared.zygote && !prepared.zygote->ready();
    const int next = prepared.next_zygote ? prepared.next_zygote->socket() : -1;
    waiting.push_back({.fd = starting ? prepared.zygote->socket() : next, .events = POLLIN, .revents = 0});
    waiting.push_back({.fd = prepared.next_spare ? prepared.next_spare->socket() : -1, .events = POLLIN, .revents = 0});
  }
  // Whose runner has just been forked has a processor to itself for a while: nothing is made meanwhile.
  const bool just_started = kernel::monotonic_ns() - last_start_ns_ < kHeadStartMs * 1'000'000ULL;
  int ready = ::poll(waiting.data(), waiting.size(), just_started ? kHeadStartMs : 0);
  if (ready == 0 || to_close_.size() > kMostToClose) close_entrances();
  if (ready == 0) {  // nobody waits for us: time to get ready for the next
    for (std::uint32_t i = 0; i < prepared_.size(); ++i) {
      refill(i, prepared_[i].spare_wanted);
      recycle_zygote(i);
      if (prepared_[i].next_zygote) waiting[2 + 2 * i].fd = prepared_[i].next_zygote->socket();
      if (prepared_[i].next_spare) waiting[3 + 2 * i].fd = prepared_[i].next_spare->socket();
    }
    if (dying_.size() < kDyingAtOnce) let_go_of_sleepers(kDyingAtOnce);
    const bool nothing_is_going = dying_.empty() && asleep_.empty() && emptying_.empty();
    const int pause = nothing_is_going ? -1 : kRetryMs;
    ready = ::poll(waiting.data(), waiting.size(), moves_.empty() ? pause : 0);
  }
  if (ready < 0 && errno != EINTR) return false;
  if (waiting[1].revents != 0) reap();
  if (waiting[0].revents != 0 && !receive_request()) return false;
  finish_released();
  go_on_emptying();
  move_some();
  for (std::uint32_t i = 0; i < prepared_.size(); ++i) {
    if (waiting[2 + 2 * i].revents != 0) {
      // Only whoever was looked at: one that was started since would hold us up until it is ready.
      const auto speaks = [socket = waiting[2 + 2 * i].fd](const auto& one) { return one && one->socket() == socket; };
      if (speaks(prepared_[i].zygote)) {
        zygote_readable(i);
      } else if (speaks(prepared_[i].next_zygote)) {
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
    if (!std::exchange(sandbox.released, true)) dying_.push_back(run);
    sandbox.shell.kill();
  }
  const std::uint64_t deadline = kernel::monotonic_ns() + kTimeToLeaveNs;
  while (!sandboxes_.empty() && kernel::monotonic_ns() < deadline) {
    pollfd child{.fd = signals_.get(), .events = POLLIN, .revents = 0};
    ::poll(&child, 1, 1);
    reap();
    finish_released();
  }
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
      handle_usage(*request);
      return true;
    }
    case KeeperRequestKind::limit: {
      auto request = wire::decode<LimitRequest>(payload);
      if (!request) return false;
      handle_limit(*request);
      return true;
    }
    case KeeperRequestKind::settle: {
      auto request = wire::decode<SettleRequest>(payload);
      if (!request) return false;
      handle_settle(*request);
      return true;
    }
    case KeeperRequestKind::measure: {
      auto request = wire::decode<MeasureRequest>(payload);
      if (!request || request->template_index >= prepared_.size()) return false;
      auto& zygote = prepared_[request->template_index].zygote;
      std::uint64_t ns = 0;
      if (zygote && zygote->ready() && zygote->ask_for_runner({.only_measure = true}, {})) {
        if (const auto forked = zygote->receive_runner()) ns = forked->fork_ns;
      }
      if (zygote && zygote->lost()) zygote.reset();
      send_packet(engine_.get(), KeeperReplyKind::measured, MeasuredReply{.ns = ns}, {});
      return true;
    }
    case KeeperRequestKind::stock: {
      auto request = wire::decode<StockRequest>(payload);
      if (!request || request->template_index >= prepared_.size()) return false;
      prepared_[request->template_index].spare_wanted = std::min(request->shells, kMostSpares);
      return true;
    }
    case KeeperRequestKind::spare: {
      auto request = wire::decode<SpareRequest>(payload);
      if (!request) return false;
      handle_spare(*request);
      return true;
    }
    case KeeperRequestKind::place: {
      auto request = wire::decode<PlaceRequest>(payload);
      if (!request) return false;
      handle_place(*request);
      return true;
    }
    case KeeperRequestKind::release: {
      auto request = wire::decode<ReleaseRequest>(payload);
      if (!request) return false;
      handle_release(*request);
      return true;
    }
  }
  return false;
}

void KeeperLoop::handle_signal(const SignalRequest& request) {
  if (request.to_others) return kill_others(request.run);
  if (const auto guest = guests_.find(request.run); guest != guests_.end()) {
    const auto host = sandboxes_.find(guest->second.host);
    if (request.signal == SIGKILL && !guest->second.helper && host != sandboxes_.end()) {
      kill_program(host->first, host->second);
    }
    ::kill(guest->second.process, request.signal);
    return;
  }
  const auto found = sandboxes_.find(request.run);
  if (found == sandboxes_.end()) return;
  auto& sandbox = found->second;
  if (request.signal == SIGKILL && sandbox.lasting && sandbox.shell.cgroup())
    return kill_program(found->first, sandbox);
  if (request.signal == SIGKILL) {
    sandbox.shell.kill();
    if (!sandbox.shell.cgroup()) return;
    // Killing init kills all, but init waits for its turn among as many others as the program has made. Very many are
    // left to it: nobody else is served while we go through them.
    if (sandbox.processes <= kMostKilledByHand) sandbox.shell.cgroup()->kill_all();
    return;
  }
  if (!sandbox.runner_gone) ::kill(sandbox.runner, request.signal);
}

void KeeperLoop::handle_usage(const UsageRequest& request) {
  const auto guest = guests_.find(request.run);
  const auto found = sandboxes_.find(guest != guests_.end() ? guest->second.host : request.run);
  if (found == sandboxes_.end()) return;
  auto& sandbox = found->second;
  if (request.forget_peak && sandbox.shell.cgroup()) sandbox.shell.cgroup()->forget_peak();
  send_packet(engine_.get(), KeeperReplyKind::usage, UsageReply{.run = request.run, .usage = usage_of(sandbox)}, {});
}

void KeeperLoop::handle_limit(const LimitRequest& request) {
  const auto found = sandboxes_.find(request.run);
  if (found == sandboxes_.end()) return;
  auto& group = found->second.shell.cgroup();
  if (group) {
    if (auto applied = group->apply(request.limits.to_limits()); !applied) {
      return fail(StartRequest{.run = request.run}, Step::cgroup, applied.error());
    }
  }
  send_packet(engine_.get(), KeeperReplyKind::limited, LimitedReply{.run = request.run}, {});
}

void KeeperLoop::handle_release(const ReleaseRequest& request) {
  const std::uint64_t run = request.run;
  for (auto* waiting : {&waiting_, &for_guests_}) {
    std::erase_if(*waiting, [run](const StartRequest& other) { return other.run == run; });
  }
  if (const auto guest = guests_.find(run); guest != guests_.end()) ::kill(guest->second.process, SIGKILL);
  const auto found = sandboxes_.find(run);
  if (found == sandboxes_.end()) {  // it never came to be, or was a guest
    return send_packet(engine_.get(), KeeperReplyKind::gone, GoneReply{.run = run}, {});
  }
  const std::uint64_t now = kernel::monotonic_ns();
  const bool in_vain = now - slept_in_vain_ns_ < kDiscouragedNs;  // this is no burst that will be over soon
  if (!request.leisurely || in_vain || !put_to_sleep(found->second)) return let_go(run);
  asleep_.push_back({.run = run, .until_ns = now + kLongestSleepNs});
  if (asleep_.size() > kMostAsleep) let_go_of_sleepers(1);
}

// A stopped runner, in a sandbox with nobody else but our init, does nothing more and grows no more.
bool KeeperLoop::put_to_sleep(Sandbox& sandbox) {
  if (sandbox.lasting || sandbox.runner_gone || sandbox.init_gone || !sandbox.shell.cgroup()) return false;
  if (::kill(sandbox.runner, SIGSTOP) != 0) return false;
  const auto threads = sandbox.shell.cgroup()->count_threads();
  return threads && *threads == 2;
}

void KeeperLoop::let_go_of_sleepers(std::size_t how_many) {
  for (; how_many > 0 && !asleep_.empty(); --how_many) {
    const std::uint64_t run = asleep_.front().run;
    asleep_.pop_front();
    let_go(run);
  }
}

void KeeperLoop::let_go(std::uint64_t run) {
  const auto found = sandboxes_.find(run);
  if (found == sandboxes_.end()) return;
  found->second.shell.kill();
  if (!std::exchange(found->second.released, true)) dying_.push_back(run);
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

KeeperLoop::Sandbox& KeeperLoop::keep(std::uint64_t run, Sandbox sandbox) {
  by_process_[sandbox.shell.init_pid()] = run;
  if (sandbox.runner > 0) by_process_[sandbox.runner] = run;
  return sandboxes_.emplace(run, std::move(sandbox)).first->second;
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
    const auto known = by_process_.find(pid);
    if (known == by_process_.end()) {  // perhaps an empty shell's init: nobody can use that shell any more
      for (auto& prepared : prepared_) {
        std::erase_if(prepared.spare, [pid](const Shell& shell) { return shell.init_pid() == pid; });
      }
      continue;
    }
    const std::uint64_t run = known->second;
    by_process_.erase(known);
    if (guests_.contains(run)) {
      guest_ended(run, status);
      continue;
    }
    process_ended(pid, run, sandboxes_.at(run), status, used);
  }
}

// The runner's end is the sandbox's end: whatever it left running is killed, and only when nothing lives is the engine
// told, so nobody changes files that are being looked at.
void KeeperLoop::process_ended(pid_t pid, std::uint64_t run, Sandbox& sandbox, int wait_status, const rusage& used) {
  auto& words = sandbox.last_words;
  if (pid == sandbox.runner) {
    sandbox.runner_gone = true;
    words = {.run = run, .wait_status = wait_status};
    if (!sandbox.released) words.usage = usage_of(sandbox);  // else nobody asks
    if (!words.usage.from_cgroup) {
      words.usage.cpu_us = std::max(words.usage.cpu_us, microseconds(used.ru_utime) + microseconds(used.ru_stime));
      words.usage.peak_memory = std::max(words.usage.peak_memory, static_cast<std::uint64_t>(used.ru_maxrss) << 10);
    }
    if (sandbox.lasting && sandbox.shell.cgroup() && !sandbox.init_gone && !sandbox.released) {
      kill_program(run, sandbox);
      return send_packet(engine_.get(), KeeperReplyKind::exited, words, {});
    }
    if (!sandbox.init_gone) sandbox.shell.kill();
  } else {
    sandbox.init_gone = true;
    if (sandbox.lasting && sandbox.shell.cgroup() && sandbox.runner_gone) return;  // its end was told before
  }
  if (!sandbox.runner_gone || !sandbox.init_gone || sandbox.released) return;
  if (sandbox.shell.cgroup()) words.usage = usage_of(sandbox);
  send_packet(engine_.get(), KeeperReplyKind::exited, words, {});
}

UsageNumbers KeeperLoop::usage_of(Sandbox& sandbox) {
  if (!sandbox.shell.cgroup()) return usage_from_proc(sandbox.shell.proc(), sandbox.image);
  const auto usage = sandbox.shell.cgroup()->usage();
  if (!usage) return {};
  return {.cpu_us = usage->cpu_us,
          .peak_memory = usage->peak_memory,
          .memory_now = usage->memory_now,
          .oom_kills = usage->oom_kills,
          .process_limit_hits = usage->process_limit_hits,
          .from_cgroup = true};
}

void KeeperLoop::finish_released() {
  std::erase_if(dying_, [this](std::uint64_t run) {
    const auto found = sandboxes_.find(run);
    auto& sandbox = found->second;
    if (!sandbox.runner_gone || !sandbox.init_gone) return false;
    if (sandbox.shell.cgroup() && !sandbox.shell.cgroup()->destroy(1)) return false;  // a member is still dying
    sandboxes_.erase(found);
    if (run < kFirstOwnNumber) send_packet(engine_.get(), KeeperReplyKind::gone, GoneReply{.run = run}, {});
    return true;
  });
}

void KeeperLoop::retire(Shell shell) {
  shell.kill();
  const std::uint64_t run = next_own_number_++;
  keep(run, Sandbox{.shell = std::move(shell), .runner_gone = true, .released = true});
  dying_.push_back(run);
}

void KeeperLoop::refill(std::uint32_t index, std::size_t wanted) {
  auto& prepared = prepared_[index];
  if (prepared.next_spare || prepared.spare.size() >= wanted) return;
  if (!prepared.mounts || prepared.spare_failures >= kMostSpareFailures) return;
  Step failed = Step::none;
  auto birth = begin_shell(index, Limits{}, tools_.cgroups.has_value(), Step::none, failed);
  if (birth) {
    prepared.next_spare = std::move(*birth);
  } else {
    ++prepared.spare_failures;
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
