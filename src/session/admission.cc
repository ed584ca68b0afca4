#include "session/admission.h"

#include <algorithm>
#include <cmath>

namespace hutch {
namespace {

constexpr double kNothing = 0.02;  // of a place
constexpr double kWeight = 0.1;    // of the newest run in the mean
constexpr std::chrono::milliseconds kShortestRetry{100};
constexpr std::chrono::milliseconds kLongestRetry{30'000};

}  // namespace

double Admission::Use::of_late(const Admission& of) const {
  const std::chrono::duration<double> lately = of.options_.lately;
  const std::chrono::duration<double> passed = Clock::now() - since_;
  return running_ + (mean_ - running_) * std::exp(-(passed / lately));
}

void Admission::Use::change(std::int32_t by, const Admission& of) {
  mean_ = of_late(of);
  since_ = Clock::now();
  running_ += static_cast<std::uint32_t>(by);
}

// Whoever has nothing running need not wait for those who fill every place with one program after the other. That one
// of theirs has just ended does not make these the former.
bool Admission::may_use_reserve(Owner owner) const {
  const auto found = uses_.find(owner);
  if (found == uses_.end()) return true;
  if (found->second.running() > 0) return false;
  const double use = found->second.of_late(*this);
  const double usual = all_.of_late(*this) / static_cast<double>(uses_.size());
  return use < std::max(usual / 2, kNothing);
}

bool Admission::has_room(Owner owner) const {
  const std::size_t excess = dying_ > options_.backlog ? dying_ - options_.backlog : 0;
  const std::uint32_t reserve = options_.reserve > 0 && may_use_reserve(owner) ? options_.reserve : 0;
  return running() + excess < options_.most_running + reserve;
}

void Admission::take_place(Owner owner) {
  if (!uses_.contains(owner)) {
    std::erase_if(uses_, [this](const auto& entry) {
      const Use& use = entry.second;
      return use.running() == 0 && use.of_late(*this) < kNothing;
    });
  }
  Use& use = uses_[owner];
  use.change(1, *this);
  all_.change(1, *this);
}

bool Admission::may_enter(Owner owner) const {
  const bool alone =
      options_.reserve > 0 && may_use_reserve(owner) && std::ranges::find(lines_, owner, &Line::owner) == lines_.end();
  return (waiting_ == 0 || alone) && has_room(owner);
}

bool Admission::try_enter(Owner owner) {
  if (!may_enter(owner)) return false;
  if (waiting_ > 0) passed_ = Clock::now();
  take_place(owner);
  return true;
}

net::awaitable<bool> Admission::enter(Owner owner, Turn& turn) {
  if (try_enter(owner)) co_return true;
  if (waiting_ >= options_.most_waiting) co_return false;
  co_return co_await enter_again(owner, turn);
}

net::awaitable<bool> Admission::enter_again(Owner owner, Turn& turn) {
  if (try_enter(owner)) co_return true;
  const auto line = std::ranges::find(lines_, owner, &Line::owner);
  if (line == lines_.end()) {
    lines_.push_back(Line{.owner = owner, .turns = {&turn}});
  } else {
    line->turns.push_back(&turn);
  }
  ++waiting_;
  try {
    co_await turn.over_.wait();
  } catch (...) {  // out of memory: whoever waited is about to go
    give_up(turn);
    throw;
  }
  co_return turn.has_place_;
}

void Admission::give_up(Turn& turn) {
  for (auto line = lines_.begin(); line != lines_.end(); ++line) {
    if (std::erase(line->turns, &turn) == 0) continue;
    --waiting_;
    if (line->turns.empty()) lines_.erase(line);
    return turn.over_.set();
  }
}

void Admission::leave(Owner owner, Clock::duration took) {
  all_.change(-1, *this);
  if (const auto found = uses_.find(owner); found != uses_.end() && found->second.running() > 0) {
    found->second.change(-1, *this);
  }
  const double ms = std::chrono::duration<double, std::milli>(took).count();
  mean_ms_ += kWeight * (ms - mean_ms_);
  admit_next();
}

void Admission::note_dying(std::size_t count) {
  dying_ = count;
  admit_next();
}

void Admission::admit_next() {
  for (auto line = lines_.begin(); line != lines_.end();) {
    if (!has_room(line->owner)) {
      ++line;  // another may have a right to the reserve
      continue;
    }
    take_place(line->owner);
    line->turns.front()->has_place_ = true;
    line->turns.front()->over_.set();
    line->turns.pop_front();
    --waiting_;
    if (line->turns.empty()) {
      lines_.erase(line);
    } else {
      lines_.splice(lines_.end(), lines_, line);
    }
    line = lines_.begin();
  }
}

std::chrono::milliseconds Admission::retry_after() const {
  const double ms = mean_ms_ * (waiting_ + 1) / std::max(options_.most_running, 1U);
  return std::clamp(std::chrono::milliseconds(static_cast<std::int64_t>(ms)), kShortestRetry, kLongestRetry);
}

}  // namespace hutch
