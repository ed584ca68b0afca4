// What goes into a sandbox and what comes out of it: standard input, output, and the runner's own words.
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <cerrno>
#include <utility>

#include "base/log.h"
#include "base/moving_chunk.h"
#include "session/run.h"
#include "wire/frame.h"

namespace hutch {
namespace {

constexpr std::uint32_t kMostUnheard = 1'000;  // answers that a sandbox leaves in its socket
constexpr std::size_t kMostInput = 64U << 10;  // that a program has not read yet
constexpr std::size_t kBucket = 32U << 10;
constexpr auto kBetweenBuckets = std::chrono::milliseconds(2);
constexpr auto kKeepersWord = std::chrono::milliseconds(50);
constexpr int kMostLastReads = 64;  // of a stream whose program is over, but that somebody still writes to

}  // namespace

// At once where the socket takes it: usually somebody waits for what comes of it.
void Run::send(std::string frame) {
  outgoing_ += frame;
  if (writing_ || outgoing_.empty()) return;
  const ssize_t sent =
      ::send(link_.control.native_handle(), outgoing_.data(), outgoing_.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent > 0) outgoing_.erase(0, static_cast<std::size_t>(sent));
  if (outgoing_.empty()) return;
  writing_ = true;
  tasks_.spawn(send_rest());
}

net::awaitable<void> Run::send_rest() {
  boost::system::error_code failed;
  while (!outgoing_.empty() && !failed) {
    const std::string bytes = std::exchange(outgoing_, {});
    co_await net::async_write(link_.control, net::buffer(bytes), net::redirect_error(net::use_awaitable, failed));
  }
  writing_ = false;
}

// The client's pipe is not the program's: what a sandbox holds was made for it alone.
net::awaitable<void> Run::feed_input() {
  from_client_.assign(spec_.input.release());
  boost::system::error_code failed;
  while (!failed) {
    co_await from_client_.async_wait(net::posix::stream_descriptor::wait_read,
                                     net::redirect_error(net::use_awaitable, failed));
    if (failed) break;
    std::string piece;
    const auto chunk = moving_chunk();
    const ssize_t got = ::read(from_client_.native_handle(), chunk.data(), chunk.size());
    if (got <= 0) break;
    piece.assign(chunk.data(), static_cast<std::size_t>(got));
    co_await net::async_write(link_.input, net::buffer(piece), net::redirect_error(net::use_awaitable, failed));
  }
  boost::system::error_code ignored;
  link_.input.close(ignored);
  from_client_.close(ignored);
}

// What is in the program's pipe counts, so that who sends hears of a program that does not read.
Result<void> Run::give_input(std::string_view text) {
  if (!cell_runs_ || !cell_takes_input_ || !link_.input.is_open()) {
    return make_error(ErrorCode::invalid_argument, "what runs takes no input")
        .with_hint("start the run with `stdin`: true, and send when it has begun");
  }
  int unread = 0;
  std::ignore = ::ioctl(link_.input.native_handle(), FIONREAD, &unread);
  if (static_cast<std::size_t>(unread) + given_input_.size() + text.size() > kMostInput) {
    return make_error(ErrorCode::limit, "the program does not read its input, and no more fits")
        .with_hint("nothing of it was sent: send less at once, or wait until it has read what was sent");
  }
  given_input_ += text;
  if (!std::exchange(giving_, true)) tasks_.spawn(give_rest());
  return {};
}

net::awaitable<void> Run::give_rest() {
  boost::system::error_code failed;
  while (!given_input_.empty() && !failed) {
    const ssize_t written = ::write(link_.input.native_handle(), given_input_.data(), given_input_.size());
    if (written > 0) {
      given_input_.erase(0, static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      co_await link_.input.async_wait(net::posix::stream_descriptor::wait_write,
                                      net::redirect_error(net::use_awaitable, failed));
    } else {
      break;
    }
  }
  giving_ = false;
}

// What a cell did not read is not the next one's. Only the sandbox holds the pipe's other end; this opens another.
// Where it cannot (we have no more descriptors), there is to be no next one in this interpreter.
void Run::drop_input() {
  given_input_.clear();
  if (!std::exchange(cell_takes_input_, false) || !link_.input.is_open()) return;
  const std::string name = "/proc/self/fd/" + std::to_string(link_.input.native_handle());
  const UniqueFd other_end{::open(name.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC)};
  if (!other_end) {
    log::warning("input not dropped", {{"session", ids().session}, {"error", system_error(errno).message}});
    return end(Ended::cancelled);
  }
  const auto chunk = moving_chunk();
  for (int i = 0; i < kMostLastReads && ::read(other_end.get(), chunk.data(), chunk.size()) > 0;) ++i;
}

// While others ask for little, a flood comes in by the bucket: they would wait for us otherwise, with their programs.
net::awaitable<void> Run::read_stream(net::posix::stream_descriptor& from, wire::Stream stream) {
  boost::system::error_code failed;
  net::steady_timer pause(link_.output.get_executor());
  for (;;) {
    co_await from.async_wait(net::posix::stream_descriptor::wait_read, net::redirect_error(net::use_awaitable, failed));
    const std::uint64_t before = output_bytes_;
    if (failed || !read_available(from, stream)) break;
    const bool flood = output_bytes_ - before >= kBucket && place_ != Place::spared;
    if (!flood || keeper_.sparing() == 0 || over_) continue;
    pause.expires_after(kBetweenBuckets);
    co_await pause.async_wait(net::redirect_error(net::use_awaitable, failed));
  }
  if (--open_streams_ == 0) drained_.set();
}

// One piece of what is there; false at the end.
bool Run::read_available(net::posix::stream_descriptor& from, wire::Stream stream) {
  const auto chunk = moving_chunk();
  const ssize_t got = ::read(from.native_handle(), chunk.data(), chunk.size());
  if (got <= 0) return got < 0 && errno == EAGAIN;
  keep_output(stream, {chunk.data(), static_cast<std::size_t>(got)});
  return true;
}

// What it wrote is in the pipes by now; what others go on writing is not waited for.
void Run::drain_streams() {
  for (int i = 0; i < kMostLastReads && open_streams_ > 0; ++i) {
    const std::uint64_t before = output_bytes_;
    read_available(link_.output, wire::Stream::out);
    read_available(link_.error, wire::Stream::err);
    if (output_bytes_ == before) break;
  }
}

// The cap counts bytes, not lines, over both streams; what is beyond it ends the run.
void Run::keep_output(wire::Stream stream, std::string_view data) {
  if (over_) return;
  output_bytes_ += data.size();
  if (spec_.tell_all) {
    return sink_.on_output({.stream = stream, .at_us = us_since(spec_.arrived), .data = std::string(data)});
  }
  const std::uint64_t room = spec_.limits.output.count - kept_bytes_;
  const std::string_view kept = data.substr(0, room);
  if (kept.size() < data.size()) {
    truncated_[static_cast<std::size_t>(stream)] = true;
    end(Ended::output_limit);
  }
  kept_bytes_ += kept.size();
  if (!kept.empty()) sink_.on_output({.stream = stream, .at_us = us_since(spec_.arrived), .data = std::string(kept)});
}

net::awaitable<void> Run::read_control() {
  const auto handle = [this](const wire::Frame& frame) { return handle_frame(frame); };
  while (co_await link_.readable()) {
    if (!link_.receive(handle)) break;
  }
  silent_.set();
  end_tool_calls(calls_.cancel_all(), ToolCallEnd::cancelled, Tell::client);
  // A sandbox that ends without a word before its walls are up has failed; the keeper's reply may say why, and come a
  // moment later.
  const auto nobody_knows = [this] { return !link_.walls_up && !over_ && !failure_; };
  if (nobody_knows() && ended_ == Ended::by_itself) {
    net::steady_timer moment(executor_, kKeepersWord);
    boost::system::error_code ignored;
    co_await moment.async_wait(net::redirect_error(net::use_awaitable, ignored));
  }
  if (nobody_knows()) fail_early();
}

bool Run::handle_frame(const wire::Frame& frame) {
  if (said_finished_) return false;
  const auto type = static_cast<wire::RunnerType>(frame.type);
  if (frame.payload.size() > wire::kMaxIdleFrame && type != wire::RunnerType::display &&
      type != wire::RunnerType::tool_call) {
    return false;
  }
  switch (type) {
    case wire::RunnerType::ready:
      walls_are_up();
      return true;
    case wire::RunnerType::rested:  // only before it is claimed
      return false;
    case wire::RunnerType::setup_failed:
      return handle_setup_failed(frame);
    case wire::RunnerType::started:
      if (running_ == up_) running_ = Clock::now();
      return link_.walls_up;
    case wire::RunnerType::error: {
      auto message = wire::decode<wire::PythonError>(frame.payload);
      if (!message || !link_.walls_up) return false;
      python_ = std::move(*message);
      return true;
    }
    case wire::RunnerType::cell_done:
      return handle_cell_done(frame);
    case wire::RunnerType::input_wanted:
      if (!cell_runs_) return false;
      sink_.on_input_wanted();
      return true;
    case wire::RunnerType::display:
      return take_display(frame);
    case wire::RunnerType::tool_call:
      return take_tool_call(frame);
    case wire::RunnerType::tool_call_dropped: {
      const auto message = wire::decode<wire::ToolCallDropped>(frame.payload);
      if (!message || !link_.walls_up) return false;
      end_tool_calls(calls_.drop(message->number), ToolCallEnd::cancelled, Tell::client);
      return true;
    }
    case wire::RunnerType::changes: {
      auto message = wire::decode<wire::Changes>(frame.payload);
      if (!message || !code_runs()) return false;
      changes_ = tidy_changes(std::move(*message));
      return true;
    }
    case wire::RunnerType::answer:
      if (!std::exchange(asking_, false)) return false;
      answer_ = frame.payload;
      answered_.set();
      return true;
    case wire::RunnerType::finished:
      return handle_finished(frame);
  }
  return false;
}

bool Run::handle_cell_done(const wire::Frame& frame) {
  const auto message = wire::decode<wire::CellDone>(frame.payload);
  if (!message || cells_done_.empty() || cell_ending_) return false;  // of a cell that nobody sent
  if (ended_ != Ended::by_itself) return true;                        // too late: its interpreter is being killed
  // Threads of it may still wait.
  end_tool_calls(calls_.cancel_all(), ToolCallEnd::cancelled, Tell::both);
  ++wall_serial_;
  wall_timer_.cancel();
  drain_streams();
  const bool leaves_others = cell_timed_out_ && spec_.tell_all;
  const bool was_refused = python_ && python_->error_number == EAGAIN;
  if (leaves_others || was_refused) {
    cell_ending_ = true;
    tasks_.spawn(end_cell_with_care(*message, leaves_others, was_refused));
  } else {
    end_cell(*message);
  }
  return true;
}

void Run::end_cell(const wire::CellDone& done) {
  sink_.on_cell_done(done.status, make_cell_record(done));
  cell_timed_out_ = false;
  cell_over();
}

// What a late cell has started does not go on without it, and the next one does not begin before that is gone: until
// then nothing can be started. For a fork that was refused, only the keeper can tell whether there were too many.
net::awaitable<void> Run::end_cell_with_care(wire::CellDone done, bool leaves_others, bool was_refused) {
  constexpr auto kTimeToDie = std::chrono::seconds(2);
  if (was_refused) co_await ask_usage();
  if (leaves_others) {
    limited_.reset();
    keeper_.kill_others(link_.number);
    co_await limited_.wait_until(Clock::now() + kTimeToDie);
  }
  if (std::exchange(cell_ending_, false) && !over_ && !cells_done_.empty()) end_cell(done);
}

bool Run::handle_finished(const wire::Frame& frame) {
  const auto message = wire::decode<wire::Finished>(frame.payload);
  if (!message || !link_.walls_up || ended_ != Ended::by_itself) return false;
  end_tool_calls(calls_.cancel_all(), ToolCallEnd::cancelled, Tell::client);
  said_finished_ = true;
  finished_ = Clock::now();
  const Clock::time_point said{std::chrono::nanoseconds(message->started_ns)};
  if (said > up_ && said < finished_) running_ = said;
  wait_status_ = W_EXITCODE(message->exit_code, 0);
  wall_timer_.cancel();
  drain_streams();
  ended_event_.set();
  return false;
}

// One who shows or calls and never hears our answers would fill our memory with them.
bool Run::may_answer() {
  unheard_ = writing_ ? unheard_ + 1 : 0;
  return unheard_ <= kMostUnheard;
}

bool Run::answer_display(std::uint32_t number, bool refused) {
  if (!may_answer()) return false;
  send(wire::make_frame(wire::TaskType::shown, wire::Shown{.number = number, .refused = refused}));
  return true;
}

// The runner waits for the answer, so what was printed before is in the pipes, and nothing that comes after it.
bool Run::take_display(const wire::Frame& frame) {
  auto message = wire::decode<wire::Display>(frame.payload);
  if (message && link_.walls_up && !code_runs()) {  // a thread's, or of an object that is asked about: nobody watches
    return answer_display(message->number, true);
  }
  if (!message || !code_runs() || over_) return false;
  drain_streams();
  const std::uint32_t number = message->number;
  bool refused = false;
  if (tidy_display(*message)) {
    refused = !displays_.take(*message);
    if (!refused) {
      sink_.on_output(
          {.at_us = us_since(spec_.arrived), .display = std::make_shared<const wire::Display>(std::move(*message))});
    }
  }
  return answer_display(number, refused);
}

bool Run::handle_setup_failed(const wire::Frame& frame) {
  const auto message = wire::decode<wire::SetupFailed>(frame.payload);
  if (!message || message->step > static_cast<std::uint8_t>(Step::last)) return false;
  const auto step = static_cast<Step>(message->step);
  // After `ready` our own code speaks once more: when a cold start's exec fails, before any of the user's.
  if (link_.walls_up && (step != Step::execute || !spec_.request.cold || running_ != up_)) return false;
  failure_ = StartFailure{
      .error =
          system_error(static_cast<int>(message->error_number)).during("make sandbox: " + std::string(name_of(step))),
      .step = step};
  begun_.set();
  ready_.set();
  ended_event_.set();
  return false;
}

}  // namespace hutch
