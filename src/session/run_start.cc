// How a run gets its sandbox, and what goes into it first: files and the task.
#include <boost/asio/buffer.hpp>
#include <boost/asio/write.hpp>
#include <utility>

#include "session/run.h"
#include "wire/frame.h"

namespace hutch {
namespace {

constexpr std::size_t kLargeFile = 64U << 10;  // to be hashed elsewhere

}  // namespace

StartRequest Run::start_request() const {
  return {.run = link_.number,
          .template_index = spec_.template_index,
          .warm = !spec_.request.cold,
          .weaker_limits = spec_.request.weaker_limits,
          .others_follow = spec_.others_follow,
          .lasting = spec_.lasting,
          .into = spec_.into,
          .stand_back = spec_.stand_back,
          .limits = LimitNumbers::from(spec_.limits),
          .fault = spec_.fault};
}

// A sandbox that was made in advance: only its limits may have to change before the code goes in.
net::awaitable<void> Run::claim(SandboxLink link) {
  link_ = std::move(link);
  claimed_ = true;
  started_ = true;
  keeper_.hand_over(link_.number, *this);
  link_.cgroup.stand_back(spec_.stand_back);
  if (is_shell()) keeper_.settle({.run = link_.number, .lasting = spec_.lasting});
  if (const auto asked = start_request().limits; !asked.same_group_limits(LimitNumbers::from(Limits{}))) {
    keeper_.limit({.run = link_.number, .limits = asked});
    if (!co_await limited_.wait_until(asked_ + kStartTime)) {
      failure_ = StartFailure{.error = make_error(ErrorCode::timed_out, "the keeper does not answer")};
    }
    if (failure_) co_return;
  }
  begin();
  walls_are_up();
}

net::awaitable<void> Run::start() {
  link_.number = keeper_.enlist(*this);
  auto request = start_request();
  if (spec_.files.empty()) {
    task_ = task();
    if (task_.size() <= kMostTaskBytes) request.task = std::exchange(task_, {});
  }
  if (auto sent = keeper_.start(request); !sent) {
    failure_ = StartFailure{.error = std::move(sent).error()};
    co_return;
  }
  co_await begun_.wait_until(asked_ + kStartTime);
  if (started_ && !failure_) begin();
}

// The task goes first, if it has not gone with the request: we listen before its program has anything to say.
void Run::begin() {
  if (!spec_.files.empty()) {
    tasks_.spawn(send_files());
  } else {
    send(claimed_ ? task() : std::exchange(task_, {}));
    task_is_out();
  }
  tasks_.spawn(read_stream(link_.output, wire::Stream::out));
  tasks_.spawn(read_stream(link_.error, wire::Stream::err));
  tasks_.spawn(read_control());
}

void Run::walls_are_up() {
  up_ = Clock::now();
  keeper_.note_ready(link_.number);
  running_ = up_;
  if (!is_shell()) {
    arm_wall_limit(spec_.limits.wall);
    begin_turn(spec_.stand_back);
  }
  begun_.set();
  ready_.set();
}

// What the runner is to do, after the files that it is to do it with.
std::string Run::task() {
  auto& request = spec_.request;
  if (is_shell()) {
    return wire::make_frame(
        wire::TaskType::open_shell,
        wire::OpenShell{.environment = request.environment, .ipython = request.mode == wire::RunMode::ipython});
  }
  auto definitions = std::exchange(spec_.tools.definitions, {});
  calls_ = HostCalls(std::move(spec_.tools));
  link_.expect_frames_of(wire::kMaxRunnerFrame);
  return wire::make_frame(wire::TaskType::run_script, wire::RunScript{.code = std::move(request.code),
                                                                      .file_name = request.file_name,
                                                                      .has_file = request.has_file,
                                                                      .arguments = request.arguments,
                                                                      .environment = request.environment,
                                                                      .as_cell = request.as_cell,
                                                                      .directory = request.directory,
                                                                      .tools = std::move(definitions)});
}

void Run::task_is_out() {
  task_sent_ = true;
  for (auto& cell : std::exchange(early_cells_, {})) send_cell(std::move(cell));
}

// Of each only the hash is kept, by which it is known whether the program changed it.
net::awaitable<void> Run::send_files() {
  boost::system::error_code failed;
  for (auto& file : spec_.files) {
    {
      const std::string bytes = wire::make_frame(wire::TaskType::put_file, file);
      co_await net::async_write(link_.control, net::buffer(bytes), net::redirect_error(net::use_awaitable, failed));
    }
    if (failed || over_) co_return;
    const std::string data = std::exchange(file.data, {});
    Sha256& hash = inputs_[file.path];  // which may come in several pieces
    const auto add = [&hash, &data] {
      hash.update(data);
      return true;
    };
    if (data.size() > kLargeFile) {
      co_await hash_elsewhere(add);
    } else {
      add();
    }
  }
  spec_.kept.reset();
  send(task());
  task_is_out();
}

// Whoever looks at the files afterwards waits for this, also when the program is over before.
net::awaitable<void> Run::hash_elsewhere(std::function<bool()> add) {
  hashed_.reset();
  try {
    co_await workers_.run(owner, std::move(add));
  } catch (...) {
    hashed_.set();
    throw;
  }
  hashed_.set();
}

void Run::on_started(const StartedReply& reply, std::vector<UniqueFd> fds) {
  started_ = true;
  link_.adopt(reply, std::move(fds));
  if (spec_.into != 0) link_.cgroup = std::move(spec_.cgroup);
  link_.cgroup.stand_back(spec_.stand_back);
  begun_.set();
}

// It may come after the runner's own `ready`: whoever forked it tells the keeper later, or dies before. Then this is
// all that is heard of its end.
void Run::on_failed(const FailedReply& reply) {
  if (over_) return;
  std::string message = reply.message;
  if (reply.step != Step::none && message.find(name_of(reply.step)) == std::string::npos) {
    message = "make sandbox: " + std::string(name_of(reply.step)) + ": " + message;
  }
  failure_ = StartFailure{.error = make_error(ErrorCode::internal, std::move(message)).with_hint(reply.hint),
                          .step = reply.step,
                          .sandbox_gone = reply.sandbox_gone};
  begun_.set();
  ready_.set();
  limited_.set();
  exited_.set();
  ended_event_.set();
}

// The sandbox ended before its walls were up: because we ended it, or for a reason that nobody told.
void Run::fail_early() {
  const bool ours = ended_ == Ended::cancelled;
  failure_ = StartFailure{.error = ours ? make_error(ErrorCode::disconnected, "cancelled before it started")
                                        : make_error(ErrorCode::internal, "the sandbox died while it was being made")};
  begun_.set();
  ready_.set();
}

}  // namespace hutch
