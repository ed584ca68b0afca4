// How a session gets its sandbox and its interpreters, and how it loses them.
#include <fcntl.h>
#include <unistd.h>

#include <boost/asio/detached.hpp>

#include "base/log.h"
#include "session/session.h"

namespace hutch {
namespace {

// A zygote that died while it forked has a successor, and a sandbox whose init is being killed is gone a moment later.
bool may_pass(const StartFailure& failure) {
  const bool ours = failure.error.code == ErrorCode::internal || failure.error.code == ErrorCode::system;
  return ours && !failure.sandbox_gone && failure.retry_after.count() == 0;
}

}  // namespace

Error Session::ended_before() { return make_error(ErrorCode::disconnected, "the session ended before it could run"); }

// Whoever comes while it is being opened waits for the same, and is told the same.
net::awaitable<std::expected<void, StartFailure>> Session::open() {
  const auto self = shared_from_this();
  if (const auto others = opening_) {
    co_await others->over.wait();
    if (ended_) co_return std::unexpected(StartFailure{.error = ended_before()});
    co_return others->result;
  }
  const auto ours = std::make_shared<Opening>(engine_.executor());
  opening_ = ours;
  try {
    ours->result = co_await open_once();
  } catch (const std::exception& error) {  // whoever waits for the same is not to wait for ever
    log::error("session not opened", {{"session", settings_.id}, {"error", error.what()}});
    ours->result = std::unexpected(StartFailure{.error = could_not_go_on()});
  }
  opening_.reset();
  ours->over.set();
  co_return ours->result;
}

// In the sandbox that there is, if there is one. Only what the keeper calls gone is given up: any other failure leaves
// the files where they are, for the next try.
net::awaitable<std::expected<void, StartFailure>> Session::open_once() {
  const bool first = sandbox_ == 0;
  bool was_lost = false;
  auto started = co_await start_interpreter();
  if (!started && sandbox_ != 0 && may_pass(started.error())) started = co_await start_interpreter();
  if (!started && started.error().sandbox_gone) {
    log::warning("sandbox gone", {{"session", settings_.id}});
    was_lost = true;
    lose_sandbox();
    started = co_await start_interpreter();
  }
  if (!started) co_return started;
  if (sandbox_ != 0 && !workspace_) {  // no descriptor for it: nobody would notice that there is something to save
    co_await stop_interpreter();
    lose_sandbox();
    co_return std::unexpected(StartFailure{.error = make_error(ErrorCode::system, "too many open files")});
  }
  lost_ = false;
  if (!has_files_) {
    if (auto brought = co_await bring_back_files(); !brought) {
      // Never with an empty workspace, which would be saved over what could not be brought back.
      co_await stop_interpreter();
      lose_sandbox();
      co_return std::unexpected(StartFailure{.error = ended_ ? ended_before() : brought.error()});
    }
    has_files_ = sandbox_ != 0;
  }
  if (ended_) co_return std::unexpected(StartFailure{.error = ended_before()});
  if (!interpreter_) {  // it did not live to see its files
    co_return std::unexpected(StartFailure{.error = make_error(ErrorCode::internal, "the interpreter died")});
  }
  tell(first ? "ready" : "restarted", first ? "" : what_is_left(was_lost));
  co_return std::expected<void, StartFailure>{};
}

std::string Session::what_is_left(bool sandbox_was_lost) const {
  if (!sandbox_was_lost) return "a new interpreter; variables are gone, files are kept";
  return settings_.persist ? "a new sandbox; variables are gone, files are those that were saved"
                           : "a new sandbox; variables and files are gone";
}

// The first makes the sandbox, the next ones go into it. None for a session that has ended: whoever ends it waits for
// the interpreters that it sees.
net::awaitable<std::expected<void, StartFailure>> Session::start_interpreter() {
  if (ended_) co_return std::unexpected(StartFailure{.error = ended_before()});
  int pipe[2];
  if (::pipe2(pipe, O_CLOEXEC) != 0) co_return std::unexpected(StartFailure{.error = system_error(errno)});
  input_.reset(pipe[1]);
  RunSpec spec{.request = {.template_name = settings_.template_name,
                           .mode = settings_.mode,
                           .environment = settings_.environment,
                           .limits = settings_.limits,
                           .weaker_limits = settings_.weaker_limits},
               .input = UniqueFd{pipe[0]},
               .lasting = sandbox_ == 0,
               .into = sandbox_,
               .cgroup = std::move(cgroup_),
               .tell_all = true,
               .ids = {.session = settings_.id}};
  auto run = engine_.admit(std::move(spec), *this);
  if (!run) co_return std::unexpected(StartFailure{.error = run.error()});
  last_words_.reset();
  const auto gone = std::make_shared<Event>(engine_.executor());
  interpreter_gone_ = gone;
  interpreter_ = *run;
  try {
    net::co_spawn(
        engine_.executor(),
        [](std::shared_ptr<Session> self, std::shared_ptr<Run> interpreter,
           std::shared_ptr<Event> end) -> net::awaitable<void> {
          co_await self->host(std::move(interpreter), std::move(end));
        }(shared_from_this(), *run, gone),
        net::detached);
  } catch (...) {  // out of memory: it never begins, and nobody is to take it for one that does
    interpreter_.reset();
    throw;
  }
  const bool ready = co_await (*run)->wait_until_ready();
  if (ready && sandbox_ == 0) adopt_sandbox(**run);  // even if it is to go at once: it is ours to release
  if (ready && interpreter_ && !ended_) co_return std::expected<void, StartFailure>{};
  co_await gone->wait();
  if (ended_) {
    lose_sandbox();
    co_return std::unexpected(StartFailure{.error = ended_before()});
  }
  if (last_words_ && !*last_words_) co_return std::unexpected(last_words_->error());
  co_return std::unexpected(StartFailure{.error = make_error(ErrorCode::internal, "the interpreter did not start")});
}

void Session::adopt_sandbox(const Run& interpreter) {
  sandbox_ = interpreter.sandbox();
  template_index_ = interpreter.template_index();
  limits_ = interpreter.limits();
  told_cpu_us_ = interpreter.group_cpu_us().value_or(0);
  workspace_.reset(::fcntl(interpreter.workspace(), F_DUPFD_CLOEXEC, 0));
}

net::awaitable<void> Session::stop_interpreter() {
  while (interpreter_) {
    const auto gone = interpreter_gone_;
    interpreter_->cancel();
    co_await gone->wait();
  }
}

net::awaitable<void> Session::host(std::shared_ptr<Run> interpreter, std::shared_ptr<Event> gone) {
  try {
    last_words_ = co_await engine_.execute(interpreter, owner_);
  } catch (const std::exception& error) {  // whoever waits for its end is not to wait for ever
    log::error("interpreter lost", {{"session", settings_.id}, {"error", error.what()}});
    last_words_ = std::unexpected(StartFailure{.error = could_not_go_on()});
  }
  cgroup_ = interpreter->take_handle();
  if (interpreter_ == interpreter) interpreter_.reset();
  if (!engine_.keeps_files()) lose_sandbox();  // without control groups a sandbox dies with its interpreter
  gone->set();
  cell_over_.set();
}

void Session::lose_sandbox() {
  if (sandbox_ == 0) return;
  charge(std::chrono::microseconds(1));
  engine_.release(sandbox_);
  sandbox_ = 0;
  has_files_ = false;
  workspace_.reset();
  porters_.clear();
  known_files_ = {};
  cgroup_ = {};
  lost_ = !settings_.persist;
}

}  // namespace hutch
