#include "session/session.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/detached.hpp>

namespace hutch {
namespace {

constexpr auto kEndTime = std::chrono::seconds(10);
constexpr auto kFirstPause = std::chrono::milliseconds(250);
constexpr auto kLongestPause = std::chrono::milliseconds(2'000);
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

}  // namespace

Session::Session(Engine& engine, SessionSettings settings, Admission::Owner owner)
    : engine_(engine),
      settings_(std::move(settings)),
      owner_(owner),
      events_(engine.executor(), kEventBytes),
      cell_over_(engine.executor()),
      interpreter_gone_(engine.executor()),
      opened_(engine.executor()),
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

void Session::tell(std::string state, std::string reason) {
  events_.append({.type = EventType::session, .text = std::move(reason), .state = std::move(state)});
}

void Session::warn_of_expiry() {
  if (warned_ns_ == expires_ns()) return;
  warned_ns_ = expires_ns();
  tell("expiring", "it ends within a minute unless it is used");
}

// Whoever comes while it is being opened waits for the same.
net::awaitable<std::expected<void, StartFailure>> Session::open() {
  const auto self = shared_from_this();
  if (opening_) {
    co_await opened_.wait();
    if (interpreter_) co_return std::expected<void, StartFailure>{};
    co_return std::unexpected(StartFailure{.error = make_error(ErrorCode::internal, "the interpreter did not start")});
  }
  opening_ = true;
  opened_.reset();
  auto result = co_await open_once();
  opening_ = false;
  opened_.set();
  co_return result;
}

net::awaitable<std::expected<void, StartFailure>> Session::open_once() {
  const bool fresh = sandbox_ == 0;
  auto started = co_await start_interpreter();
  if (!started && !fresh && sandbox_ != 0) {  // the sandbox itself is gone, not only what ran in it
    lose_sandbox();
    started = co_await start_interpreter();
  }
  if (!started) co_return started;
  lost_ = false;
  if (fresh || known_files_.empty()) {
    std::error_code ignored;
    if (settings_.persist && fresh && std::filesystem::exists(settings_.saved_files, ignored)) {
      if (auto restored = co_await restore(); !restored) {
        // Never with an empty workspace, which would be saved over what could not be brought back.
        if (interpreter_) {
          interpreter_->cancel();
          co_await interpreter_gone_.wait();
        }
        lose_sandbox();
        co_return std::unexpected(StartFailure{.error = restored.error()});
      }
    }
  }
  tell(fresh ? "ready" : "restarted", fresh ? "" : "a new interpreter; variables are gone, files are kept");
  co_return std::expected<void, StartFailure>{};
}

// The first makes the sandbox, the next ones go into it.
net::awaitable<std::expected<void, StartFailure>> Session::start_interpreter() {
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) co_return std::unexpected(StartFailure{.error = system_error(errno)});
  input_.reset(pipe[1]);
  ::fcntl(pipe[1], F_SETFL, O_NONBLOCK);
  RunSpec spec{.request = {.template_name = settings_.template_name,
                           .mode = settings_.mode,
                           .environment = settings_.environment,
                           .limits = settings_.limits,
                           .weaker_limits = settings_.weaker_limits},
               .input = UniqueFd{pipe[0]},
               .lasting = sandbox_ == 0,
               .into = sandbox_,
               .cgroup = std::move(cgroup_),
               .tell_all = true};
  auto run = engine_.admit(std::move(spec), *this);
  if (!run) co_return std::unexpected(StartFailure{.error = run.error()});
  last_words_.reset();
  interpreter_gone_.reset();
  interpreter_ = *run;
  net::co_spawn(
      engine_.executor(),
      [](std::shared_ptr<Session> self, std::shared_ptr<Run> interpreter) -> net::awaitable<void> {
        co_await self->host(std::move(interpreter));
      }(shared_from_this(), *run),
      net::detached);
  const bool ready = co_await (*run)->wait_until_ready();
  if (!ready || !interpreter_) {
    co_await interpreter_gone_.wait();
    if (last_words_ && !*last_words_) co_return std::unexpected(last_words_->error());
    co_return std::unexpected(StartFailure{.error = make_error(ErrorCode::internal, "the interpreter did not start")});
  }
  if (sandbox_ == 0) {
    sandbox_ = (*run)->sandbox();
    template_index_ = (*run)->template_index();
    limits_ = (*run)->limits();
    workspace_.reset(::fcntl((*run)->workspace(), F_DUPFD_CLOEXEC, 0));
  }
  co_return std::expected<void, StartFailure>{};
}

net::awaitable<void> Session::host(std::shared_ptr<Run> interpreter) {
  last_words_ = co_await engine_.execute(interpreter, owner_);
  cgroup_ = interpreter->take_handle();
  if (interpreter_ == interpreter) interpreter_.reset();
  if (!engine_.keeps_files()) lose_sandbox();  // without control groups a sandbox dies with its interpreter
  interpreter_gone_.set();
  cell_over_.set();
}

void Session::lose_sandbox() {
  if (sandbox_ == 0) return;
  engine_.release(sandbox_);
  sandbox_ = 0;
  workspace_.reset();
  porters_.clear();
  known_files_.clear();
  cgroup_ = {};
  lost_ = !settings_.persist;
}

void Session::submit(std::shared_ptr<LiveRun> run, CellTask task) {
  touch();
  const std::weak_ptr<Session> weak = weak_from_this();
  run->cancel = [weak, id = run->identity().id] {
    const auto self = weak.lock();
    if (!self) return;
    if (self->current_ && self->current_->identity().id == id) {
      if (std::exchange(self->current_->cancel_asked, true)) return;
      net::co_spawn(self->engine_.executor(), stop_run(self, self->current_), net::detached);
      return;
    }
    const auto found =
        std::ranges::find_if(self->queue_, [&](const Waiting& one) { return one.run->identity().id == id; });
    if (found == self->queue_.end()) return;
    const auto cancelled = found->run;
    self->queue_.erase(found);
    cancelled->fail({.error = make_error(ErrorCode::disconnected, "cancelled before it started")});
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

// An interrupt that comes a moment before the cell begins is not heard, so that once is not enough; one that comes too
// soon after another disturbs what the code does to leave in order. Code that does not listen loses its interpreter.
net::awaitable<void> Session::stop_run(std::shared_ptr<Session> self, std::shared_ptr<LiveRun> run) {
  for (auto pause = kFirstPause; self->current_ == run && pause <= kLongestPause; pause *= 2) {
    self->interrupt();
    co_await run->wait_finished(Clock::now() + pause);
  }
  if (self->current_ == run && self->interpreter_) self->interpreter_->cancel();
}

net::awaitable<void> Session::work(std::shared_ptr<Session> self) {
  while (!self->queue_.empty() && !self->ended_) {
    Waiting one = std::move(self->queue_.front());
    self->queue_.pop_front();
    self->current_ = one.run;
    co_await self->run_one(one);
    self->current_.reset();
    self->touch();
    if (self->on_changed && !self->ended_) self->on_changed(*self);
  }
  self->working_ = false;
}

net::awaitable<void> Session::run_one(Waiting& one) {
  if (workspace_ && std::exchange(files_touched_, false)) co_await look_at_files();
  if (interpreter_ && !interpreter_->usable()) co_await interpreter_gone_.wait();
  if (!interpreter_) {
    const bool had_sandbox = sandbox_ != 0;
    if (auto opened = co_await open(); !opened) {
      one.run->session_state = "lost";
      one.run->fail(opened.error());
      co_return;
    }
    one.run->session_state = had_sandbox || settings_.persist ? "files_kept" : "lost";
  }
  if (!one.run->is_command) one.run->execution_count = ++execution_count;
  one.run->start();
  cell_record_.reset();
  cell_exits_ = false;
  cell_over_.reset();
  engine_.run_cell(interpreter_, std::move(one.task), owner_);
  co_await cell_over_.wait();
  wire::Record record;
  if (cell_record_) {
    record = std::move(*cell_record_);
    if (cell_exits_) {  // the program ended its interpreter
      co_await interpreter_gone_.wait();
      one.run->session_state = sandbox_ != 0 || settings_.persist ? "files_kept" : "lost";
    }
    if (one.run->session_state.empty()) one.run->session_state = "kept";
  } else {
    co_await interpreter_gone_.wait();
    if (!last_words_ || !*last_words_) {
      one.run->session_state = sandbox_ != 0 ? "files_kept" : "lost";
      one.run->fail(last_words_ ? last_words_->error()
                                : StartFailure{.error = make_error(ErrorCode::internal, "the interpreter is gone")});
      co_return;
    }
    record = std::move(**last_words_);
    one.run->session_state = sandbox_ != 0 || settings_.persist ? "files_kept" : "lost";
  }
  if (record.error) record.error->state = one.run->session_state;
  if (one.run->cancel_asked) note_cancelled(record);
  co_await collect(*one.run, record);
  co_await save();  // what the client hears of survives us
  touch();
  one.run->session_expires_ns = expires_ns();
  if (record.execution_count != 0) execution_count = record.execution_count;
  one.run->finish(std::move(record));
}

UniqueFd Session::share_workspace() const { return UniqueFd{::fcntl(workspace_.get(), F_DUPFD_CLOEXEC, 0)}; }

// What others than the program did to the files is not the next cell's doing.
net::awaitable<void> Session::look_at_files() {
  const UniqueFd workspace = share_workspace();
  const std::uint64_t sandbox = sandbox_;
  FileStamps known = std::move(known_files_);
  co_await engine_.workers().run(
      [&workspace, &known] { return collect_changes(workspace.get(), known, Look::stamps, Bytes{0}); });
  if (sandbox == sandbox_) known_files_ = std::move(known);
}

// What the cell did to the files. Most do nothing, and that is told without a walk.
net::awaitable<void> Session::collect(LiveRun& run, wire::Record& record) {
  if (!workspace_ || (known_files_.empty() && is_empty(workspace_.get()))) co_return;
  const auto begin = Clock::now();
  const UniqueFd workspace = share_workspace();
  FileStamps known = std::move(known_files_);
  Collection changed = co_await engine_.workers().run([&workspace, &known, scratch = limits_.scratch] {
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
  if (!current_ || !interpreter_) return false;
  interpreter_->interrupt();
  return true;
}

net::awaitable<std::expected<void, StartFailure>> Session::restart() {
  touch();
  const auto self = shared_from_this();
  const auto running = current_;
  if (interpreter_) {
    interpreter_->cancel();
    co_await interpreter_gone_.wait();
  }
  if (running) co_await running->wait_finished(Clock::now() + kEndTime);
  if (interpreter_ || working_) co_return std::expected<void, StartFailure>{};  // the next run has one, or starts one
  co_return co_await open();
}

Result<void> Session::give_input(std::string_view text) {
  if (!current_ || !input_) return make_error(ErrorCode::invalid_argument, "nothing runs that could read it");
  const ssize_t written = ::write(input_.get(), text.data(), text.size());
  if (written == static_cast<ssize_t>(text.size())) return {};
  return make_error(ErrorCode::limit, "the program does not read its input, and no more fits")
      .with_hint("send less at once, or wait until it has read what was sent");
}

net::awaitable<Result<std::string>> Session::ask(wire::Ask question) {
  const auto self = shared_from_this();
  touch();
  if (current_ || !queue_.empty() || working_) co_return make_error(ErrorCode::limit, "something is running");
  if (!interpreter_ || !interpreter_->usable()) {
    if (auto opened = co_await open(); !opened) co_return opened.error().error;
  }
  const auto interpreter = interpreter_;
  if (!interpreter) co_return make_error(ErrorCode::disconnected, "the interpreter is gone");
  co_return co_await interpreter->ask(std::move(question));
}

net::awaitable<void> Session::end(std::string reason) {
  const auto self = shared_from_this();
  if (std::exchange(ended_, true)) co_return;
  for (auto& waiting : std::exchange(queue_, {})) {
    waiting.run->fail({.error = make_error(ErrorCode::disconnected, "the session ended before it could run")});
  }
  if (interpreter_) {
    interpreter_->cancel();
    co_await interpreter_gone_.wait();
  }
  lose_sandbox();
  tell("ended", std::move(reason));
  events_.close();
}

}  // namespace hutch
