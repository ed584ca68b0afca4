// What is looked at while a program runs: what it uses, what it is refused, and whether it has to stand back.
#include <algorithm>

#include "session/run.h"

namespace hutch {
namespace {

constexpr auto kAnswerTime = std::chrono::seconds(1);  // of the keeper
constexpr auto kWeakerInterval = std::chrono::milliseconds(20);
constexpr auto kShortestInterval = std::chrono::milliseconds(10);
constexpr auto kQuickly = std::chrono::milliseconds(80);  // then it stands back behind those that begin
constexpr std::uint64_t kMostDenials = 2'000;
constexpr std::uint64_t kMany = 8;  // threads, with those of our own

}  // namespace

// Where processors are short, short programs go before long ones, and both before those of an owner who has so many
// that they waited for each other.
void Run::begin_turn(bool waited) {
  cpu_seen_us_ = link_.cpu_before_us + cell_cpu_before_us_;
  came_forward_ = false;
  // The keeper knows where a one-shot begins, unless it was made in advance, as one that is quick; a session may have
  // been made in other times.
  const bool quick = limits_now_.cpu_percent <= 100;
  place_ = waited ? Place::others : quick ? Place::spared : Place::anywhere;
  if (is_shell() || (claimed_ && place_ != Place::spared)) tell_place();
  arm_patience();
}

void Run::arm_patience() {
  patience_timer_.expires_after(kQuickly);
  const std::weak_ptr<Run> weak = weak_from_this();
  patience_timer_.async_wait([weak](const boost::system::error_code& failed) {
    const auto self = failed ? nullptr : weak.lock();
    if (!self || self->over_ || (self->is_shell() && !self->cell_runs_)) return;
    self->lose_patience();
    self->arm_patience();
  });
}

// With those that use a processor much of the time. Who had none is not to have less.
void Run::lose_patience() {
  if (!usable()) return;          // who is to die is not to wait for it
  if (place_ == Place::spared) {  // those are for who is quick
    place_ = Place::anywhere;
    tell_place();
  }
  if (!link_.cgroup || came_forward_) return;
  const auto reading = link_.cgroup.read();
  if (!reading) return;
  const std::uint64_t used = reading->cpu_us - std::min(cpu_seen_us_, reading->cpu_us);
  cpu_seen_us_ = reading->cpu_us;
  if (!pool_.crowded()) {
    link_.cgroup.stand_back(false);
  } else if (std::chrono::microseconds(used) > kQuickly / 4) {
    link_.cgroup.stand_back(true);
  }
}

// A lock of the kernel that has been waited for is kept for the one who waits. Forks and ends of processes take those
// of the files that all map, so it may be kept for one of many processes, whose turn comes last of all; so theirs comes
// now. Others who stand back would only be in the way.
void Run::on_keeper_stuck(bool stuck) {
  if (!stuck) {
    if (std::exchange(came_forward_, false) && usable()) link_.cgroup.stand_back(true);
    return;
  }
  if (!link_.cgroup.stands_back || !usable() || link_.cgroup.count_threads(keeper_.counts()).value_or(0) < kMany)
    return;
  link_.cgroup.stand_back(false);
  came_forward_ = true;
}

void Run::tell_place() {
  const auto now = std::pair(keeper_.sparing(), place_);
  if (now.first != 0 && std::exchange(told_place_, now) != now) keeper_.place({.run = link_.number, .place = place_});
}

net::awaitable<void> Run::answer_denials() {
  while (link_.listener.is_open()) {
    boost::system::error_code failed;
    co_await link_.listener.async_wait(net::posix::stream_descriptor::wait_read,
                                       net::redirect_error(net::use_awaitable, failed));
    if (failed || !denials_.answer_one(link_.listener.native_handle())) co_return;
    if (denials_.total() > kMostDenials) end(Ended::denial_flood);
  }
}

// Processor time is asked for when it could be used up at the earliest; without control groups everything is asked for
// at short intervals.
net::awaitable<void> Run::watch_usage() {
  const bool weaker = keeper_.hello().cgroup.empty();
  while (!over_ && !ended_event_.is_set()) {
    const bool idle = is_shell() && !cell_runs_ && !weaker;  // nothing to watch before the next cell
    const auto used = std::chrono::milliseconds(cell_cpu_us() / 1000);
    const auto most = limits_now_.cpu;
    const auto left = most > used ? most - used : std::chrono::milliseconds(0);
    const auto earliest = std::chrono::milliseconds(left.count() * 100 / std::max(spec_.limits.cpu_percent, 1U));
    if (idle) {
      watch_timer_.expires_at(Clock::time_point::max());
    } else {
      watch_timer_.expires_after(weaker ? kWeakerInterval : std::max(earliest, kShortestInterval));
    }
    boost::system::error_code woken;  // by the end, or by the next cell
    co_await watch_timer_.async_wait(net::redirect_error(net::use_awaitable, woken));
    if (woken) continue;
    keeper_.ask_usage({.run = link_.number});
    watch_timer_.expires_after(kShortestInterval);  // the answer comes meanwhile
    co_await watch_timer_.async_wait(net::redirect_error(net::use_awaitable, woken));
  }
}

void Run::on_usage(const UsageNumbers& usage) {
  if (exited_.is_set()) return;
  const std::uint64_t peak = std::max(usage_.peak_memory, usage.peak_memory);
  usage_ = usage;
  usage_.cpu_us -= std::min(link_.cpu_before_us, usage.cpu_us);
  usage_.peak_memory = peak;
  usage_.oom_kills -= std::min(oom_kills_before_, usage_.oom_kills);
  usage_heard_.set();
  if (cell_cpu_us() / 1000 >= static_cast<std::uint64_t>(limits_now_.cpu.count())) end(Ended::cpu_limit);
  if (usage.from_cgroup) return;  // the kernel sees to the rest
  if (usage.memory_now > spec_.limits.memory.count) end(Ended::memory_limit);
  if (usage.processes > spec_.limits.processes) end(Ended::process_limit);
}

net::awaitable<void> Run::ask_usage() {
  usage_heard_.reset();
  keeper_.ask_usage({.run = link_.number});
  co_await usage_heard_.wait_until(Clock::now() + kAnswerTime);
}

}  // namespace hutch
