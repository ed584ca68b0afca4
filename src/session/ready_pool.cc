#include "session/ready_pool.h"

#include <algorithm>
#include <utility>

#include "sandbox/limits.h"

namespace hutch {
namespace {

constexpr auto kStartTime = std::chrono::seconds(60);  // a zygote that imports a lot
constexpr auto kLook = std::chrono::milliseconds(2);   // how often to look whether it is quiet
constexpr auto kNothing = std::chrono::seconds(10);    // how often where nothing is wanted
constexpr auto kShellsAhead = 2U;                      // spare shells, for starts that find no runner

}  // namespace

struct ReadyPool::Resting final : KeeperListener {
  Resting(const net::any_io_executor& executor, ReadyPool& pool, std::uint32_t index)
      : pool_of(pool), shelf(index), link(executor), heard(executor) {}

  void on_started(const StartedReply& reply, std::vector<UniqueFd> fds) override {
    link.adopt(reply, std::move(fds));
    started = true;
    heard.set();
  }
  void on_failed(const FailedReply&) override { lose(); }
  void on_exited(const ExitedReply&) override { lose(); }
  void on_usage(const UsageNumbers& usage) override {
    link.cpu_before_us = usage.cpu_us;
    settled = true;
    heard.set();
  }
  void on_limited() override {}
  void on_keeper_lost() override { lose(); }
  void lose() {
    lost = true;
    heard.set();
    pool_of.drop(*this);
  }

  ReadyPool& pool_of;
  std::uint32_t shelf;
  SandboxLink link;
  Event heard;
  bool started = false, settled = false, lost = false;
};

ReadyPool::ReadyPool(net::any_io_executor executor, KeeperLink& keeper, std::size_t templates, PoolOptions options)
    : executor_(executor), keeper_(keeper), options_(options), alarm_(executor) {
  while (shelves_.size() < templates) shelves_.push_back({.demand = PoolDemand(options)});
}

ReadyPool::~ReadyPool() = default;

// A resting runner has the default limits in its process; those of its control group can still be written.
bool ReadyPool::fits(const StartRequest& request) const {
  return options_.most > 0 && request.warm && request.fault == Step::none &&
         request.limits.same_fixed_limits(LimitNumbers::from(Limits{}), !options_.weaker_limits) &&
         (!options_.weaker_limits || request.weaker_limits);
}

void ReadyPool::note_start(std::uint32_t template_index) {
  last_claim_ = Clock::now();
  shelves_[template_index].used = true;
}

std::optional<SandboxLink> ReadyPool::claim(const StartRequest& request) {
  if (!fits(request)) return std::nullopt;
  auto& shelf = shelves_[request.template_index];
  shelf.demand.note_use();
  wake();
  while (!shelf.ready.empty() && shelf.ready.front()->link.is_dead()) drop(*shelf.ready.front());
  if (!shelf.demand.may_claim(shelf.ready.size(), request.stand_back)) {
    ++counts_.misses;
    shelf.demand.note_miss(last_claim_);
    return std::nullopt;
  }
  ++counts_.hits;
  const auto resting = std::move(shelf.ready.front());
  shelf.ready.pop_front();
  return std::move(resting->link);
}

void ReadyPool::note_load(std::uint32_t running) {
  if (running < running_) last_end_ = Clock::now();
  running_ = running;
  wake();
}

PoolCounts ReadyPool::counts() const {
  PoolCounts counts = counts_;
  for (const auto& shelf : shelves_) counts.ready += static_cast<std::uint32_t>(shelf.ready.size());
  return counts;
}

bool ReadyPool::may_refill() const {
  const auto is_short = [](const Shelf& shelf) { return shelf.demand.is_short(shelf.ready.size()); };
  const auto now = Clock::now();
  return !keeper_.lost() && hutch::may_refill({.since_claim = now - last_claim_,
                                               .since_end = now - last_end_,
                                               .running = running_,
                                               .dying = keeper_.dying(),
                                               .cores = options_.cores,
                                               .some_are_short = std::ranges::any_of(shelves_, is_short)});
}

std::optional<std::uint32_t> ReadyPool::next_to_fill() const {
  for (std::uint32_t i = 0; i < shelves_.size(); ++i) {
    if (shelves_[i].demand.is_short(shelves_[i].ready.size())) return i;
  }
  for (std::uint32_t i = 0; i < shelves_.size(); ++i) {
    if (shelves_[i].demand.wants_more(shelves_[i].ready.size())) return i;
  }
  return std::nullopt;
}

void ReadyPool::shrink() {
  for (auto& shelf : shelves_) {
    if (shelf.demand.forget_some(Clock::now()) && shelf.ready.size() > shelf.demand.wanted()) {
      keeper_.dismiss(shelf.ready.back()->link.number);
      keeper_.release(shelf.ready.back()->link.number);
      shelf.ready.pop_back();
    }
  }
}

net::awaitable<void> ReadyPool::tend() {
  boost::system::error_code ignored;
  while (!keeper_.lost()) {
    shrink();
    const auto next = next_to_fill();
    if (next && may_refill()) {
      co_await make(*next);
      continue;
    }
    const bool shells = std::ranges::any_of(shelves_, &Shelf::used);
    if (shells && may_refill()) {
      stock_shells();
      continue;
    }
    alarm_.expires_after(next || shells ? Clock::duration(kLook) : Clock::duration(kNothing));
    co_await alarm_.async_wait(net::redirect_error(net::use_awaitable, ignored));
  }
}

// For starts that find no runner; the keeper makes them when it has nothing else to do.
void ReadyPool::stock_shells() {
  for (std::uint32_t i = 0; i < shelves_.size(); ++i) {
    if (std::exchange(shelves_[i].used, false)) keeper_.stock({.template_index = i, .shells = kShellsAhead});
  }
}

net::awaitable<void> ReadyPool::make(std::uint32_t index) {
  auto resting = std::make_unique<Resting>(executor_, *this, index);
  resting->link.number = keeper_.enlist(*resting);
  std::ignore = keeper_.start({.run = resting->link.number,
                               .template_index = index,
                               .weaker_limits = options_.weaker_limits,
                               .in_advance = true,
                               .limits = LimitNumbers::from(Limits{})});
  const bool rested = co_await rest(*resting);
  auto& shelf = shelves_[index];
  if (rested && !resting->lost) {
    shelf.demand.note_made();
    shelf.used = true;  // a shell went into it
    shelf.ready.push_back(std::move(resting));
  } else {
    shelf.demand.note_failure(Clock::now());
    keeper_.dismiss(resting->link.number);
    keeper_.release(resting->link.number);
  }
}

// Until its runner waits for a task and what it has used so far is known.
net::awaitable<bool> ReadyPool::rest(Resting& resting) {
  const auto deadline = Clock::now() + kStartTime;
  if (!co_await resting.heard.wait_until(deadline) || !resting.started) co_return false;
  bool rested = false;
  const auto handle = [&](const wire::Frame& frame) {
    const auto type = static_cast<wire::RunnerType>(frame.type);
    if (type == wire::RunnerType::ready) keeper_.note_ready(resting.link.number);
    if (type == wire::RunnerType::rested) rested = resting.link.walls_up;
    return type == wire::RunnerType::ready || rested;
  };
  while (!rested) {
    if (!co_await resting.link.readable() || !resting.link.receive(handle)) co_return false;
  }
  resting.heard.reset();
  keeper_.ask_usage({.run = resting.link.number, .forget_peak = true});
  co_return co_await resting.heard.wait_until(deadline) && resting.settled;
}

// Its runner is gone before anybody wanted it.
void ReadyPool::drop(Resting& resting) {
  auto& ready = shelves_[resting.shelf].ready;
  const auto found = std::ranges::find_if(ready, [&](const auto& one) { return one.get() == &resting; });
  if (found == ready.end()) return;
  keeper_.dismiss(resting.link.number);
  keeper_.release(resting.link.number);
  ready.erase(found);  // `resting` ends here
}

}  // namespace hutch
