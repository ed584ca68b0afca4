#include "session/engine.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/detached.hpp>

#include "base/log.h"
#include "base/utf8.h"
#include "sandbox/seccomp_filter.h"

namespace hutch {
namespace {

constexpr std::size_t kMostCode = 16U << 20;
constexpr std::size_t kMostArguments = 1'000;
constexpr std::size_t kMostVariables = 200;
constexpr std::size_t kLongestText = 128 << 10;      // of one argument or variable, as execve would have it
constexpr std::size_t kMostEnvironment = 256 << 10;  // names and values; a session keeps them as long as it lives

Error bad(std::string message, std::string hint = {}) {
  return make_error(ErrorCode::invalid_argument, std::move(message)).with_hint(std::move(hint));
}

Result<void> check_environment(const wire::Environment& environment) {
  if (environment.size() > kMostVariables) return bad("more than 200 environment variables");
  std::size_t total = 0;
  for (const auto& [name, value] : environment) {
    if (name.empty() || name.find_first_of(std::string_view("=\0", 2)) != std::string::npos ||
        value.find('\0') != std::string::npos) {
      return bad("not an environment variable: " + printable(name), "write --env NAME=VALUE");
    }
    if (name.size() + value.size() > kLongestText) return bad("environment variable too long: " + printable(name));
    total += name.size() + value.size();
  }
  if (total > kMostEnvironment) return bad("the environment variables have more than 256 KiB");
  return {};
}

Result<Step> step_named(const std::string& name) {
  if (name.empty()) return Step::none;
  const auto* found = std::ranges::find(kStepNames, name);
  if (found == kStepNames.end()) return bad("no set-up step is called " + printable(name));
  return static_cast<Step>(found - kStepNames.begin());
}

Limits limits_of(const wire::RunLimits& asked) {
  return LimitNumbers{.wall_ms = asked.wall_ms,
                      .cpu_ms = asked.cpu_ms,
                      .memory = asked.memory,
                      .scratch = asked.scratch,
                      .output = asked.output,
                      .cpu_percent = asked.cpu_percent,
                      .processes = asked.processes,
                      .open_files = asked.open_files,
                      .inodes = asked.inodes}
      .to_limits();
}

PoolOptions pool_options(PoolOptions options, const KeeperHello& hello) {
  options.weaker_limits = hello.cgroup.empty();
  return options;
}

}  // namespace

Engine::Engine(net::any_io_executor executor, KeeperHandle keeper, EngineOptions options)
    : executor_(executor),
      keeper_(executor, std::move(keeper)),
      options_(std::move(options)),
      admission_(executor, options_.admission),
      pool_(executor, keeper_, options_.templates.size(), pool_options(options_.pool, keeper_.hello())) {
  keeper_.on_gone = [this] { admission_.note_dying(keeper_.dying()); };
}

Result<void> Engine::validate_request(RunSpec& spec) const {
  const auto& request = spec.request;
  const auto found = std::ranges::find(options_.templates, request.template_name, &Template::name);
  if (found == options_.templates.end()) {
    std::string known;
    for (const auto& entry : options_.templates) known += (known.empty() ? "" : ", ") + entry.name;
    return make_error(ErrorCode::not_found, "no template is called " + printable(request.template_name))
        .with_hint("ready to use: " + known);
  }
  spec.template_index = static_cast<std::uint32_t>(found - options_.templates.begin());
  spec.limits = limits_of(request.limits);
  HUTCH_TRY(validate(spec.limits, options_.ceiling));
  HUTCH_TRY(spec.fault, step_named(request.fault));
  if (request.code.size() > kMostCode) return bad("the program is longer than 16 MiB", "put data into files with --in");
  if (request.arguments.size() > kMostArguments) return bad("more than 1,000 arguments");
  for (const auto& argument : request.arguments) {
    if (argument.size() > kLongestText || argument.find('\0') != std::string::npos) return bad("not an argument");
  }
  HUTCH_TRY(check_environment(request.environment));
  std::uint64_t total = 0;
  for (const auto& file : spec.files) {
    HUTCH_TRY(check_workspace_path(file.path));
    total += file.data.size();
  }
  if (total > spec.limits.scratch.count) {
    return bad("the files put in are larger than the scratch space", "ask for more with --scratch");
  }
  if (!request.weaker_limits && keeper_.hello().cgroup.empty()) {
    return make_error(ErrorCode::unsupported, "the limits cannot be enforced here: " + keeper_.hello().cgroup_problem)
        .with_hint(keeper_.hello().cgroup_hint +
                   "\nor accept rlimits and a watchdog instead: hutch run --weaker-limits ...");
  }
  struct stat input{};
  // Anything else could be a door to the host.
  if (!spec.input || ::fstat(spec.input.get(), &input) != 0 || !S_ISFIFO(input.st_mode)) {
    return bad("the request came without a pipe for standard input");
  }
  return {};
}

Result<std::shared_ptr<Run>> Engine::admit(RunSpec spec, RunSink& sink) {
  const auto begin = Clock::now();
  HUTCH_TRY(validate_request(spec));
  spec.validation_us =
      static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count());
  return std::make_shared<Run>(executor_, keeper_, pool_, workers_, std::move(spec), sink);
}

StartFailure Engine::at_capacity(std::string what) const {
  const auto retry = admission_.retry_after();
  return {.error = make_error(ErrorCode::limit, std::move(what))
                       .with_hint("try again in " + std::to_string((retry.count() + 999) / 1000) + " s"),
          .retry_after = retry};
}

std::optional<StartFailure> Engine::refusal() const {
  if (admission_.waiting() < options_.admission.most_waiting) return std::nullopt;
  return full();
}

StartFailure Engine::full() const {
  return at_capacity("the engine is at capacity: " + std::to_string(admission_.running()) + " run and " +
                     std::to_string(admission_.waiting()) + " wait");
}

net::awaitable<std::expected<wire::Record, StartFailure>> Engine::execute(std::shared_ptr<Run> run,
                                                                          Admission::Owner owner) {
  ++runs_;
  run->owner = owner;
  if (run->is_shell()) {  // takes a place only while a cell runs
    if (sessions_ >= options_.most_sessions) {
      auto full = at_capacity(std::to_string(sessions_) + " shells are open, and no more may be");
      co_return std::unexpected(run->refuse(std::move(full)));
    }
    if (!admission_.may_enter(owner)) run->stand_back();
    ++sessions_;
    auto record = co_await execute_or_fail(run);
    --sessions_;
    co_return record;
  }
  const auto arrived = Clock::now();
  if (!admission_.try_enter(owner)) {
    run->stand_back();
    Admission::Turn turn(executor_);
    run->on_cancelled = [this, &turn] { admission_.give_up(turn); };
    bool entered = false;
    try {
      entered = co_await admission_.enter(owner, turn);
    } catch (...) {
      run->on_cancelled = nullptr;
      throw;
    }
    run->on_cancelled = nullptr;
    if (!entered) co_return std::unexpected(run->failure().value_or(full()));
  }
  const auto begin = Clock::now();
  run->note_wait(begin - arrived, admission_.waiting() > 0 || admission_.running() > options_.pool.cores);
  auto record = co_await execute_or_fail(run);
  leave(owner, begin);
  co_return record;
}

// Whoever called has something to give back afterwards, also when there was no memory for what is between. It is no
// guard that gives it back: at the end of the daemon frames go that wait here, and we are gone before them.
net::awaitable<std::expected<wire::Record, StartFailure>> Engine::execute_or_fail(std::shared_ptr<Run> run) {
  try {
    if (!run->is_shell()) {
      mind_processors();
      pool_.note_load(admission_.running());
      if (run->on_placed) run->on_placed();
    }
    co_return co_await run->execute();
  } catch (const std::exception& error) {
    const auto& ids = run->ids();
    log::error("run not executed",
               {{"request", ids.request}, {"session", ids.session}, {"run", ids.run}, {"error", error.what()}});
    co_return std::unexpected(StartFailure{.error = could_not_go_on()});
  }
}

net::awaitable<bool> Engine::enter_for_cell(CellTask& task, Admission::Owner owner, Admission::Turn& turn) {
  task.arrived = Clock::now();  // it may have waited for the cell before it
  if (admission_.try_enter(owner)) co_return true;
  task.waited = true;
  co_return co_await admission_.enter_again(owner, turn);
}

void Engine::run_cell(std::shared_ptr<Run> run, CellTask task, Admission::Owner owner) {
  task.arrived = Clock::now();
  if (admission_.try_enter(owner)) return begin_cell(*run, std::move(task), owner);
  const auto wait = [](Engine& engine, std::shared_ptr<Run> shell, CellTask what,
                       Admission::Owner whose) -> net::awaitable<void> {
    Admission::Turn turn(engine.executor_);
    if (co_await engine.enter_for_cell(what, whose, turn)) engine.begin_cell(*shell, std::move(what), whose);
  };
  net::co_spawn(executor_, wait(*this, std::move(run), std::move(task), owner), net::detached);
}

void Engine::begin_cell(Run& run, CellTask task, Admission::Owner owner) {
  mind_processors();
  pool_.note_load(admission_.running());
  run.run_cell(std::move(task), [this, owner, begin = Clock::now()] { leave(owner, begin); });
}

net::awaitable<Result<std::uint64_t>> Engine::measure_fork(std::string template_name) {
  const auto found = std::ranges::find(options_.templates, template_name, &Template::name);
  const auto index = static_cast<std::uint32_t>(found - options_.templates.begin());
  const std::uint64_t ns = found == options_.templates.end() ? 0 : co_await keeper_.measure_fork(index);
  if (ns == 0)
    co_return make_error(ErrorCode::not_found, "no warm interpreter of template " + printable(template_name));
  co_return ns;
}

void Engine::leave(Admission::Owner owner, Clock::time_point since) {
  admission_.leave(owner, Clock::now() - since);
  admission_.note_dying(keeper_.dying());
  pool_.note_load(admission_.running());
  mind_processors();
}

void Engine::mind_processors() {
  const bool spare = admission_.some_ask_for_little();
  if (std::exchange(spares_some_, spare) == spare) return;
  keeper_.spare({.processors = spare});
  workers_.keep_apart(spare);
}

wire::EngineStatus Engine::status() const {
  wire::EngineStatus status{.pid = static_cast<std::uint32_t>(::getpid()),
                            .runs = runs_,
                            .running = admission_.running(),
                            .waiting = admission_.waiting(),
                            .most_running = admission_.most_running(),
                            .sessions = sessions_,
                            .dying = static_cast<std::uint32_t>(keeper_.dying_or_asleep()),
                            .filter = filter_hash()};
  status.uptime_ms = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - started_).count());
  const auto pool = pool_.counts();
  status.pool_ready = pool.ready;
  status.pool_hits = pool.hits;
  status.pool_misses = pool.misses;
  for (const auto& entry : options_.templates) status.templates.push_back(entry.name);
  const auto& hello = keeper_.hello();
  status.limits = hello.cgroup.empty() ? "none: " + hello.cgroup_problem : hello.cgroup;
  return status;
}

}  // namespace hutch
