#include "session/session.h"

#include <fcntl.h>

#include <algorithm>
#include <boost/asio/detached.hpp>

#include "base/log.h"

namespace hutch {
namespace {

constexpr auto kEndTime = std::chrono::seconds(10);
constexpr auto kFirstPause = std::chrono::milliseconds(250);
constexpr auto kLongestPause = std::chrono::milliseconds(2'000);
constexpr int kMostInterpreters = 5;           // that die while one run waits
constexpr std::size_t kEventBytes = 1U << 20;  // what a watcher can come back to

// What the interrupt of a cancelled run looks like to its code is not what happened.
void note_cancelled(wire::Record& record) {
  if (!record.error || !record.error->python || record.error->python->name != "KeyboardInterrupt") return;
  wire::RunError cancelled = cancelled_error();
  cancelled.state = record.error->state;
  cancelled.python = std::move(record.error->python);
  record.error = std::move(cancelled);
  record.status = wire::Status::cancelled;
}

Error cancelled_before() { return make_error(ErrorCode::disconnected, "cancelled before it started"); }

}  // namespace

Session::Session(Engine& engine, SessionSettings settings, Admission::Owner owner)
    : engine_(engine),
      settings_(std::move(settings)),
      owner_(owner),
      events_(engine.executor(), kEventBytes),
      cell_over_(engine.executor()),
      interpreter_gone_(std::make_shared<Event>(engine.executor())),
      saved_(engine.executor()) {}

SessionState Session::state() const {
  if (ended_) return SessionState::ended;
  if (current_ || !queue_.empty()) return SessionState::busy;
  if (interpreter_ || sandbox_ != 0) return SessionState::ready;
  return lost_ ? SessionState::lost : SessionState::stopped;
}

std::int64_t Session::expires_ns() const {
  const auto after = [](std::int64_t from, std::chrono::seconds span) { return from + span.count() * 1'000'000'000; };
  return std::min(after(last_used_ns, settings_.ttl), after(created_ns, settings_.max_age));
}

// How many it told is known to nobody any more: one for each microsecond of the session's life are enough.
void Session::number_events_anew() {
  constexpr std::int64_t kNsPerNumber = 1'000;
  const std::int64_t lived_ns = std::max(system_now_ns(), last_used_ns) - created_ns;
  events_.begin_after(static_cast<std::uint64_t>(std::max<std::int64_t>(lived_ns, 0) / kNsPerNumber));
}

void Session::tell(std::string state, std::string reason) {
  events_.append({.type = EventType::session, .text = std::move(reason), .state = std::move(state)});
}

void Session::warn_of_expiry() {
  if (warned_ns_ == expires_ns()) return;
  warned_ns_ = expires_ns();
  tell("expiring", "it ends within a minute unless it is used");
}

void Session::charge(std::chrono::microseconds least) {
  auto used = interpreter_ ? interpreter_->group_cpu_us() : cgroup_.read_cpu_us();
  if (current_ && current_->stage() == RunStage::running) {  // what it uses itself will be in its record
    if (!interpreter_) return;
    used = interpreter_->cpu_before_cell_us();
  }
  if (!used || *used < told_cpu_us_ + static_cast<std::uint64_t>(least.count())) return;
  const std::uint64_t more = *used - std::exchange(told_cpu_us_, *used);
  if (on_cpu_used) on_cpu_used(*this, more);
}

void Session::stop_between_runs() {
  if (!current_ && queue_.empty() && !opening_ && interpreter_) interpreter_->cancel();
}

void Session::refuse_queued(const Error& why) {
  for (auto& waiting : std::exchange(queue_, {})) waiting.run->fail({.error = why});
}

void Session::submit(std::shared_ptr<LiveRun> run, CellTask task) {
  touch();
  if (ended_) {
    run->queue(nullptr);
    return run->fail({.error = ended_before()});
  }
  const std::weak_ptr<Session> weak = weak_from_this();
  run->cancel = [weak, id = run->identity().id] {
    if (const auto self = weak.lock()) self->cancel_run(id);
  };
  run->give_tool_result = [weak, id = run->identity().id](const std::string& call_id, bool ok,
                                                          std::string text) -> Result<void> {
    const auto self = weak.lock();
    if (!self || !self->interpreter_ || !self->current_ || self->current_->identity().id != id) {
      return make_error(ErrorCode::not_found, "no call of this id is pending");
    }
    return self->interpreter_->answer_tool_call(call_id, ok, std::move(text));
  };
  run->queue(&events_);
  queue_.push_back({.run = std::move(run), .task = std::move(task)});
  if (std::exchange(working_, true)) return;
  net::co_spawn(engine_.executor(), work(shared_from_this()), net::detached);
}

// What comes then is not the code's doing, and its interpreter waits for the next cell already.
bool Session::current_cell_is_over() const {
  return current_ && current_->stage() == RunStage::running && cell_over_.is_set();
}

void Session::cancel_run(const std::string& id) {
  if (current_ && current_->identity().id == id) {
    if (current_cell_is_over()) return;  // only its files are looked at and saved
    if (std::exchange(current_->cancel_asked, true)) return;
    if (turn_ != nullptr) return engine_.give_up(*turn_);
    if (current_->stage() != RunStage::running) return;  // it does not begin: enter() looks
    net::co_spawn(engine_.executor(), stop_run(shared_from_this(), current_), net::detached);
    return;
  }
  const auto found = std::ranges::find_if(queue_, [&](const Waiting& one) { return one.run->identity().id == id; });
  if (found == queue_.end()) return;
  const auto cancelled = found->run;
  queue_.erase(found);
  cancelled->fail({.error = cancelled_before()});
}

// An interrupt that comes a moment before the cell begins is not heard, so that once is not enough; one that comes too
// soon after another disturbs what the code does to leave in order. Code that does not listen loses its interpreter.
net::awaitable<void> Session::stop_run(std::shared_ptr<Session> self, std::shared_ptr<LiveRun> run) {
  const auto goes_on = [&] { return self->current_ == run && !self->current_cell_is_over(); };
  for (auto pause = kFirstPause; goes_on() && pause <= kLongestPause; pause *= 2) {
    self->interrupt();
    co_await run->wait_finished(Clock::now() + pause);
  }
  if (goes_on() && self->interpreter_) self->interpreter_->cancel();
}

net::awaitable<void> Session::work(std::shared_ptr<Session> self) {
  while (!self->queue_.empty() && !self->ended_) {
    Waiting one = std::move(self->queue_.front());
    self->queue_.pop_front();
    self->current_ = one.run;
    try {
      co_await self->run_one(one);
    } catch (const std::exception& error) {  // out of memory
      const auto& identity = one.run->identity();
      log::error("run lost", {{"request", identity.request_id},
                              {"session", identity.session_id},
                              {"run", identity.id},
                              {"error", error.what()}});
      if (one.run->stage() != RunStage::finished) one.run->fail({.error = could_not_go_on()});
    }
    self->current_.reset();
    self->touch();
    self->tell_of_change();
  }
  self->working_ = false;
}

void Session::tell_of_change() {
  try {
    if (on_changed && !ended_) on_changed(*this);
  } catch (const std::exception& error) {  // the next run tells of the next one
    log::error("session not stored", {{"session", settings_.id}, {"error", error.what()}});
  }
}

// An interpreter that lives, and a place for its cell. One may die while the run waits for its place: then the next one
// is waited for, though not for ever.
net::awaitable<std::expected<void, StartFailure>> Session::prepare(Waiting& one) {
  const std::uint64_t before = sandbox_;
  for (int tries = 0; tries < kMostInterpreters; ++tries) {
    if (interpreter_ && !interpreter_->usable()) {
      const auto last = interpreter_gone_;
      co_await last->wait();
    }
    if (!interpreter_ || opening_) {
      auto opened = co_await open();
      const bool kept = (before != 0 && sandbox_ == before) || settings_.persist;
      one.run->session_state = kept && !ended_ ? "files_kept" : "lost";
      if (!opened) co_return opened;
    }
    if (workspace_ && std::exchange(files_touched_, false)) co_await look_at_files();
    if (!co_await enter(one.task)) {
      one.run->session_state = "kept";
      co_return std::unexpected(StartFailure{.error = ended_ ? ended_before() : cancelled_before()});
    }
    if (interpreter_ && interpreter_->usable() && !opening_) {
      cell_record_.reset();
      cell_exits_ = false;
      cell_over_.reset();  // only now: the end of another interpreter sets it, too
      co_return std::expected<void, StartFailure>{};
    }
    engine_.leave_unused(owner_);
  }
  co_return std::unexpected(
      StartFailure{.error = make_error(ErrorCode::internal, "the interpreter dies before anything can run in it")});
}

net::awaitable<void> Session::run_one(Waiting& one) {
  if (auto prepared = co_await prepare(one); !prepared) {
    one.run->fail(prepared.error());
    co_return;
  }
  const auto interpreter = interpreter_;  // which may be gone when its cell is over
  const auto gone = interpreter_gone_;
  begin(one, *interpreter);
  co_await cell_over_.wait();
  wire::Record record;
  if (cell_record_) {
    record = std::move(*cell_record_);
    if (cell_exits_ || !interpreter->usable()) {  // the program ended its interpreter, or somebody does
      co_await gone->wait();
      one.run->session_state = sandbox_ != 0 || settings_.persist ? "files_kept" : "lost";
    }
    if (one.run->session_state.empty()) one.run->session_state = "kept";
  } else {
    co_await gone->wait();
    if (!last_words_ || !*last_words_) {
      one.run->session_state = sandbox_ != 0 ? "files_kept" : "lost";
      one.run->fail(last_words_ ? last_words_->error()
                                : StartFailure{.error = make_error(ErrorCode::internal, "the interpreter is gone")});
      co_return;
    }
    record = std::move(**last_words_);
    one.run->session_state = sandbox_ != 0 || settings_.persist ? "files_kept" : "lost";
  }
  told_cpu_us_ += record.usage.cpu_us;
  if (record.error) record.error->state = one.run->session_state;
  if (one.run->cancel_asked) note_cancelled(record);
  co_await collect(*one.run, record);
  if (const auto saved = co_await save(); !saved) {  // otherwise what the client hears of survives us
    record.notices.push_back("the files could not be saved: " + saved.error().message +
                             "; if the daemon restarts, the session has those of the last time");
  }
  touch();
  one.run->session_expires_ns = expires_ns();
  if (record.execution_count != 0) execution_count = record.execution_count;
  one.run->finish(std::move(record));
}

// The place is the cell's from here on, or given back.
void Session::begin(Waiting& one, Run& interpreter) {
  try {
    if (!one.run->is_command) one.run->execution_count = ++execution_count;
    one.run->start();
    engine_.begin_cell(interpreter, std::move(one.task), owner_);
  } catch (...) {
    engine_.leave_unused(owner_);
    throw;
  }
}

// A cancellation may come while there is no turn to give up: while the interpreter starts, or between the moment in
// which the place is given and the one in which we hear of it.
net::awaitable<bool> Session::enter(CellTask& task) {
  const auto unwanted = [this] { return ended_ || current_->cancel_asked; };
  if (unwanted()) co_return false;
  Admission::Turn turn(engine_.executor());
  turn_ = &turn;
  bool entered = false;
  try {
    entered = co_await engine_.enter_for_cell(task, owner_, turn);
  } catch (...) {
    turn_ = nullptr;
    throw;
  }
  turn_ = nullptr;
  if (!entered || !unwanted()) co_return entered;
  engine_.leave_unused(owner_);
  co_return false;
}

UniqueFd Session::share_workspace() const { return UniqueFd{::fcntl(workspace_.get(), F_DUPFD_CLOEXEC, 0)}; }

// What others than the program did to the files is not the next cell's doing.
net::awaitable<void> Session::look_at_files() {
  const UniqueFd workspace = share_workspace();
  if (!workspace) co_return;
  const std::uint64_t sandbox = sandbox_;
  Census known = std::exchange(known_files_, nothing_known());  // should it fail, nobody knows any more
  co_await engine_.workers().run(
      owner_, [&workspace, &known] { return collect_changes(workspace.get(), known, Look::stamps, Bytes{0}); });
  if (sandbox == sandbox_) known_files_ = std::move(known);
}

// What the cell did to the files. Most do nothing, and that is told without a walk.
net::awaitable<void> Session::collect(LiveRun& run, wire::Record& record) {
  if (!workspace_ || (known_files_.is_of_nothing() && is_empty(workspace_.get()))) co_return;
  const auto begin = Clock::now();
  const UniqueFd workspace = share_workspace();
  if (!workspace) {  // we have no more descriptors: what there is is not known, and not lost either
    unsaved_ = true;
    record.files_truncated = true;
    co_return;
  }
  Census known = std::exchange(known_files_, nothing_known());
  Collection changed = co_await engine_.workers().run(owner_, [&workspace, &known, scratch = limits_.scratch] {
    return collect_changes(workspace.get(), known, Look::content, scratch);
  });
  known_files_ = std::move(known);
  unsaved_ = unsaved_ || !changed.files.empty() || changed.truncated;
  record.files_truncated = changed.truncated;
  record.usage.scratch_used = changed.scratch_used;
  const auto took =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count());
  record.phases.collection_us += took;
  record.phases.total_us += took;
  for (auto& file : changed.files) run.add_file(std::move(file.entry));
}

void Session::on_output(wire::OutputEvent event) {
  if (current_) current_->add_output(event);  // what a thread prints between runs belongs to none
}

void Session::on_file(CollectedFile) {}

void Session::on_cell_done(wire::CellStatus status, wire::Record record) {
  cell_record_ = std::move(record);
  cell_exits_ = status == wire::CellStatus::exit;
  cell_over_.set();
}

void Session::on_input_wanted() {
  if (current_) current_->want_input();
}

void Session::on_tool_call(std::shared_ptr<const PendingToolCall> call) {
  if (current_) current_->add_tool_call(std::move(call));
}

void Session::on_tool_call_done(const std::string& call_id, ToolCallEnd how) {
  if (current_) current_->end_tool_call(call_id, how);
}

std::optional<std::uint64_t> Session::peak_memory() const {
  return interpreter_ ? interpreter_->peak_memory() : std::nullopt;
}

bool Session::interrupt() {
  if (!current_ || !interpreter_ || turn_ != nullptr || current_cell_is_over()) return false;
  interpreter_->interrupt();
  return true;
}

net::awaitable<std::expected<void, StartFailure>> Session::restart() {
  touch();
  const auto self = shared_from_this();
  while (const auto others = opening_) co_await others->over.wait();  // whoever opened it is to have it, for a moment
  const auto running = current_;
  const auto last = interpreter_gone_;
  if (interpreter_) {
    interpreter_->cancel();
    co_await last->wait();
  }
  if (running) co_await running->wait_finished(Clock::now() + kEndTime);
  if (ended_) co_return std::unexpected(StartFailure{.error = ended_before()});
  if (interpreter_ || working_) co_return std::expected<void, StartFailure>{};  // the next run has one, or starts one
  co_return co_await open();
}

Result<void> Session::give_input(std::string_view text) {
  if (!current_ || !interpreter_) return make_error(ErrorCode::invalid_argument, "nothing runs that could read it");
  return interpreter_->give_input(text);
}

net::awaitable<Result<std::string>> Session::ask(wire::Ask question) {
  const auto self = shared_from_this();
  touch();
  if (current_ || !queue_.empty() || working_) co_return make_error(ErrorCode::limit, "something is running");
  if (interpreter_ && !interpreter_->usable()) {
    const auto last = interpreter_gone_;
    co_await last->wait();
  }
  if (!interpreter_ || opening_) {
    if (auto opened = co_await open(); !opened) co_return opened.error().error;
  }
  const auto interpreter = interpreter_;
  if (!interpreter) co_return make_error(ErrorCode::disconnected, "the interpreter is gone");
  co_return co_await interpreter->ask(std::move(question));
}

net::awaitable<void> Session::end(std::string reason) {
  const auto self = shared_from_this();
  if (std::exchange(ended_, true)) co_return;
  refuse_queued(ended_before());
  if (turn_ != nullptr) engine_.give_up(*turn_);
  charge(std::chrono::microseconds(1));
  co_await stop_interpreter();
  lose_sandbox();
  tell("ended", std::move(reason));
  events_.close();
}

}  // namespace hutch
