// Calls that the code of one run makes to tools of its client. The engine passes on only what was offered for that run
// and only so much of it; everything else is answered here. Nothing is believed that the sandbox says about a call: ids
// are ours, and how a call ended is what we answered.
#pragma once

#include <chrono>
#include <deque>
#include <expected>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "session/task_group.h"
#include "wire/runner_messages.h"

namespace hutch {

struct HostCallCaps {
  std::size_t tools = 64;
  std::size_t name = 64;
  Bytes definitions = 256_KiB;
  std::size_t pending = 64;
  Bytes pending_input = 8_MiB;  // of all that are pending: each is also kept for whoever asks
  std::uint64_t calls = 1'000;  // of one run
  std::size_t per_second = 100;
  Bytes input = 1_MiB;
  Bytes result = 4_MiB;
  Bytes unread = 16_MiB;  // results that the sandbox has not taken yet
  std::chrono::seconds shortest_timeout{1};
  std::chrono::seconds timeout{240};
  std::chrono::seconds longest_timeout{600};
  std::chrono::seconds longest_pause{3'600};  // of a run's wall clock, while calls are pending
};

// What a client offers to one run.
struct ToolOffer {
  std::string definitions;         // JSON for the runner; empty: nothing is offered
  std::vector<std::string> names;  // those in it
  std::chrono::seconds timeout = HostCallCaps{}.timeout;
  bool (*is_input)(std::string_view) = nullptr;  // whether a text is a JSON object; none: not looked at
};

struct PendingToolCall {
  std::string call_id;  // unique in its run
  std::string name;
  std::string input;  // a JSON object
  Clock::time_point deadline;
};

enum class ToolCallEnd : std::uint8_t { ok, error, timeout, cancelled };

// Why the code got an exception instead of a result.
struct HostCallFailure {
  std::string code;  // tool_timeout, tool_error, tool_denied
  std::string message;
};

// Letters, digits and underscores, and no digit first.
bool is_tool_name(std::string_view name);

class HostCalls {
 public:
  HostCalls() = default;
  explicit HostCalls(ToolOffer offer) : offer_(std::move(offer)) {}

  // False for one that our own runner would never send.
  [[nodiscard]] bool is_plausible(const wire::ToolCall& call) const;
  // The new pending call, or what to answer at once.
  std::expected<std::shared_ptr<const PendingToolCall>, HostCallFailure> take(wire::ToolCall call,
                                                                              Clock::time_point now);
  // The answer for the runner. Nothing when that call is not pending (any more).
  std::optional<wire::ToolResult> answer(std::string_view call_id, ToolCallEnd how, std::string text);

  struct Ended {
    std::string call_id;
    wire::ToolResult result;
  };
  std::vector<Ended> drop(std::uint32_t number);  // the runner's; none when it is not pending
  std::vector<Ended> expire(Clock::time_point now);
  std::vector<Ended> cancel_all();

  [[nodiscard]] bool any_pending() const { return !pending_.empty(); }
  [[nodiscard]] std::optional<Clock::time_point> next_deadline() const;
  // The failure that an exception of this class and with these words comes from, if one was answered.
  [[nodiscard]] const HostCallFailure* find_failure(const wire::PythonError& error) const;

 private:
  struct Pending {
    std::shared_ptr<const PendingToolCall> call;
    std::uint32_t number = 0;
  };

  HostCallFailure refuse(std::string_view code, std::string message);
  void remember(std::string_view code, std::string_view message);
  wire::ToolResult end(const Pending& one, ToolCallEnd how, std::string text);

  ToolOffer offer_;
  std::vector<Pending> pending_;
  std::size_t pending_bytes_ = 0;
  std::uint64_t calls_ = 0;
  std::deque<Clock::time_point> lately_;  // when the last of them came
  std::deque<HostCallFailure> failures_;  // the last of them
};

}  // namespace hutch
