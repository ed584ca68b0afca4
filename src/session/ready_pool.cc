#include "session/ready_pool.h"

#include <algorithm>
#include <utility>

#include "sandbox/limits.h"

namespace hutch {
namespace {

constexpr auto kStartTime = std::chrono::seconds(60);   // a zygote that imports a lot
constexpr auto kGrace = std::chrono::milliseconds(2);   // since anybody ran: the answer is on its way to its reader
constexpr auto kUrgent = std::chrono::milliseconds(4);  // the same where even those that are kept back are gone
constexpr auto kQuiet = std::chrono::milliseconds(20);  // since the last claim, before we work beside a program
constexpr auto kLook = std::chrono::milliseconds(2);    // how often to look whether it is quiet
constexpr auto kForget = std::chrono::seconds(10);      // how long a want of one more lasts
constexpr auto kShellsAhead = 2U;                       // spare shells, for starts that find no runner
constexpr std::uint32_t kMostFailures = 3;

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
    : executor_(executor), keeper_(keeper), options_(options), shelves_(templates), alarm_(executor) {}

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
  shelf.wanted = std::max(shelf.wanted, options_.least);
  wake();
  while (!shelf.ready.empty() && shelf.ready.front()->link.is_dead()) drop(*shelf.ready.front());
  if (shelf.ready.size() <= (request.stand_back ? options_.kept_back : 0)) {
    ++counts_.misses;
    if (shelf.wanted < options_.most) ++shelf.wanted;
    shelf.changed = last_claim_;
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

bool ReadyPool::is_short(const Shelf& shelf) const {
  return shelf.ready.size() < std::min(options_.kept_back, shelf.wanted) && shelf.failures < kMostFailures;
}

bool ReadyPool::may_refill() const {
  const auto now = Clock::now();
  if (keeper_.lost() || now - last_end_ < kGrace) return false;
  if (now - last_claim_ > kUrgent &&
      std::ranges::any_of(shelves_, [this](const Shelf& shelf) { return is_short(shelf); }))
    return true;
  if (keeper_.dying() > options_.cores) return false;
  return running_ == 0 || (running_ < options_.cores && now - last_claim_ > kQuiet);
}

std::optional<std::uint32_t> ReadyPool::next_to_fill() const {
  for (std::uint32_t i = 0; i < shelves_.size(); ++i) {
    if (is_short(shelves_[i])) return i;
  }
  for (std::uint32_t i = 0; i < shelves_.size(); ++i) {
    const auto& shelf = shelves_[i];
    if (shelf.ready.size() < shelf.wanted && shelf.failures < kMostFailures) return i;
  }
  return std::nullopt;
}

// What was wanted once is not wanted for ever.
void ReadyPool::shrink() {
  for (auto& shelf : shelves_) {
    if (Clock::now() - shelf.changed < kForget) continue;
    shelf.failures = 0;  // another try
    if (shelf.wanted <= options_.least) continue;
    --shelf.wanted;
    shelf.changed = Clock::now();
    if (shelf.ready.size() > shelf.wanted) {
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
    alarm_.expires_after(next || shells ? Clock::duration(kLook) : Clock::duration(kForget));
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
    shelf.failures = 0;
    shelf.used = true;  // a shell went into it
    shelf.ready.push_back(std::move(resting));
  } else {
    ++shelf.failures;
    shelf.changed = Clock::now();
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
