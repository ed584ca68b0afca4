// The wish that an agent stops, shared by everything that waits on its behalf. Only for the thread of the event loop.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <utility>
#include <vector>

#include "session/task_group.h"

namespace hutch::agent {

class Cancellation {
 public:
  Cancellation() = default;
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  void cancel() {
    if (std::exchange(cancelled_, true)) return;
    const auto watches = watches_;  // an action may end its own watch
    for (const Watch* watch : watches) {
      if (std::ranges::find(watches_, watch) != watches_.end()) watch->action_();
    }
  }
  [[nodiscard]] bool is_cancelled() const { return cancelled_; }

  // While it lives, `action` is called when somebody cancels. The Cancellation outlives it.
  class Watch {
   public:
    Watch(Cancellation& cancellation, std::function<void()> action)
        : cancellation_(cancellation), action_(std::move(action)) {
      cancellation_.watches_.push_back(this);
    }
    ~Watch() { std::erase(cancellation_.watches_, this); }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    friend Cancellation;
    Cancellation& cancellation_;
    std::function<void()> action_;
  };

 private:
  std::vector<Watch*> watches_;
  bool cancelled_ = false;
};

// Waits for that long, or until somebody cancels.
inline net::awaitable<void> rest(std::chrono::milliseconds length, Cancellation& cancellation) {
  Event woken(co_await net::this_coro::executor);
  const Cancellation::Watch watch(cancellation, [&woken] { woken.set(); });
  if (!cancellation.is_cancelled()) co_await woken.wait_until(Clock::now() + length);
}

}  // namespace hutch::agent
