#include "cli/bench_series.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <condition_variable>
#include <filesystem>
#include <memory>
#include <mutex>
#include <thread>

#include "base/subprocess.h"

namespace hutch {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC

constexpr int kCellsInARow = 9;

Error wrong_output(const std::string& output, const std::string& errors) {
  return make_error(ErrorCode::internal, fmt::format("printed {:?} and {:?}", output, errors));
}

Result<Took> time_command(const Command& command, const char* expected) {
  const auto start = Clock::now();
  HUTCH_TRY(const auto completed, run_checked(command));
  const auto took = Clock::now() - start;
  if (completed.output != expected) return wrong_output(completed.output, completed.errors);
  return took;
}

std::vector<StepTook> steps_of(const wire::Record& record) {
  std::vector<StepTook> steps;
  for (const auto& step : record.steps) {
    steps.push_back({.name = step.name, .took = std::chrono::microseconds(step.duration_us)});
  }
  return steps;
}

Result<Took> time_engine_call(EngineClient& client, const wire::RunRequest& request, const char* expected, Until until,
                              Seen seen) {
  ClientRun run{.request = request, .files = {}};
  Collected collected;
  const auto start = Clock::now();
  HUTCH_TRY(const auto outcome, client.run(std::move(run), collected));
  const auto took = Clock::now() - start;
  if (const auto* failed = std::get_if<wire::Failed>(&outcome)) {
    return make_error(ErrorCode::system, failed->message).with_hint(failed->hint);
  }
  if (collected.out != expected) return wrong_output(collected.out, collected.err);
  const auto& record = std::get<wire::Record>(outcome);
  if (!record.warm) return make_error(ErrorCode::internal, "the sandbox was started cold");
  if (seen == Seen::by_client) return took;
  if (until == Until::first_output) return Took{std::chrono::microseconds(collected.events.front().at_us)};
  return Took{std::chrono::microseconds(record.phases.total_us), steps_of(record)};
}

// From the record that `hutch run --json` prints.
Result<Took> read_record(const std::string& output, const char* expected) {
  const auto unreadable = [&] { return make_error(ErrorCode::internal, fmt::format("printed {:?}", output)); };
  boost::system::error_code failed;
  const auto value = boost::json::parse(output, failed);
  const auto* record = failed ? nullptr : value.if_object();
  const auto* printed = record == nullptr ? nullptr : record->if_contains("stdout");
  const auto* steps = record == nullptr ? nullptr : record->if_contains("steps");
  if (printed == nullptr || *printed != expected || steps == nullptr || !steps->is_array()) return unreadable();
  Took took{Nanoseconds{0}};
  for (const auto& step : steps->get_array()) {
    const auto* name = step.is_object() ? step.get_object().if_contains("name") : nullptr;
    const auto* ms = step.is_object() ? step.get_object().if_contains("ms") : nullptr;
    if (name == nullptr || !name->is_string() || ms == nullptr || !ms->is_number()) return unreadable();
    const std::chrono::duration<double, std::milli> duration(ms->to_number<double>(failed));
    took.steps.push_back({.name = std::string(name->get_string()), .took = std::chrono::round<Nanoseconds>(duration)});
    took.all += took.steps.back().took;
  }
  return took;
}

// What plain programs see: nothing of the user's that could slow them down.
std::vector<std::string> plain_environment(const Variables& variables = {}) {
  std::vector<std::string> list{"PATH=/usr/bin:/bin", "HOME=/", "LANG=C.UTF-8"};
  for (const auto& [name, value] : variables) list.push_back(name + "=" + value);
  return list;
}

// What `hutch` needs to find the same engine and templates as we do.
std::vector<std::string> hutch_environment() {
  std::vector<std::string> list;
  for (auto& entry : current_environment()) {
    if (entry.starts_with("HUTCH_") || entry.starts_with("XDG_") || entry.starts_with("HOME=")) {
      list.push_back(std::move(entry));
    }
  }
  list.emplace_back("PATH=/usr/bin:/bin");
  list.emplace_back("LANG=C.UTF-8");
  return list;
}

Command run_command_line(std::vector<std::string> arguments, const BenchProgram& program) {
  // In the child the link still leads to this very binary, even when another build has replaced it on the disk.
  std::vector<std::string> argv{"/proc/self/exe", "run", "-c", program.code};
  argv.insert(argv.end(), std::make_move_iterator(arguments.begin()), std::make_move_iterator(arguments.end()));
  return {.argv = std::move(argv), .environment = hutch_environment(), .directory = "/"};
}

// A shell that waits for its next cell in a thread of its own.
class LiveSession final : public ClientEvents {
 public:
  LiveSession(EngineClient client, wire::RunRequest request, Seen seen)
      : client_(std::move(client)),
        seen_(seen),
        thread_([this, request = std::move(request)]() mutable { serve(std::move(request)); }) {}
  ~LiveSession() override {
    {
      const std::scoped_lock lock(mutex_);
      state_ = State::leaving;
    }
    changed_.notify_all();
    thread_.join();
  }
  LiveSession(const LiveSession&) = delete;
  LiveSession& operator=(const LiveSession&) = delete;

  Result<Nanoseconds> run_cell() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return state_ != State::running; });
    if (state_ == State::over) return make_error(ErrorCode::disconnected, "the session has ended");
    state_ = State::running;
    changed_.notify_all();
    changed_.wait(lock, [this] { return state_ != State::running; });
    if (state_ == State::over) return make_error(ErrorCode::disconnected, "the session has ended");
    return took_;
  }

 private:
  enum class State { running, resting, leaving, over };

  void serve(wire::RunRequest request) {
    std::ignore = client_.run({.request = std::move(request), .files = {}}, *this);
    const std::scoped_lock lock(mutex_);
    state_ = State::over;
    changed_.notify_all();
  }

  void on_output(const wire::OutputEvent&) override {}
  void on_file(const wire::FileEntry&, UniqueFd) override {}
  void on_cell_done(const wire::CellReport& report) override {
    by_engine_ = std::chrono::microseconds(report.record.phases.total_us);
  }
  std::optional<wire::CellRequest> next_cell(std::optional<wire::CellStatus> last) override {
    const auto now = Clock::now();
    if (!last) return wire::CellRequest{.code = "x = 0"};
    std::unique_lock lock(mutex_);
    took_ = seen_ == Seen::by_client ? now - sent_ : by_engine_;
    if (state_ == State::running) state_ = State::resting;
    changed_.notify_all();
    changed_.wait(lock, [this] { return state_ != State::resting; });
    if (state_ == State::leaving || last != wire::CellStatus::ok) return std::nullopt;
    sent_ = Clock::now();
    return wire::CellRequest{.code = "x += 1"};
  }

  EngineClient client_;
  Seen seen_;
  std::mutex mutex_;
  std::condition_variable changed_;
  State state_ = State::running;  // the first cell is on its way
  Clock::time_point sent_;
  Nanoseconds by_engine_{0};
  Nanoseconds took_{0};
  std::thread thread_;
};

}  // namespace

Series plain_python(const std::string& python, const BenchProgram& program, const Variables& variables, int per_round) {
  Command command{.argv = {python, "-c", program.code}, .environment = plain_environment(variables), .directory = "/"};
  return {.name = fs::path(python).filename().string() + " -c '" + program.shown + "'",
          .measure = [command, program] { return time_command(command, program.output); },
          .per_round = per_round};
}

Series engine_call(EngineClient& client, const wire::RunRequest& request, const BenchProgram& program, Until until,
                   Seen seen, int per_round) {
  return {.name = "engine call, template " + request.template_name,
          .measure = [&client, request, program, until,
                      seen] { return time_engine_call(client, request, program.output, until, seen); },
          .per_round = per_round};
}

Series hutch_run(std::vector<std::string> arguments, const BenchProgram& program, int per_round) {
  const auto command = run_command_line(std::move(arguments), program);
  return {.name = "hutch run",
          .measure = [command, program] { return time_command(command, program.output); },
          .per_round = per_round};
}

Series explained_run(std::vector<std::string> arguments, const BenchProgram& program, int per_round) {
  arguments.emplace_back("--json");
  const auto command = run_command_line(std::move(arguments), program);
  return {.name = "hutch run --json",
          .measure = [command, program]() -> Result<Took> {
            HUTCH_TRY(const auto completed, run_checked(command));
            return read_record(completed.output, program.output);
          },
          .per_round = per_round};
}

Series bare_fork(EngineClient& client, const std::string& template_name, int per_round) {
  return {.name = "fork, exit and wait of the zygote of " + template_name,
          .measure = [&client, template_name]() -> Result<Took> {
            HUTCH_TRY(const std::uint64_t ns, client.measure_fork(template_name));
            return Nanoseconds(ns);
          },
          .per_round = per_round};
}

Result<Series> live_cell(EngineClient client, wire::RunRequest request, Seen seen, int per_round) {
  const auto session = std::make_shared<LiveSession>(std::move(client), std::move(request), seen);
  HUTCH_TRY(session->run_cell());
  const auto measure = [session]() -> Result<Took> {
    std::vector<Nanoseconds> took(kCellsInARow);
    for (auto& one : took) {
      HUTCH_TRY(one, session->run_cell());
    }
    std::ranges::nth_element(took, took.begin() + kCellsInARow / 2);
    return took[kCellsInARow / 2];
  };
  return Series{.name = "one more cell", .measure = measure, .per_round = per_round};
}

std::optional<Series> bubblewrap(const Interpreter& interpreter, int per_round, std::vector<std::string>& notes) {
  const fs::path program = "/usr/bin/bwrap";
  std::error_code ignored;
  if (!fs::exists(program, ignored)) {
    notes.emplace_back("no_engine_vs_bwrap is left out: bubblewrap is not installed");
    return std::nullopt;
  }
  if (!interpreter.beneath_usr()) {
    notes.emplace_back("no_engine_vs_bwrap is left out: the interpreter is not in /usr");
    return std::nullopt;
  }
  std::vector<std::string> argv{program.string(), "--unshare-all", "--ro-bind", "/usr", "/usr"};
  for (const char* name : {"lib", "lib64", "bin"}) {
    if (!fs::is_symlink(fs::path("/") / name, ignored)) continue;
    argv.insert(argv.end(), {"--symlink", std::string("usr/") + name, std::string("/") + name});
  }
  argv.insert(argv.end(),
              {"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", interpreter.path.string(), "-c", kPrint.code});
  Command command{.argv = std::move(argv), .environment = plain_environment(), .directory = "/"};
  return Series{.name = "bwrap … " + interpreter.path.filename().string() + " -c 'print(1)'",
                .measure = [command] { return time_command(command, kPrint.output); },
                .per_round = per_round};
}

}  // namespace hutch
