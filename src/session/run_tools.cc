// Calls of the code to tools of its client: taken, answered, and paid for with time that is not the program's.
#include <utility>

#include "session/run.h"
#include "wire/frame.h"

namespace hutch {
namespace {

constexpr HostCallCaps kCaps;

std::chrono::milliseconds in_ms(Clock::duration span) { return std::chrono::ceil<std::chrono::milliseconds>(span); }

}  // namespace

bool Run::take_tool_call(const wire::Frame& frame) {
  auto message = wire::decode<wire::ToolCall>(frame.payload);
  if (!message || !link_.walls_up || over_ || !calls_.is_plausible(*message)) return false;
  const std::uint32_t number = message->number;
  // Of a thread between cells, or of one that was told to stop: nobody is there to answer.
  const bool heard = code_runs() && !cell_timed_out_ && ended_ == Ended::by_itself;
  auto taken = heard ? calls_.take(std::move(*message), Clock::now())
                     : std::unexpected(HostCallFailure{.code = "tool_denied", .message = "no run is under way"});
  if (!taken) {
    if (!may_answer()) return false;
    send(wire::make_frame(wire::TaskType::tool_result, wire::ToolResult{.number = number,
                                                                        .text = std::move(taken.error().message),
                                                                        .code = std::move(taken.error().code)}));
    return true;
  }
  drain_streams();  // what was printed before the call is told before it
  sink_.on_tool_call(std::move(*taken));
  tool_calls_changed();
  return true;
}

Result<void> Run::answer_tool_call(const std::string& call_id, bool ok, std::string text) {
  if (text.size() > kCaps.result.count) {
    return make_error(ErrorCode::invalid_argument,
                      "a result must have at most " + std::to_string(kCaps.result.count) + " bytes");
  }
  if (outgoing_.size() + text.size() > kCaps.unread.count) {
    return make_error(ErrorCode::limit, "the program does not read its results, and no more fit")
        .with_hint("send this one again later");
  }
  const auto how = ok ? ToolCallEnd::ok : ToolCallEnd::error;
  const auto result = calls_.answer(call_id, how, std::move(text));
  if (!result) return make_error(ErrorCode::not_found, "no call of this id is pending");
  send(wire::make_frame(wire::TaskType::tool_result, *result));
  sink_.on_tool_call_done(call_id, how);
  tool_calls_changed();
  return {};
}

void Run::end_tool_calls(std::vector<HostCalls::Ended> ended, ToolCallEnd how, Tell whom) {
  if (ended.empty()) return;
  for (const auto& [call_id, result] : ended) {
    if (whom == Tell::both) send(wire::make_frame(wire::TaskType::tool_result, result));
    sink_.on_tool_call_done(call_id, how);
  }
  tool_calls_changed();
}

void Run::tool_calls_changed() {
  mind_wall_clock();
  const auto next = calls_.next_deadline();
  if (!next || over_) {
    call_timer_.cancel();
    return;
  }
  call_timer_.expires_at(*next);
  call_timer_.async_wait([weak = weak_from_this()](const boost::system::error_code& failed) {
    const auto self = failed ? nullptr : weak.lock();
    if (self) self->end_tool_calls(self->calls_.expire(Clock::now()), ToolCallEnd::timeout, Tell::both);
  });
}

// The wall clock stands still while a client is waited for, but not for ever: then it goes on, calls or not.
void Run::mind_wall_clock() {
  const bool waits = calls_.any_pending();
  if (over_ || cell_timed_out_ || waits == paused_at_.has_value()) return;
  const auto now = Clock::now();
  const Clock::duration left = std::max(wall_timer_.expiry() - now, Clock::duration(0));
  if (waits) {
    paused_at_ = now;
    wall_left_ = left;
    const Clock::duration most = kCaps.longest_pause;
    arm_wall_limit(in_ms(left + std::max(most - paused_, Clock::duration(0))));
  } else {
    paused_ += now - *paused_at_;
    paused_at_.reset();
    arm_wall_limit(in_ms(std::min(left, wall_left_)));
  }
}

std::optional<HostCallFailure> Run::failed_call() const {
  const auto* found = python_ ? calls_.find_failure(*python_) : nullptr;
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

}  // namespace hutch
