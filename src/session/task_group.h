// Coroutines that belong together: spawned only here, and waited for before what they use goes away.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <chrono>
#include <exception>

namespace hutch {

namespace net = boost::asio;
using Clock = std::chrono::steady_clock;

// Something to wait for: set once, or waited for until a deadline.
class Event {
 public:
  explicit Event(const net::any_io_executor& executor) : timer_(executor, Clock::time_point::max()) {}
  void set() {
    set_ = true;
    timer_.cancel();
  }
  void reset() { set_ = false; }
  [[nodiscard]] bool is_set() const { return set_; }
  net::awaitable<void> wait() {
    boost::system::error_code ignored;
    while (!set_) {
      if (timer_.expiry() <= Clock::now()) timer_.expires_at(Clock::time_point::max());  // of a deadline before
      co_await timer_.async_wait(net::redirect_error(net::use_awaitable, ignored));
    }
  }
  // False when the deadline came first. One waiter at a time.
  net::awaitable<bool> wait_until(Clock::time_point deadline) {
    boost::system::error_code ignored;
    timer_.expires_at(deadline);
    while (!set_ && Clock::now() < deadline) {
      co_await timer_.async_wait(net::redirect_error(net::use_awaitable, ignored));
    }
    co_return set_;
  }

 private:
  net::steady_timer timer_;
  bool set_ = false;
};

class TaskGroup {
 public:
  explicit TaskGroup(net::any_io_executor executor) : executor_(std::move(executor)), idle_(executor_) {
    idle_.expires_at(Clock::time_point::max());
  }
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  void spawn(net::awaitable<void> task) {
    ++running_;
    net::co_spawn(executor_, std::move(task), [this](const std::exception_ptr&) {
      if (--running_ == 0) idle_.cancel();
    });
  }
  // Waits until every task has ended; whoever calls has told them to.
  net::awaitable<void> join() {
    boost::system::error_code ignored;
    while (running_ > 0) co_await idle_.async_wait(net::redirect_error(net::use_awaitable, ignored));
  }

 private:
  net::any_io_executor executor_;
  net::steady_timer idle_;
  int running_ = 0;
};

}  // namespace hutch
