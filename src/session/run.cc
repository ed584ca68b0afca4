#include "session/run.h"

#include <boost/asio/detached.hpp>
#include <boost/asio/post.hpp>
#include <csignal>
#include <utility>

#include "base/id.h"
#include "base/log.h"
#include "wire/frame.h"

namespace hutch {
namespace {

constexpr auto kDrainTime = std::chrono::seconds(1);              // after the last process of the sandbox was killed
constexpr auto kDeathTime = std::chrono::seconds(5);              // from SIGKILL to the last process
constexpr auto kHeadStart = std::chrono::microseconds(300);       // of a program before those who look after it
constexpr auto kColdHeadStart = std::chrono::microseconds(1200);  // the same where its pages were not touched before
constexpr auto kGrace = std::chrono::milliseconds(1);  // for the answer to reach its reader before we take a core
constexpr auto kTimeToSleep = std::chrono::milliseconds(100);  // for the keeper to stop it
constexpr std::uint64_t kMostToLinger = 16U << 20;
constexpr auto kQuestionTime = std::chrono::seconds(5);  // of a runner that is asked about its state
constexpr auto kInterruptTime = std::chrono::seconds(2);
constexpr auto kPolite = std::chrono::milliseconds(400);  // from the interrupt of a late cell to the end of everything

std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace

Run::Run(net::any_io_executor executor, KeeperLink& keeper, ReadyPool& pool, Workers& workers, RunSpec spec,
         RunSink& sink)
    : executor_(executor),
      keeper_(keeper),
      pool_(pool),
      workers_(workers),
      spec_(std::move(spec)),
      sink_(sink),
      tasks_(executor),
      link_(executor),
      from_client_(executor),
      wall_timer_(executor),
      watch_timer_(executor),
      patience_timer_(executor),
      call_timer_(executor),
      begun_(executor),
      ready_(executor),
      limited_(executor),
      ended_event_(executor),
      exited_(executor),
      drained_(executor),
      silent_(executor),
      usage_heard_(executor),
      answered_(executor),
      hashed_(executor) {
  hashed_.set();
}

Error could_not_go_on() { return make_error(ErrorCode::internal, "the daemon could not go on with it"); }

// Its tasks use it until leave() has waited for them, whatever is thrown before.
net::awaitable<std::expected<wire::Record, StartFailure>> Run::execute() {
  const auto self = shared_from_this();
  if (failure_) co_return std::unexpected(std::move(*failure_));  // cancelled while it waited
  try {
    co_await live();
  } catch (const std::exception& error) {
    fail_for_want(error);
  }
  std::optional<wire::Record> record;
  try {
    close_up();
    if (!failure_) record = co_await report();
  } catch (const std::exception& error) {
    fail_for_want(error);
  }
  net::co_spawn(executor_, leave(self), net::detached);  // the answer goes first
  if (failure_) co_return std::unexpected(std::move(*failure_));
  co_return std::move(*record);
}

void Run::fail_for_want(const std::exception& error) {
  const auto& names = ids();
  log::error("run given up",
             {{"request", names.request}, {"session", names.session}, {"run", names.run}, {"error", error.what()}});
  if (!failure_) failure_ = StartFailure{.error = could_not_go_on()};
}

// From the request to the end of its program.
net::awaitable<void> Run::live() {
  asked_ = Clock::now();
  started_at_ns_ = now_ns();
  if (!spec_.request.cold) pool_.note_start(spec_.template_index);
  auto link = spec_.request.on_demand || spec_.into != 0 ? std::nullopt : pool_.claim(start_request());
  if (link) {
    co_await claim(std::move(*link));
  } else {
    co_await start();
  }
  if (!failure_ && !co_await ready_.wait_until(asked_ + kStartTime)) {
    failure_ = StartFailure{.error = make_error(ErrorCode::timed_out, "the sandbox did not start in time")};
  }
  // Whoever waits for the first output must not wait for this, and a short program needs none of it.
  if (!failure_) co_await ended_event_.wait_until(Clock::now() + (claimed_ ? kHeadStart : kColdHeadStart));
  if (!failure_) {
    if (!ended_event_.is_set()) {
      tasks_.spawn(feed_input());
      tasks_.spawn(answer_denials());
    }
    if (spec_.into != 0) {  // what those before it used is not its own
      co_await ask_usage();
      oom_kills_before_ = usage_.oom_kills;
    }
    tasks_.spawn(watch_usage());
    co_await wait_for_end();
  }
}

void Run::close_up() {
  if (spec_.request.cold) release();  // its engine serves nobody else, and is waited for
  drained_at_ = Clock::now();
  over_ = true;
  end_tool_calls(calls_.cancel_all(), ToolCallEnd::cancelled, Tell::client);
  while (!cells_done_.empty()) cell_over();
  answered_.set();
  ready_.set();  // it may have failed without a word
  wall_timer_.cancel();
  watch_timer_.cancel();
  patience_timer_.cancel();
  call_timer_.cancel();
  boost::system::error_code ignored;
  from_client_.close(ignored);
  if (!said_finished_) link_.close();
}

net::awaitable<wire::Record> Run::report() {
  Collection files;
  if (!spec_.lasting && spec_.into == 0) files = co_await collect();  // a session looks after its own
  auto record = make_record(files);
  for (auto& file : files.files) sink_.on_file(std::move(file));
  co_return record;
}

// What nobody waits for any more.
net::awaitable<void> Run::leave([[maybe_unused]] std::shared_ptr<Run> self) {
  boost::system::error_code ignored;
  wall_timer_.expires_after(kGrace);
  co_await wall_timer_.async_wait(net::redirect_error(net::use_awaitable, ignored));
  const bool leisurely = may_linger();
  release(leisurely ? KeeperLink::Pace::leisurely : KeeperLink::Pace::at_once);
  if (leisurely) {  // hung up on, it would go by itself, and at once
    wall_timer_.expires_after(kTimeToSleep);
    co_await wall_timer_.async_wait(net::redirect_error(net::use_awaitable, ignored));
  }
  link_.close();
  co_await tasks_.join();
}

void Run::release(KeeperLink::Pace pace) {
  if (std::exchange(released_, true)) return;
  keeper_.dismiss(link_.number);
  if (!spec_.lasting || failure_) keeper_.release(link_.number, pace);
}

// Taking a sandbox apart takes a quarter of all the time that it takes: where many wait, that can wait longest. But not
// with much memory.
bool Run::may_linger() const {
  const bool session = spec_.lasting || spec_.into != 0;
  return pool_.crowded() && !failure_ && said_finished_ && !session && !exited_.is_set() && usage_.from_cgroup &&
         usage_.peak_memory <= kMostToLinger;
}

// Until the program is over, its output is here and its figures are known. A program that says so itself has written
// everything it will ever write; one that just goes is over when the keeper has seen its last process die.
net::awaitable<void> Run::wait_for_end() {
  co_await ended_event_.wait();
  if (failure_) co_return;
  if (!said_finished_) {
    co_await exited_.wait();
    const auto deadline = Clock::now() + kDrainTime;
    co_await drained_.wait_until(deadline);
    co_await silent_.wait_until(deadline);  // its last words may say why
    co_return;
  }
  const bool clean = wait_status_ == 0 && !python_;
  const auto reading =
      clean && link_.cgroup ? link_.cgroup.read() : Result<CgroupHandle::Reading>(CgroupHandle::Reading{});
  if (clean && link_.cgroup && reading) {
    usage_.cpu_us = reading->cpu_us - std::min(link_.cpu_before_us, reading->cpu_us);
    usage_.peak_memory = reading->peak_memory;
    usage_.from_cgroup = true;
  } else {
    co_await ask_usage();
  }
  // The next interpreter of a session must not meet the end of this one.
  const bool session = spec_.lasting || spec_.into != 0;
  left_nothing_ = !session && spec_.files.empty() && is_empty(link_.workspace.get());
  if (left_nothing_) co_return;
  // Files are looked at when nobody is left who could change them.
  keeper_.signal(link_.number, SIGKILL);
  co_await exited_.wait_until(Clock::now() + kDeathTime);
}

void Run::send_cell(CellTask task) {
  if (ended_event_.is_set() || failure_) return cell_over();
  if (!task_sent_) return early_cells_.push_back(std::move(task));  // the sandbox is still being made
  cell_runs_ = true;
  cell_timed_out_ = false;
  cell_is_command_ = task.what.is_command;
  cell_takes_input_ = task.what.input == wire::CellInput::live;
  python_.reset();
  changes_.reset();
  displays_ = {};
  denials_ = {};
  task.what.tools = std::exchange(task.tools.definitions, {});
  calls_ = HostCalls(std::move(task.tools));
  paused_at_.reset();
  paused_ = {};
  link_.expect_frames_of(wire::kMaxRunnerFrame);
  cell_arrived_ = task.arrived;
  cell_began_ = Clock::now();
  cell_began_at_ns_ = now_ns();
  cell_output_before_ = output_bytes_;
  limits_now_ = limits_of_cell(task);
  cell_is_whole_ = spec_.lasting || spec_.into != 0 || task.timeout;
  link_.cgroup.stand_back(task.waited);
  // First of all: what follows is done while it runs.
  if (cell_is_whole_) {
    send(wire::make_frame(wire::TaskType::run_in_session, task.what));
  } else {
    send(wire::make_frame(wire::TaskType::run_cell, wire::RunCell{.code = std::move(task.what.code)}));
  }
  // What was charged between the cells is not this one's.
  if (const auto cpu_us = group_cpu_us()) usage_.cpu_us = *cpu_us - std::min(link_.cpu_before_us, *cpu_us);
  cell_cpu_before_us_ = usage_.cpu_us;
  arm_wall_limit(limits_now_.wall);
  watch_timer_.cancel();
  begin_turn(task.waited);
}

// More time is more processor time too, unless the shell has less of that than of time: then somebody wanted it so.
Limits Run::limits_of_cell(const CellTask& task) const {
  Limits limits = spec_.limits;
  limits.wall = task.timeout.value_or(limits.wall);
  if (spec_.limits.cpu >= spec_.limits.wall) limits.cpu = std::max(limits.cpu, limits.wall);
  return limits;
}

// From the moment in which `done` is kept it will be called, so nothing may be thrown any more: an interpreter that may
// have heard half of a cell ends.
void Run::run_cell(CellTask task, std::function<void()> done) {
  cells_done_.push_back(std::move(done));
  try {
    send_cell(std::move(task));
  } catch (const std::exception& error) {
    fail_for_want(error);
    end(Ended::cancelled);
  }
}

net::awaitable<bool> Run::wait_until_ready() {
  co_await ready_.wait();
  co_return !failure_;
}

std::uint64_t Run::cell_cpu_us() const { return usage_.cpu_us - std::min(cell_cpu_before_us_, usage_.cpu_us); }

void Run::cell_over() {
  if (cells_done_.empty()) return;
  cell_runs_ = false;
  drop_input();
  link_.expect_frames_of(wire::kMaxIdleFrame);
  const auto done = std::move(cells_done_.front());
  cells_done_.pop_front();
  done();
}

void Run::interrupt() {
  keeper_.signal(link_.number, SIGINT);
  end_tool_calls(calls_.cancel_all(), ToolCallEnd::cancelled, Tell::both);
}

void Run::end(Ended reason) {
  if (over_ || ended_ != Ended::by_itself || ended_event_.is_set()) return;
  ended_ = reason;
  keeper_.signal(link_.number, SIGKILL);
  if (!started_ && reason == Ended::cancelled) fail_early();
}

void Run::arm_wall_limit(std::chrono::milliseconds after) {
  wall_timer_.expires_after(after);
  const std::weak_ptr<Run> weak = weak_from_this();
  wall_timer_.async_wait([weak, serial = ++wall_serial_](const boost::system::error_code& failed) {
    if (failed) return;
    // A timer that went off a moment before it was cancelled is of a cell that is over.
    if (const auto self = weak.lock(); self && self->wall_serial_ == serial) self->wall_limit_reached();
  });
}

// Variables are kept when the cell lets itself be interrupted.
void Run::wall_limit_reached() {
  if (!cell_is_whole_ || std::exchange(cell_timed_out_, true)) return end(Ended::wall_limit);
  interrupt();
  arm_wall_limit(kPolite);
}

void Run::on_exited(const ExitedReply& reply) {
  if (!said_finished_) {
    const UsageNumbers before = usage_;
    wait_status_ = reply.wait_status;
    usage_ = reply.usage;
    usage_.cpu_us -= std::min(link_.cpu_before_us, usage_.cpu_us);
    usage_.oom_kills -= std::min(oom_kills_before_, usage_.oom_kills);
    usage_.peak_memory = std::max(usage_.peak_memory, before.peak_memory);
    if (!usage_.from_cgroup) usage_.processes = std::max(usage_.processes, before.processes);
    finished_ = Clock::now();
  }
  exited_.set();
  ended_event_.set();
  if (!started_ && !failure_) fail_early();  // else whoever reads its last words knows better
}

void Run::on_keeper_lost() {
  failure_ = StartFailure{.error = make_error(ErrorCode::internal, "the keeper died, and every sandbox with it")
                                       .with_hint("run it again: a new engine starts by itself")};
  begun_.set();
  ready_.set();
  limited_.set();
  exited_.set();
  ended_event_.set();
}

net::awaitable<Collection> Run::collect() {
  co_await hashed_.wait();
  std::map<std::string, std::string> inputs;
  for (auto& [path, hash] : inputs_) inputs.emplace(path, hash.hex());
  const int workspace = link_.workspace.get();
  // What was empty is not looked at again: those who live on could have put something there.
  if (left_nothing_ || (inputs.empty() && is_empty(workspace)))
    co_return Collection{.scratch_used = used_bytes(workspace)};
  const bool keep_open = spec_.request.want_files;
  co_return co_await workers_.run(owner, [workspace, &inputs, keep_open, scratch = spec_.limits.scratch] {
    return collect_files(workspace, inputs, keep_open, scratch);
  });
}

// The keeper brings the group forward, so that what is in it can die, and does not say so: with what we remember, the
// next who has to stand back would be thought to do so already.
CgroupHandle Run::take_handle() {
  CgroupHandle handle = std::move(link_.cgroup.cpu ? link_.cgroup : spec_.cgroup);
  handle.stand_back(false);
  return handle;
}

std::uint64_t Run::us_since(Clock::time_point begin) const {
  return static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count());
}

net::awaitable<Result<std::string>> Run::ask(wire::Ask question) {
  const auto self = shared_from_this();
  if (!usable() || !task_sent_ || cell_runs_ || asking_) co_return make_error(ErrorCode::limit, "it is busy");
  asking_ = true;
  answer_.reset();
  answered_.reset();
  send(wire::make_frame(wire::TaskType::ask, question));
  if (!co_await answered_.wait_until(Clock::now() + kQuestionTime)) {
    interrupt();
    if (!co_await answered_.wait_until(Clock::now() + kInterruptTime)) cancel();
  }
  if (!answer_) co_return make_error(ErrorCode::timed_out, "the interpreter did not answer");
  co_return std::move(*answer_);
}

}  // namespace hutch
