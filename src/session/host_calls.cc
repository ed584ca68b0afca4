#include "session/host_calls.h"

#include <algorithm>
#include <utility>

namespace hutch {
namespace {

constexpr HostCallCaps kCaps;
constexpr std::size_t kMostFailures = 64;
constexpr std::size_t kMostWords = 4'096;  // of a message, that the runner tells about an exception
constexpr std::size_t kSureWords = 4'000;  // a cut text is at least this long: it ends between characters
constexpr auto kRateWindow = std::chrono::seconds(1);

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }

std::string_view code_of(ToolCallEnd how) {
  switch (how) {
    case ToolCallEnd::ok:
      return "";
    case ToolCallEnd::error:
      return "tool_error";
    case ToolCallEnd::timeout:
      return "tool_timeout";
    case ToolCallEnd::cancelled:
      return "cancelled";
  }
  return "tool_error";
}

}  // namespace

bool is_tool_name(std::string_view name) {
  return !name.empty() && name.size() <= kCaps.name && is_letter(name.front()) &&
         std::ranges::all_of(name, [](char c) { return is_letter(c) || (c >= '0' && c <= '9'); });
}

bool HostCalls::is_plausible(const wire::ToolCall& call) const {
  return call.number != 0 && is_tool_name(call.name) &&
         std::ranges::find(pending_, call.number, &Pending::number) == pending_.end();
}

std::expected<std::shared_ptr<const PendingToolCall>, HostCallFailure> HostCalls::take(wire::ToolCall call,
                                                                                       Clock::time_point now) {
  if (std::ranges::find(offer_.names, call.name) == offer_.names.end()) {
    return std::unexpected(refuse("tool_denied", "no tool " + call.name + " was offered for this run"));
  }
  if (calls_ >= kCaps.calls) {
    return std::unexpected(refuse("tool_denied", "too many calls: a run may make " + std::to_string(kCaps.calls)));
  }
  while (!lately_.empty() && lately_.front() + kRateWindow <= now) lately_.pop_front();
  if (lately_.size() >= kCaps.per_second) {
    return std::unexpected(
        refuse("tool_denied", "too many calls: more than " + std::to_string(kCaps.per_second) + " in a second"));
  }
  lately_.push_back(now);  // refused or not: looking at it is work, too
  ++calls_;
  if (pending_.size() >= kCaps.pending || pending_bytes_ + call.input.size() > kCaps.pending_input.count) {
    return std::unexpected(refuse("tool_denied", "too many calls: " + std::to_string(pending_.size()) +
                                                     " are waiting for their results already"));
  }
  if (call.input.size() > kCaps.input.count) {
    return std::unexpected(
        refuse("tool_denied", "the input of a tool must have at most " + std::to_string(kCaps.input.count) + " bytes"));
  }
  if (offer_.is_input != nullptr && !offer_.is_input(call.input)) {
    return std::unexpected(refuse("tool_denied", "the input of a tool must be a JSON object"));
  }
  auto made = std::make_shared<const PendingToolCall>(PendingToolCall{.call_id = "call_" + std::to_string(calls_),
                                                                      .name = std::move(call.name),
                                                                      .input = std::move(call.input),
                                                                      .deadline = now + offer_.timeout});
  pending_bytes_ += made->input.size();
  pending_.push_back({.call = made, .number = call.number});
  return made;
}

std::optional<wire::ToolResult> HostCalls::answer(std::string_view call_id, ToolCallEnd how, std::string text) {
  const auto found =
      std::ranges::find(pending_, call_id, [](const Pending& one) { return std::string_view(one.call->call_id); });
  if (found == pending_.end()) return std::nullopt;
  auto result = end(*found, how, std::move(text));
  pending_.erase(found);
  return result;
}

wire::ToolResult HostCalls::end(const Pending& one, ToolCallEnd how, std::string text) {
  pending_bytes_ -= one.call->input.size();
  const std::string_view code = code_of(how);
  if (how == ToolCallEnd::error || how == ToolCallEnd::timeout) remember(code, text);
  return {.number = one.number, .ok = how == ToolCallEnd::ok, .text = std::move(text), .code = std::string(code)};
}

std::vector<HostCalls::Ended> HostCalls::drop(std::uint32_t number) {
  const auto found = std::ranges::find(pending_, number, &Pending::number);
  if (found == pending_.end()) return {};
  std::vector<Ended> ended{{.call_id = found->call->call_id, .result = end(*found, ToolCallEnd::cancelled, {})}};
  pending_.erase(found);
  return ended;
}

std::vector<HostCalls::Ended> HostCalls::expire(Clock::time_point now) {
  std::vector<Ended> ended;
  for (const auto& one : pending_) {
    if (one.call->deadline > now) continue;
    ended.push_back({.call_id = one.call->call_id,
                     .result = end(one, ToolCallEnd::timeout,
                                   "the tool " + one.call->name + " was not answered within " +
                                       std::to_string(offer_.timeout.count()) + " s")});
  }
  std::erase_if(pending_, [&](const Pending& one) { return one.call->deadline <= now; });
  return ended;
}

std::vector<HostCalls::Ended> HostCalls::cancel_all() {
  std::vector<Ended> ended;
  for (const auto& one : pending_) {
    ended.push_back(
        {.call_id = one.call->call_id, .result = end(one, ToolCallEnd::cancelled, "the call was cancelled")});
  }
  pending_.clear();
  return ended;
}

std::optional<Clock::time_point> HostCalls::next_deadline() const {
  if (pending_.empty()) return std::nullopt;
  return std::ranges::min(pending_, {}, [](const Pending& one) { return one.call->deadline; }).call->deadline;
}

HostCallFailure HostCalls::refuse(std::string_view code, std::string message) {
  remember(code, message);
  return {.code = std::string(code), .message = std::move(message)};
}

void HostCalls::remember(std::string_view code, std::string_view message) {
  if (failures_.size() >= kMostFailures) failures_.pop_front();
  failures_.push_back({.code = std::string(code), .message = std::string(message.substr(0, kMostWords))});
}

const HostCallFailure* HostCalls::find_failure(const wire::PythonError& error) const {
  const bool late = error.name == "TimeoutError";
  if (!late && error.name != "ToolError") return nullptr;
  const auto found = std::ranges::find_if(failures_, [&](const HostCallFailure& one) {
    const bool same =
        one.message == error.value || (error.value.size() >= kSureWords && one.message.starts_with(error.value));
    return same && late == (one.code == "tool_timeout");
  });
  return found == failures_.end() ? nullptr : &*found;
}

}  // namespace hutch
