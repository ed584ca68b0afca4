#include "cli/bench_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>

#include "api/engine_client.h"
#include "base/subprocess.h"
#include "cli/bench_measure.h"
#include "cli/bench_report.h"
#include "cli/report.h"
#include "session/template_store.h"

namespace hutch {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC

constexpr const char* kPrint = "print(1)";
constexpr const char* kPrinted = "1\n";
constexpr const char* kGroupBy =
    "import pandas as pd\n"
    "frame = pd.DataFrame({'region': ['north', 'east', 'south', 'west'] * 250, 'amount': range(1000)})\n"
    "for region, amount in frame.groupby('region')['amount'].sum().items():\n"
    "    print(region, amount)\n";
constexpr const char* kGrouped = "east 124750\nnorth 124500\nsouth 125000\nwest 125250\n";

constexpr auto kQuickBudget = std::chrono::seconds(16);
constexpr auto kBudget = std::chrono::seconds(70);
constexpr int kOften = 6;        // per round: milliseconds each
constexpr int kSeldom = 2;       // tens of milliseconds
constexpr double kNoisy = 0.25;  // interquartile range over median from which we say that the machine was busy

// One line of the table before it is measured: which series, against which.
struct Pairing {
  std::string name;
  std::size_t subject = 0;
  std::size_t anchor = 0;
};

struct Plan {
  std::vector<Series> series;
  std::vector<Pairing> pairings;
  std::vector<std::string> notes;

  std::size_t add(Series one) {
    series.push_back(std::move(one));
    return series.size() - 1;
  }
};

// The template that is measured, and its interpreters on the host.
struct Target {
  std::string name;
  std::string python;              // behind every link, never a shim
  std::string environment_python;  // sees the template's packages; empty for `bare`
  Variables variables;
};

Error wrong_output(const std::string& output, const std::string& errors) {
  return make_error(ErrorCode::internal, fmt::format("printed {:?} and {:?}", output, errors));
}

Result<Nanoseconds> time_command(const Command& command, const std::string& expected) {
  const auto start = Clock::now();
  HUTCH_TRY(const auto completed, run_checked(command));
  const auto took = Clock::now() - start;
  if (completed.output != expected) return wrong_output(completed.output, completed.errors);
  return took;
}

Result<Nanoseconds> time_engine_call(EngineClient& client, const wire::RunRequest& request,
                                     const std::string& expected) {
  ClientRun run{.request = request, .files = {}};
  Collected collected;
  const auto start = Clock::now();
  HUTCH_TRY(const auto outcome, client.run(std::move(run), collected));
  const auto took = Clock::now() - start;
  if (const auto* failed = std::get_if<wire::Failed>(&outcome)) {
    return make_error(ErrorCode::system, failed->message).with_hint(failed->hint);
  }
  if (collected.out != expected) return wrong_output(collected.out, collected.err);
  if (!std::get<wire::Record>(outcome).warm) return make_error(ErrorCode::internal, "the sandbox was started cold");
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

Series plain_python(const std::string& python, const std::string& shown, const char* code, const char* expected,
                    const Variables& variables, int per_round) {
  Command command{.argv = {python, "-c", code}, .environment = plain_environment(variables), .directory = "/"};
  return {.name = fs::path(python).filename().string() + " -c '" + shown + "'",
          .measure = [command, expected] { return time_command(command, expected); },
          .per_round = per_round};
}

Series engine_call(EngineClient& client, const BenchOptions& options, const std::string& template_name,
                   const char* code, const char* expected, int per_round) {
  auto request = default_request(template_name, code);
  request.weaker_limits = options.weaker_limits;
  return {.name = "engine call, template " + template_name,
          .measure = [&client, request, expected] { return time_engine_call(client, request, expected); },
          .per_round = per_round};
}

Series hutch_run(const BenchOptions& options, std::vector<std::string> arguments, const char* code,
                 const char* expected, int per_round) {
  // In the child the link still leads to this very binary, even when another build has replaced it on the disk.
  std::vector<std::string> argv{"/proc/self/exe", "run", "-c", code};
  argv.insert(argv.end(), arguments.begin(), arguments.end());
  if (options.weaker_limits) argv.emplace_back("--weaker-limits");
  Command command{.argv = std::move(argv), .environment = hutch_environment(), .directory = "/"};
  return {.name = "hutch run",
          .measure = [command, expected] { return time_command(command, expected); },
          .per_round = per_round};
}

std::optional<Series> bubblewrap(const Interpreter& interpreter, std::vector<std::string>& notes) {
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
              {"--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", interpreter.path.string(), "-c", kPrint});
  Command command{.argv = std::move(argv), .environment = plain_environment(), .directory = "/"};
  return Series{.name = "bwrap … " + interpreter.path.filename().string() + " -c 'print(1)'",
                .measure = [command] { return time_command(command, kPrinted); },
                .per_round = kSeldom};
}

Result<Target> find_target(const TemplateStore& store, std::vector<std::string>& notes) {
  if (!store.resolve("default")) {
    notes.emplace_back(
        "template `default` is not built: print_command is of `bare`, and the rows of `default` and pandas "
        "are left out; build it with `hutch template build default`");
    HUTCH_TRY(const auto bare, store.plan("bare"));
    return Target{.name = "bare", .python = bare.interpreter.path.string()};
  }
  HUTCH_TRY(const auto plan, store.plan("default"));
  return Target{.name = "default",
                .python = plan.interpreter.path.string(),
                .environment_python = (plan.tree / "env/bin/python").string(),
                .variables = plan.file.environment};
}

Result<Plan> make_plan(const BenchOptions& options, const TemplateStore& store, const Target& target,
                       EngineClient& client) {
  Plan plan;
  const auto pair = [&](const char* name, std::size_t subject, std::size_t anchor) {
    plan.pairings.push_back({.name = name, .subject = subject, .anchor = anchor});
  };
  const bool has_pandas = !target.environment_python.empty();
  HUTCH_TRY(const auto bare, store.plan("bare"));
  const auto print = plan.add(plain_python(target.python, kPrint, kPrint, kPrinted, {}, kOften));
  const bool same = bare.interpreter.path == target.python;
  const auto bare_print =
      same ? print : plan.add(plain_python(bare.interpreter.path.string(), kPrint, kPrint, kPrinted, {}, kOften));

  // Like with like: plain python3 has imported nothing, and neither has `bare`.
  pair("print_cold", plan.add(engine_call(client, options, "bare", kPrint, kPrinted, kOften)), bare_print);
  if (has_pandas) {
    pair("print_cold_default", plan.add(engine_call(client, options, target.name, kPrint, kPrinted, kOften)), print);
  }
  pair("print_command", plan.add(hutch_run(options, {"--template", target.name}, kPrint, kPrinted, kOften)), print);
  if (has_pandas) {
    const auto pandas =
        plan.add(plain_python(target.environment_python, "import pandas …", kGroupBy, kGrouped, target.variables, 1));
    pair("pandas_cold", plan.add(engine_call(client, options, target.name, kGroupBy, kGrouped, kSeldom)), pandas);
    pair("pandas_command", plan.add(hutch_run(options, {"--template", target.name}, kGroupBy, kGrouped, kSeldom)),
         pandas);
  }
  const auto cold = plan.add(hutch_run(options, {"--no-engine", "--template", "bare"}, kPrint, kPrinted, kSeldom));
  pair("no_engine", cold, bare_print);
  if (auto peer = bubblewrap(bare.interpreter, plan.notes)) {
    pair("no_engine_vs_bwrap", cold, plan.add(std::move(*peer)));
  }
  return plan;
}

// The first run imports the template's libraries; what it costs is said, not measured.
Result<void> warm_up(const BenchOptions& options, const Target& target, EngineClient& client, bool started,
                     Nanoseconds start_time, std::vector<std::string>& notes) {
  if (started) {
    notes.push_back(fmt::format("the engine was not running; it started in {:.0f} ms (not part of the measurements)",
                                static_cast<double>(start_time.count()) / 1e6));
  }
  auto first = engine_call(client, options, target.name, kPrint, kPrinted, 1).measure();
  if (!first) return std::move(first).error().during("the first run");
  if (started) {
    notes.push_back(fmt::format("its first run of template {} took {:.0f} ms with the imports (not part either)",
                                target.name, static_cast<double>(first->count()) / 1e6));
  }
  return {};
}

void show_progress(const BenchOptions& options, const RoundProgress& progress) {
  static constexpr const char* kClearLine = "\r\x1b[K";
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(progress.elapsed).count();
  const auto of = (options.quick ? kQuickBudget : kBudget).count();
  if (progress.round == 0) {
    fmt::print(stderr, "{}warming up", kClearLine);
  } else if (options.rounds > 0) {
    fmt::print(stderr, "{}round {} of {}, {} s", kClearLine, progress.round, options.rounds, seconds);
  } else {
    fmt::print(stderr, "{}round {}, {} of {} s", kClearLine, progress.round, seconds, of);
  }
  std::fflush(stderr);
}

void fill_rows(const Plan& plan, BenchResult& result) {
  std::vector<bool> seen(plan.series.size());
  bool noisy = false;
  for (const auto& pairing : plan.pairings) {
    const auto& anchor = plan.series[pairing.anchor];
    const auto against = summarize(anchor.samples);
    result.rows.push_back({.name = pairing.name,
                           .subject = summarize(plan.series[pairing.subject].samples),
                           .anchor = anchor.name,
                           .against = against});
    if (seen[pairing.anchor]) continue;
    seen[pairing.anchor] = true;
    result.anchor_spreads.emplace_back(anchor.name, against.spread);
    noisy = noisy || against.spread > kNoisy;
  }
  if (noisy) {
    result.notes.emplace_back("the anchors varied widely: the machine was busy; measure again when it is quiet");
  }
}

Result<BenchResult> measure(const BenchOptions& options) {
  HUTCH_TRY(const auto paths, TemplatePaths::from_environment());
  HUTCH_TRY(const auto store, TemplateStore::open(paths));
  BenchResult result{.load_before = load_average(), .version = options.version};
  HUTCH_TRY(const auto target, find_target(store, result.notes));
  result.template_name = target.name;
  result.machine = Machine::look(target.python);
  if (options.weaker_limits) result.notes.emplace_back("limits were weaker: --weaker-limits");

  HUTCH_TRY(const auto location, EngineLocation::find());
  const bool started = !EngineClient::connect(location);
  const auto start = Clock::now();
  HUTCH_TRY(auto client, EngineClient::connect_or_start(location));
  HUTCH_TRY(warm_up(options, target, client, started, Clock::now() - start, result.notes));

  HUTCH_TRY(auto plan, make_plan(options, store, target, client));
  result.notes.insert(result.notes.end(), plan.notes.begin(), plan.notes.end());
  const Schedule schedule{.rounds = options.rounds, .budget = options.quick ? kQuickBudget : kBudget};
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  const auto measuring = Clock::now();
  const auto rounds = measure_in_turn(plan.series, schedule, [&](const RoundProgress& progress) {
    if (terminal) show_progress(options, progress);
  });
  if (terminal) fmt::print(stderr, "\r\x1b[K");
  if (!rounds) return rounds.error();
  result.rounds = *rounds;
  result.duration = std::chrono::round<std::chrono::seconds>(Clock::now() - measuring);
  result.load_after = load_average();
  fill_rows(plan, result);
  return result;
}

}  // namespace

int bench_command(const BenchOptions& options) {
  const auto result = measure(options);
  if (!result) {
    Report().error(result.error().message, result.error().hint);
    return kOwnFailure;
  }
  if (options.json) {
    fmt::print("{}", bench_json(*result));
  } else if (options.markdown) {
    fmt::print("{}", bench_markdown(*result));
  } else {
    fmt::print("{}", bench_text(*result));
  }
  return 0;
}

}  // namespace hutch
