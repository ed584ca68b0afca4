#include "session/pool_rules.h"

#include <algorithm>

namespace hutch {
namespace {

constexpr auto kGrace = std::chrono::milliseconds(2);   // since anybody ran: the answer is on its way to its reader
constexpr auto kUrgent = std::chrono::milliseconds(4);  // since the last claim, where those that are kept back are gone
constexpr auto kQuiet = std::chrono::milliseconds(20);  // the same, before we work beside a program
constexpr auto kForget = std::chrono::seconds(10);      // how long a want of one more lasts
constexpr std::uint32_t kMostFailures = 3;

}  // namespace

void PoolDemand::note_use() { wanted_ = std::max(wanted_, options_.least); }

void PoolDemand::note_miss(Clock::time_point now) {
  if (wanted_ < options_.most) ++wanted_;
  changed_ = now;
}

void PoolDemand::note_failure(Clock::time_point now) {
  ++failures_;
  changed_ = now;
}

bool PoolDemand::forget_some(Clock::time_point now) {
  if (now - changed_ < kForget) return false;
  failures_ = 0;  // another try
  if (wanted_ <= options_.least) return false;
  --wanted_;
  changed_ = now;
  return true;
}

bool PoolDemand::wants_more(std::size_t ready) const { return ready < wanted_ && failures_ < kMostFailures; }

bool PoolDemand::is_short(std::size_t ready) const { return ready < options_.kept_back && wants_more(ready); }

bool PoolDemand::may_claim(std::size_t ready, bool waited) const { return ready > (waited ? options_.kept_back : 0); }

// What dies holds locks that whoever is made needs, and so does whoever waits: more of both is no help to anybody.
bool may_refill(const PoolSurroundings& now) {
  if (now.since_end < kGrace || now.dying > now.cores) return false;
  if (now.some_are_short && now.since_claim > kUrgent) return true;
  return now.running == 0 || (now.running < now.cores && now.since_claim > kQuiet);
}

}  // namespace hutch
