#include "session/run.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <csignal>

#include "base/id.h"
#include "base/sha256.h"
#include "wire/fd_passing.h"
#include "wire/frame.h"

namespace hutch {
namespace {

constexpr auto kDrainTime = std::chrono::seconds(1);   // after the last process of the sandbox was killed
constexpr auto kStartTime = std::chrono::seconds(60);  // a zygote that imports a lot
constexpr auto kWeakerInterval = std::chrono::milliseconds(20);
constexpr auto kShortestInterval = std::chrono::milliseconds(10);
constexpr std::uint64_t kMostDenials = 2'000;

}  // namespace

Run::Run(net::any_io_executor executor, KeeperLink& keeper, net::thread_pool& workers, RunSpec spec, RunSink& sink)
    : executor_(executor),
      keeper_(keeper),
      workers_(workers),
      spec_(std::move(spec)),
      sink_(sink),
      tasks_(executor),
      from_client_(executor),
      input_(executor),
      output_(executor),
      error_(executor),
      control_(executor),
      listener_(executor),
      wall_timer_(executor),
      watch_timer_(executor),
      begun_(executor),
      ready_(executor),
      exited_(executor),
      drained_(executor) {}

net::awaitable<std::expected<wire::Record, StartFailure>> Run::execute() {
  const auto self = shared_from_this();
  if (auto begun = start(); !begun) co_return std::unexpected(StartFailure{.error = std::move(begun).error()});
  co_await begun_.wait_until(asked_ + kStartTime);
  if (started_ && !failure_) {
    tasks_.spawn(send_tasks());
    tasks_.spawn(feed_input());
    tasks_.spawn(read_stream(output_, wire::Stream::out));
    tasks_.spawn(read_stream(error_, wire::Stream::err));
    tasks_.spawn(read_control());
  }

  if (!co_await ready_.wait_until(asked_ + kStartTime)) {
    failure_ = StartFailure{.error = make_error(ErrorCode::timed_out, "the sandbox did not start in time")};
  }
  if (!failure_) {
    tasks_.spawn(answer_denials());
    tasks_.spawn(watch_usage());
    co_await exited_.wait();
    co_await drained_.wait_until(Clock::now() + kDrainTime);
  }
  drained_at_ = Clock::now();
  over_ = true;
  boost::system::error_code ignored;
  wall_timer_.cancel();
  watch_timer_.cancel();
  from_client_.close(ignored);
  input_.close(ignored);
  output_.close(ignored);
  error_.close(ignored);
  control_.close(ignored);
  listener_.close(ignored);
  co_await tasks_.join();

  Collection files;
  if (!failure_) files = co_await collect();
  keeper_.release(number_);
  keeper_.dismiss(number_);
  if (failure_) co_return std::unexpected(std::move(*failure_));
  wire::Record record = make_record(files);
  for (auto& file : files.files) sink_.on_file(std::move(file));
  co_return record;
}

Result<void> Run::start() {
  number_ = keeper_.enlist(*this);
  asked_ = Clock::now();
  started_at_ns_ =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  const StartRequest request{.run = number_,
                             .template_index = spec_.template_index,
                             .warm = !spec_.request.cold,
                             .weaker_limits = spec_.request.weaker_limits,
                             .limits = LimitNumbers::from(spec_.limits),
                             .fault = spec_.fault};
  auto sent = keeper_.start(request);
  if (!sent) keeper_.dismiss(number_);
  return sent;
}

net::awaitable<void> Run::send_tasks() {
  std::string bytes;
  boost::system::error_code failed;
  for (auto& file : spec_.files) {
    bytes = wire::make_frame(wire::TaskType::put_file, file);
    co_await net::async_write(control_, net::buffer(bytes), net::redirect_error(net::use_awaitable, failed));
    if (failed) co_return;
  }
  auto& request = spec_.request;
  if (request.mode == wire::RunMode::shell) {
    bytes = wire::make_frame(wire::TaskType::open_shell, wire::OpenShell{.environment = request.environment});
  } else {
    bytes = wire::make_frame(wire::TaskType::run_script, wire::RunScript{.code = std::move(request.code),
                                                                         .file_name = request.file_name,
                                                                         .has_file = request.has_file,
                                                                         .arguments = request.arguments,
                                                                         .environment = request.environment});
  }
  co_await net::async_write(control_, net::buffer(bytes), net::redirect_error(net::use_awaitable, failed));
  for (; !early_cells_.empty(); early_cells_.pop_front()) {
    arm_wall_limit();
    co_await net::async_write(control_, net::buffer(early_cells_.front()),
                              net::redirect_error(net::use_awaitable, failed));
  }
  tasks_sent_ = true;
}

// The client's pipe is not the program's: what a sandbox holds was made for it alone.
net::awaitable<void> Run::feed_input() {
  std::string chunk(64 << 10, '\0');
  boost::system::error_code failed;
  while (!failed) {
    const std::size_t size =
        co_await from_client_.async_read_some(net::buffer(chunk), net::redirect_error(net::use_awaitable, failed));
    if (failed) break;
    co_await net::async_write(input_, net::buffer(chunk, size), net::redirect_error(net::use_awaitable, failed));
  }
  boost::system::error_code ignored;
  input_.close(ignored);
  from_client_.close(ignored);
}

net::awaitable<void> Run::read_stream(net::posix::stream_descriptor& from, wire::Stream stream) {
  std::string chunk(64 << 10, '\0');
  for (;;) {
    boost::system::error_code failed;
    const std::size_t size =
        co_await from.async_read_some(net::buffer(chunk), net::redirect_error(net::use_awaitable, failed));
    if (failed || size == 0) break;
    keep_output(stream, std::string_view(chunk).substr(0, size));
  }
  if (--open_streams_ == 0) drained_.set();
}

// The cap counts bytes, not lines, over both streams; what is beyond it ends the run.
void Run::keep_output(wire::Stream stream, std::string_view data) {
  output_bytes_ += data.size();
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
  wire::FrameBuffer frames(wire::kMaxRunnerFrame);
  for (;;) {
    boost::system::error_code failed;
    co_await control_.async_wait(net::local::stream_protocol::socket::wait_read,
                                 net::redirect_error(net::use_awaitable, failed));
    if (failed || !receive_control(frames)) break;
  }
  // A sandbox that ends without a word before its walls are up has failed; the keeper's reply may say why.
  if (!got_ready_ && !over_ && !failure_ && started_) fail_early();
}

// Until `ready` a descriptor may come along; afterwards there is no room for one, so none can be smuggled in.
bool Run::receive_control(wire::FrameBuffer& frames) {
  std::array<char, 32 << 10> chunk;
  int fd = -1;
  std::size_t fd_count = 0;
  const std::span<int> room = got_ready_ ? std::span<int>{} : std::span<int>(&fd, 1);
  const ssize_t got = wire::receive_with_fds(control_.native_handle(), chunk, room, fd_count, MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN;
  if (got == 0) return false;
  if (fd_count == 1 && !listener_.is_open()) listener_.assign(fd);
  frames.append({chunk.data(), static_cast<std::size_t>(got)});
  for (;;) {
    auto frame = frames.next();
    if (!frame) return false;  // nonsense: stop listening, the exit status tells the rest
    if (!*frame) return true;
    if (!handle_frame(**frame)) return false;
  }
}

bool Run::handle_frame(const wire::Frame& frame) {
  switch (static_cast<wire::RunnerType>(frame.type)) {
    case wire::RunnerType::ready: {
      const auto message = wire::decode<wire::Ready>(frame.payload);
      if (!message || got_ready_) return false;
      got_ready_ = true;
      join_steps_ = message->step_end_ns;
      up_ = Clock::now();
      running_ = up_;
      if (spec_.request.mode == wire::RunMode::script) arm_wall_limit();
      begun_.set();
      ready_.set();
      return true;
    }
    case wire::RunnerType::setup_failed: {
      const auto message = wire::decode<wire::SetupFailed>(frame.payload);
      if (!message || message->step > static_cast<std::uint8_t>(Step::last)) return false;
      const auto step = static_cast<Step>(message->step);
      // After `ready` our own code speaks once more: when a cold start's exec fails, before any of the user's.
      if (got_ready_ && (step != Step::execute || !spec_.request.cold || running_ != up_)) return false;
      failure_ = StartFailure{.error = system_error(static_cast<int>(message->error_number))
                                           .during("make sandbox: " + std::string(name_of(step))),
                              .step = step};
      begun_.set();
      ready_.set();
      return false;
    }
    case wire::RunnerType::started:
      if (running_ == up_) running_ = Clock::now();
      return got_ready_;
    case wire::RunnerType::error: {
      auto message = wire::decode<wire::PythonError>(frame.payload);
      if (!message || !got_ready_) return false;
      python_ = std::move(*message);
      return true;
    }
    case wire::RunnerType::cell_done: {
      const auto message = wire::decode<wire::CellDone>(frame.payload);
      if (!message || spec_.request.mode != wire::RunMode::shell) return false;
      wall_timer_.cancel();
      sink_.on_cell_done(message->status);
      return true;
    }
  }
  return false;
}

void Run::send_cell(std::string code) {
  if (!tasks_sent_) {  // the sandbox is still being made
    early_cells_.push_back(wire::make_frame(wire::TaskType::run_cell, wire::RunCell{.code = std::move(code)}));
    return;
  }
  arm_wall_limit();
  auto frame =
      std::make_shared<std::string>(wire::make_frame(wire::TaskType::run_cell, wire::RunCell{.code = std::move(code)}));
  const auto self = shared_from_this();
  net::async_write(control_, net::buffer(*frame), [self, frame](const boost::system::error_code&, std::size_t) {});
}

void Run::interrupt() { keeper_.signal(number_, SIGINT); }

void Run::end(Ended reason) {
  if (over_ || ended_ != Ended::by_itself || exited_.is_set()) return;
  ended_ = reason;
  keeper_.signal(number_, SIGKILL);
  if (!started_ && reason == Ended::cancelled) fail_early();
}

void Run::arm_wall_limit() {
  wall_timer_.expires_after(spec_.limits.wall);
  const std::weak_ptr<Run> weak = weak_from_this();
  wall_timer_.async_wait([weak](const boost::system::error_code& failed) {
    if (failed) return;
    if (const auto self = weak.lock()) self->end(Ended::wall_limit);
  });
}

net::awaitable<void> Run::answer_denials() {
  while (listener_.is_open()) {
    boost::system::error_code failed;
    co_await listener_.async_wait(net::posix::stream_descriptor::wait_read,
                                  net::redirect_error(net::use_awaitable, failed));
    if (failed || !denials_.answer_one(listener_.native_handle())) co_return;
    if (denials_.total() > kMostDenials) end(Ended::denial_flood);
  }
}

// Processor time is asked for when it could be used up at the earliest; without control groups everything is asked for
// at short intervals.
net::awaitable<void> Run::watch_usage() {
  const bool weaker = keeper_.hello().cgroup.empty();
  while (!over_ && !exited_.is_set()) {
    const auto used = std::chrono::milliseconds(usage_.cpu_us / 1000);
    const auto left = spec_.limits.cpu > used ? spec_.limits.cpu - used : std::chrono::milliseconds(0);
    const auto earliest = std::chrono::milliseconds(left.count() * 100 / std::max(spec_.limits.cpu_percent, 1U));
    watch_timer_.expires_after(weaker ? kWeakerInterval : std::max(earliest, kShortestInterval));
    boost::system::error_code failed;
    co_await watch_timer_.async_wait(net::redirect_error(net::use_awaitable, failed));
    if (failed) co_return;
    keeper_.ask_usage(number_);
    watch_timer_.expires_after(kShortestInterval);  // the answer comes meanwhile
    co_await watch_timer_.async_wait(net::redirect_error(net::use_awaitable, failed));
    if (failed) co_return;
  }
}

void Run::on_usage(const UsageNumbers& usage) {
  if (exited_.is_set()) return;
  const std::uint64_t peak = std::max(usage_.peak_memory, usage.peak_memory);
  usage_ = usage;
  usage_.peak_memory = peak;
  if (usage.cpu_us / 1000 >= static_cast<std::uint64_t>(spec_.limits.cpu.count())) end(Ended::cpu_limit);
  if (usage.from_cgroup) return;  // the kernel sees to the rest
  if (usage.memory_now > spec_.limits.memory.count) end(Ended::memory_limit);
  if (usage.processes > spec_.limits.processes) end(Ended::process_limit);
}

void Run::on_started(const StartedReply& reply, std::vector<UniqueFd> fds) {
  started_ = reply;
  workspace_ = std::move(fds[0]);
  input_.assign(fds[1].release());
  output_.assign(fds[2].release());
  error_.assign(fds[3].release());
  control_.assign(net::local::stream_protocol(), fds[4].release());
  from_client_.assign(spec_.input.release());
  begun_.set();
}

void Run::on_failed(const FailedReply& reply) {
  std::string message = reply.message;
  if (reply.step != Step::none && message.find(name_of(reply.step)) == std::string::npos) {
    message = "make sandbox: " + std::string(name_of(reply.step)) + ": " + message;
  }
  failure_ = StartFailure{.error = make_error(ErrorCode::internal, std::move(message)).with_hint(reply.hint),
                          .step = reply.step};
  begun_.set();
  ready_.set();
}

void Run::on_exited(const ExitedReply& reply) {
  const UsageNumbers before = usage_;
  wait_status_ = reply.wait_status;
  usage_ = reply.usage;
  usage_.peak_memory = std::max(usage_.peak_memory, before.peak_memory);
  if (!usage_.from_cgroup) usage_.processes = std::max(usage_.processes, before.processes);
  finished_ = Clock::now();
  exited_.set();
  if (!got_ready_ && !failure_) fail_early();
}

// The sandbox ended before its walls were up: because we ended it, or for a reason that nobody told.
void Run::fail_early() {
  const bool ours = ended_ == Ended::cancelled;
  failure_ = StartFailure{.error = ours ? make_error(ErrorCode::disconnected, "cancelled before it started")
                                        : make_error(ErrorCode::internal, "the sandbox died while it was being made")};
  begun_.set();
  ready_.set();
}

void Run::on_keeper_lost() {
  failure_ = StartFailure{.error = make_error(ErrorCode::internal, "the keeper died, and every sandbox with it")
                                       .with_hint("run it again: a new engine starts by itself")};
  begun_.set();
  ready_.set();
  exited_.set();
}

net::awaitable<Collection> Run::collect() {
  std::map<std::string, std::string> inputs;
  std::map<std::string, Sha256> hashes;
  for (const auto& file : spec_.files) hashes[file.path].update(file.data);
  for (auto& [path, hash] : hashes) inputs.emplace(path, hash.hex());
  const int workspace = workspace_.get();
  if (inputs.empty() && is_empty(workspace)) co_return collect_files(workspace, inputs, false, spec_.limits.scratch);
  const bool keep_open = spec_.request.want_files;
  co_await net::post(workers_, net::use_awaitable);  // hashing must not hold up other runs
  Collection files = collect_files(workspace, inputs, keep_open, spec_.limits.scratch);
  co_await net::post(executor_, net::use_awaitable);
  co_return files;
}

std::uint64_t Run::us_since(Clock::time_point begin) const {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count());
}

}  // namespace hutch
