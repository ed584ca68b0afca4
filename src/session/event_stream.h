// Events in order, numbered from 1 or from where another daemon left off, for any number of readers. Every reader keeps
// its own place, so a slow one costs nothing and blocks nobody; what it missed when the oldest events were dropped is
// in the runs' own records.
#pragma once

#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <optional>
#include <string>

#include "session/host_calls.h"
#include "session/task_group.h"
#include "wire/record.h"

namespace hutch {

class LiveRun;

enum class EventType : std::uint8_t {
  queued,
  started,
  output,
  display,
  truncated,
  file,
  finished,
  session,
  input_wanted,
  tool_call,
  tool_call_done
};

struct StreamEvent {
  EventType type = EventType::queued;
  std::string run;  // empty: of the session itself
  std::uint64_t number = 0;
  Clock::time_point at = Clock::now();
  wire::Stream stream = wire::Stream::out;  // output, truncated
  std::string text;              // output, always whole characters; session: the reason; tool_call_done: the call's id
  std::uint64_t kept_bytes = 0;  // truncated
  std::shared_ptr<const wire::Display> display;
  std::optional<wire::FileEntry> file;
  std::weak_ptr<LiveRun> result;                // finished; gone when its record is on disk and nobody reads it
  std::string state;                            // session: ready, restarted, expiring, ended
  std::shared_ptr<const PendingToolCall> call;  // tool_call
  ToolCallEnd call_end = ToolCallEnd::ok;
  mutable std::weak_ptr<const std::string> told;  // as text, while somebody is being told of it: one for all of them
};

class EventStream {
 public:
  EventStream(net::any_io_executor executor, std::size_t most_bytes) : executor_(executor), most_bytes_(most_bytes) {}
  EventStream(const EventStream&) = delete;
  EventStream& operator=(const EventStream&) = delete;

  // Before anything else: the numbers up to this one were others' (a daemon's before us), and are never used again.
  void begin_after(std::uint64_t number) { next_ = number + 1; }
  void append(StreamEvent event);
  void close();                // nothing will follow
  void wake() { wake_all(); }  // readers look again, at whatever they look at

  [[nodiscard]] bool closed() const { return closed_; }
  [[nodiscard]] std::uint64_t first() const { return next_ - events_.size(); }  // the oldest that is still here
  [[nodiscard]] std::uint64_t last() const { return next_ - 1; }
  [[nodiscard]] const StreamEvent& at(std::uint64_t number) const {
    return events_[static_cast<std::size_t>(number - first())];
  }
  [[nodiscard]] Clock::time_point began() const { return began_; }

  // Until there is something after `number`, the stream is closed, or it is time.
  net::awaitable<void> wait_beyond(std::uint64_t number, Clock::time_point deadline);

 private:
  void wake_all();

  net::any_io_executor executor_;
  std::size_t most_bytes_;
  std::size_t bytes_ = 0;
  std::deque<StreamEvent> events_;
  std::uint64_t next_ = 1;
  std::list<net::steady_timer*> waiting_;
  Clock::time_point began_ = Clock::now();
  bool closed_ = false;
};

}  // namespace hutch
