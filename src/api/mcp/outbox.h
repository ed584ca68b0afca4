// Messages on their way to one client, in order. Whoever has one puts it in; the one who owns the connection takes them
// out. Small by nature, because notifications are rate-limited; a client that does not read loses them beyond a cap.
#pragma once

#include <deque>
#include <string>

#include "session/task_group.h"

namespace hutch::mcp {

class Outbox {
 public:
  explicit Outbox(const net::any_io_executor& executor) : changed_(executor) {}

  // A notification; dropped when too much waits already.
  void offer(std::string text) {
    if (bytes_ < kMostWaiting) put(std::move(text));
  }
  // An answer, or anything else that must arrive.
  void put(std::string text) {
    if (finished_) return;
    bytes_ += text.size();
    waiting_.push_back(std::move(text));
    changed_.set();
  }
  // Nothing will follow.
  void finish() {
    finished_ = true;
    changed_.set();
  }
  std::optional<std::string> take() {
    if (waiting_.empty()) return std::nullopt;
    std::string text = std::move(waiting_.front());
    waiting_.pop_front();
    bytes_ -= text.size();
    return text;
  }
  // Until there is something to take, nothing will follow, or it is time. For one reader.
  net::awaitable<void> wait_until(Clock::time_point deadline) {
    changed_.reset();
    if (!waiting_.empty() || finished_) co_return;
    co_await changed_.wait_until(deadline);
  }
  [[nodiscard]] bool finished() const { return finished_; }
  [[nodiscard]] bool full() const { return bytes_ >= kMostWaiting; }

 private:
  static constexpr std::size_t kMostWaiting = 4U << 20;

  std::deque<std::string> waiting_;
  std::size_t bytes_ = 0;
  bool finished_ = false;
  Event changed_;
};

}  // namespace hutch::mcp
