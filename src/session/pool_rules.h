// By what the pool of ready sandboxes decides. Knows neither the keeper nor the time, so that every case can be told.
#pragma once

#include <cstddef>
#include <cstdint>

#include "session/task_group.h"

namespace hutch {

struct PoolOptions {
  std::uint32_t least = 1;  // per template that was ever used
  std::uint32_t most = 8;   // per template; 0: no pool
  // So many are left to starts that did not have to wait for a place, and made also beside many programs that run: who
  // asks for little does not pay for those who ask for much.
  std::uint32_t kept_back = 0;
  std::uint32_t cores = 1;
  bool weaker_limits = false;
};

// For one template.
class PoolDemand {
 public:
  explicit PoolDemand(const PoolOptions& options) : options_(options) {}

  void note_use();                        // of the template
  void note_miss(Clock::time_point now);  // a start that found none
  void note_made() { failures_ = 0; }
  void note_failure(Clock::time_point now);
  // What was wanted once is not wanted for ever. True when there may be one too many now.
  bool forget_some(Clock::time_point now);

  [[nodiscard]] std::uint32_t wanted() const { return wanted_; }
  [[nodiscard]] bool wants_more(std::size_t ready) const;
  [[nodiscard]] bool is_short(std::size_t ready) const;  // of those that are kept back
  // A start that had to wait leaves them to those who did not.
  [[nodiscard]] bool may_claim(std::size_t ready, bool waited) const;

 private:
  PoolOptions options_;
  std::uint32_t wanted_ = 0;
  std::uint32_t failures_ = 0;  // in a row
  Clock::time_point changed_;
};

// What else goes on.
struct PoolSurroundings {
  Clock::duration since_claim{0};  // or another warm start
  Clock::duration since_end{0};    // of a program
  std::uint32_t running = 0;       // programs
  std::size_t dying = 0;           // sandboxes that are being taken apart
  std::uint32_t cores = 1;
  bool some_are_short = false;  // of those that are kept back
};
bool may_refill(const PoolSurroundings& now);

}  // namespace hutch
