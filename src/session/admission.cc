#include "session/admission.h"

#include <algorithm>

namespace hutch {
namespace {

constexpr double kWeight = 0.1;  // of the newest run in the mean
constexpr std::chrono::milliseconds kShortestRetry{100};
constexpr std::chrono::milliseconds kLongestRetry{30'000};

}  // namespace

bool Admission::has_room() const {
  const std::size_t excess = dying_ > options_.backlog ? dying_ - options_.backlog : 0;
  return running_ + excess < options_.most_running;
}

bool Admission::try_enter() {
  if (waiting_ > 0 || !has_room()) return false;
  ++running_;
  return true;
}

net::awaitable<bool> Admission::enter(Owner owner) {
  if (try_enter()) co_return true;
  if (waiting_ >= options_.most_waiting) co_return false;
  co_await enter_again(owner);
  co_return true;
}

net::awaitable<void> Admission::enter_again(Owner owner) {
  if (try_enter()) co_return;
  Event turn(executor_);
  auto line = std::ranges::find(lines_, owner, &Line::owner);
  if (line == lines_.end()) line = lines_.insert(lines_.end(), Line{.owner = owner, .turns = {}});
  line->turns.push_back(&turn);
  ++waiting_;
  co_await turn.wait();
}

void Admission::leave(Clock::duration took) {
  --running_;
  const double ms = std::chrono::duration<double, std::milli>(took).count();
  mean_ms_ += kWeight * (ms - mean_ms_);
  admit_next();
}

void Admission::note_dying(std::size_t count) {
  dying_ = count;
  admit_next();
}

void Admission::admit_next() {
  while (!lines_.empty() && has_room()) {
    Line& line = lines_.front();
    line.turns.front()->set();
    line.turns.pop_front();
    --waiting_;
    ++running_;
    if (line.turns.empty()) {
      lines_.pop_front();
    } else {
      lines_.splice(lines_.end(), lines_, lines_.begin());
    }
  }
}

std::chrono::milliseconds Admission::retry_after() const {
  const double ms = mean_ms_ * (waiting_ + 1) / std::max(options_.most_running, 1U);
  return std::clamp(std::chrono::milliseconds(static_cast<std::int64_t>(ms)), kShortestRetry, kLongestRetry);
}

}  // namespace hutch
