#include "session/live_run.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/utf8.h"

namespace hutch {
namespace {

constexpr std::size_t kStreamBytes = 16U << 20;  // all that a run may tell fits

}  // namespace

std::int64_t system_now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

LiveRun::LiveRun(net::any_io_executor executor, RunIdentity identity, RunCaps caps)
    : created_ns(system_now_ns()),
      identity_(std::move(identity)),
      caps_(std::move(caps)),
      events_(executor, kStreamBytes) {}

std::filesystem::path LiveRun::log_path(wire::Stream stream) const {
  return caps_.directory / (identity_.id + (stream == wire::Stream::out ? ".stdout" : ".stderr"));
}

std::filesystem::path LiveRun::files_path() const { return caps_.directory / (identity_.id + ".files"); }

void LiveRun::tell(StreamEvent event) {
  event.run = identity_.id;
  if (also_ != nullptr) also_->append(event);
  events_.append(std::move(event));
}

void LiveRun::queue(EventStream* also) {
  also_ = also;
  tell({.type = EventType::queued});
}

void LiveRun::start() {
  stage_ = RunStage::running;
  started_ns = system_now_ns();
  tell({.type = EventType::started});
}

void LiveRun::add_output(const wire::OutputEvent& event) {
  if (event.display) return add_display(event);
  Stream& stream = streams_[static_cast<std::size_t>(event.stream)];
  stream.written += event.data.size();
  const bool room = !stream.spilled && told_ < caps_.events;
  const std::string_view kept =
      std::string_view(event.data)
          .substr(0, room ? std::min(caps_.of_stream.count - stream.kept, event.data.size()) : 0);
  if (!kept.empty()) {
    stream.kept += kept.size();
    // Neighbours of one stream are one piece in the result; readers have heard of each.
    if (!output_.empty() && !output_.back().display && output_.back().stream == event.stream &&
        output_.back().data.size() < (64U << 10)) {
      output_.back().data += kept;
    } else {
      output_.push_back({.stream = event.stream, .at_us = event.at_us, .data = std::string(kept)});
    }
    tell_output(event.stream, kept);
  }
  if (kept.size() == event.data.size()) return;
  if (!stream.spilled) tell({.type = EventType::truncated, .stream = event.stream, .kept_bytes = stream.kept});
  spill(event.stream, std::string_view(event.data).substr(kept.size()));
}

// The engine has seen to it that there are not too many.
void LiveRun::add_display(const wire::OutputEvent& event) {
  display_bytes_ += hutch::weight(*event.display);
  output_.push_back(event);
  tell({.type = EventType::display, .display = event.display});
}

void LiveRun::tell_output(wire::Stream which, std::string_view bytes) {
  Stream& stream = streams_[static_cast<std::size_t>(which)];
  std::string text = std::move(stream.carried);
  text += bytes;
  const std::size_t whole = complete_utf8_prefix(text);
  stream.carried = text.substr(whole);
  text.resize(whole);
  if (text.empty()) return;
  ++told_;
  tell({.type = EventType::output, .stream = which, .text = clean_utf8(text)});
}

// The log holds everything from the first byte on. What the disk does not take is lost, and the count tells.
void LiveRun::spill(wire::Stream which, std::string_view bytes) {
  Stream& stream = streams_[static_cast<std::size_t>(which)];
  const auto write_log = [&](std::string_view piece) {
    piece = piece.substr(0, std::min<std::uint64_t>(piece.size(), caps_.log.count - stream.logged));
    while (stream.log && !piece.empty()) {
      const ssize_t written = ::write(stream.log.get(), piece.data(), piece.size());
      if (written <= 0) return;
      stream.logged += static_cast<std::uint64_t>(written);
      piece.remove_prefix(static_cast<std::size_t>(written));
    }
  };
  if (!std::exchange(stream.spilled, true)) {
    stream.log.reset(::open(log_path(which).c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600));
    for (const auto& piece : output_) {
      if (piece.stream == which) write_log(piece.data);
    }
  }
  write_log(bytes);
}

void LiveRun::add_file(wire::FileEntry file) {
  files_.push_back(file);
  tell({.type = EventType::file, .file = std::move(file)});
}

void LiveRun::want_input() {
  if (told_ >= caps_.events) return;
  ++told_;
  tell({.type = EventType::input_wanted});
}

void LiveRun::add_tool_call(std::shared_ptr<const PendingToolCall> call) {
  tool_calls_.push_back(call);
  call_bytes_ += call->input.size();
  tell({.type = EventType::tool_call, .call = std::move(call)});
}

void LiveRun::end_tool_call(std::string_view call_id, ToolCallEnd how) {
  const auto found =
      std::ranges::find_if(tool_calls_, [&](const auto& call) { return std::string_view(call->call_id) == call_id; });
  if (found == tool_calls_.end()) return;
  std::string id = (*found)->call_id;  // only that: what the call was given need not live as long as this event
  tool_calls_.erase(found);
  tell({.type = EventType::tool_call_done, .text = std::move(id), .call_end = how});
}

Result<void> LiveRun::answer_tool_call(const std::string& call_id, bool ok, std::string text) {
  if (give_tool_result) return give_tool_result(call_id, ok, std::move(text));
  return make_error(ErrorCode::not_found, "no call of this id is pending");
}

void LiveRun::finish(wire::Record record) {
  record.execution_id = identity_.id;
  if (record.execution_count != 0) execution_count = record.execution_count;
  for (const auto stream : {wire::Stream::out, wire::Stream::err}) {
    Stream& one = streams_[static_cast<std::size_t>(stream)];
    if (one.carried.empty()) continue;
    tell({.type = EventType::output, .stream = stream, .text = clean_utf8(std::exchange(one.carried, {}))});
  }
  record.stdout_truncated = streams_[0].spilled;
  record.stderr_truncated = streams_[1].spilled;
  for (const auto& [stream, name] : {std::pair(&streams_[0], "stdout"), {&streams_[1], "stderr"}}) {
    if (!stream->spilled || stream->logged == stream->written) continue;
    record.notices.push_back(
        fmt::format("the log of {} is cut: it has the first {} bytes of {}", name, stream->logged, stream->written));
  }
  record_ = std::move(record);
  end();
}

void LiveRun::fail(StartFailure failure) {
  failure_ = std::move(failure);
  end();
}

void LiveRun::end() {
  stage_ = RunStage::finished;
  finished_ns = system_now_ns();
  if (started_ns == 0) started_ns = finished_ns;
  for (auto& stream : streams_) stream.log.reset();
  cancel = nullptr;
  give_tool_result = nullptr;
  while (!tool_calls_.empty()) end_tool_call(std::string(tool_calls_.front()->call_id), ToolCallEnd::cancelled);
  last_event = events_.last() + 1;
  tell_once(on_finished);
  tell_once(on_stored);
  tell({.type = EventType::finished, .result = weak_from_this()});
  events_.close();
  also_ = nullptr;
}

// Whoever waits for the end hears of it, also when there was no memory for what comes before.
void LiveRun::tell_once(std::function<void(LiveRun&)>& whom) {
  const auto once = std::exchange(whom, nullptr);
  try {
    if (once) once(*this);
  } catch (const std::exception& error) {
    log::error("run not stored", {{"request", identity_.request_id},
                                  {"session", identity_.session_id},
                                  {"run", identity_.id},
                                  {"error", error.what()}});
  }
}

std::size_t LiveRun::weight() const {
  std::size_t bytes = sizeof(LiveRun) + rendered.size() + rendered_events.size();
  for (const auto& stream : streams_) bytes += 2 * stream.kept;         // as it came, and as it was told
  return bytes + display_bytes_ + std::min(call_bytes_, kStreamBytes);  // older calls are not remembered
}

net::awaitable<bool> LiveRun::wait_finished(Clock::time_point deadline) {
  std::uint64_t seen = 0;
  while (stage_ != RunStage::finished && Clock::now() < deadline) {
    seen = events_.last();
    co_await events_.wait_beyond(seen, deadline);
  }
  co_return stage_ == RunStage::finished;
}

net::awaitable<bool> LiveRun::wait_finished_or_called(Clock::time_point deadline) {
  while (stage_ != RunStage::finished && tool_calls_.empty() && Clock::now() < deadline) {
    co_await events_.wait_beyond(events_.last(), deadline);
  }
  co_return stage_ == RunStage::finished || !tool_calls_.empty();
}

}  // namespace hutch
