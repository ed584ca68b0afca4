#include "cli/bench_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <optional>

#include "api/engine_client.h"
#include "cli/bench_measure.h"
#include "cli/bench_report.h"
#include "cli/bench_series.h"
#include "cli/report.h"
#include "cli/whole_file.h"
#include "session/template_store.h"

namespace hutch {
namespace {

using Clock = std::chrono::steady_clock;  // CLOCK_MONOTONIC

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
  std::optional<std::size_t> explained;  // the series with the steps, where the subject has none
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

// What is asked of the engine, over and over.
wire::RunRequest request_for(const BenchOptions& options, const std::string& template_name, const BenchProgram& program,
                             Start start) {
  auto request = default_request(template_name, program.code);
  request.weaker_limits = options.weaker_limits;
  request.on_demand = start == Start::on_demand;
  return request;
}

class Planner {
 public:
  Planner(const BenchOptions& options, const EngineLocation& location, EngineClient& client, const Target& target)
      : options_(options), location_(location), client_(client), target_(target) {}

  Result<Plan> make(const TemplateStore& store) {
    HUTCH_TRY(const auto bare, store.plan("bare"));
    const auto print = plan_.add(plain_python(target_.python, kPrint, {}, kOften));
    const bool same = bare.interpreter.path == target_.python;
    const auto bare_print = same ? print : plan_.add(plain_python(bare.interpreter.path.string(), kPrint, {}, kOften));
    const bool has_pandas = !target_.environment_python.empty();

    // Like with like: plain python3 has imported nothing, and neither has `bare`.
    add_prints("bare", "", bare_print);
    if (has_pandas) add_prints(target_.name, "_default", print);
    pair("print_command", plan_.add(hutch_run(flags({"--template", target_.name}), kPrint, kOften)), print);
    if (has_pandas) add_pandas();
    HUTCH_TRY(add_cells(print));
    const auto cold = plan_.add(hutch_run(flags({"--no-engine", "--template", "bare"}), kPrint, kSeldom));
    pair("no_engine", cold, bare_print);
    plan_.pairings.back().explained = plan_.add(explained_run(flags({"--no-engine", "--template", "bare"}), kPrint, 1));
    if (auto peer = bubblewrap(bare.interpreter, kSeldom, plan_.notes)) {
      pair("no_engine_vs_bwrap", cold, plan_.add(std::move(*peer)));
    }
    return std::move(plan_);
  }

 private:
  void pair(std::string name, std::size_t subject, std::size_t anchor) {
    plan_.pairings.push_back({.name = std::move(name), .subject = subject, .anchor = anchor});
  }
  std::size_t call(const std::string& name, const BenchProgram& program, Start start, Until until, int per_round,
                   Seen seen = Seen::by_engine) {
    return plan_.add(
        engine_call(client_, request_for(options_, name, program, start), program, until, seen, per_round));
  }
  [[nodiscard]] std::vector<std::string> flags(std::vector<std::string> list) const {
    if (options_.weaker_limits) list.emplace_back("--weaker-limits");
    return list;
  }

  void add_prints(const std::string& name, const std::string& suffix, std::size_t anchor) {
    pair("print_cold" + suffix, call(name, kPrint, Start::as_served, Until::whole_record, kOften), anchor);
    pair("print_cold_client" + suffix,
         call(name, kPrint, Start::as_served, Until::whole_record, kOften, Seen::by_client), anchor);
    pair("print_first_byte" + suffix, call(name, kPrint, Start::as_served, Until::first_output, kOften), anchor);
    const auto alone = call(name, kPrint, Start::on_demand, Until::whole_record, kOften);
    pair("print_no_pool" + suffix, alone, anchor);
    pair("print_no_pool_vs_fork" + suffix, alone, plan_.add(bare_fork(client_, name, kOften)));
  }

  void add_pandas() {
    const auto pandas = plan_.add(plain_python(target_.environment_python, kGroupBy, target_.variables, 1));
    pair("pandas_cold", call(target_.name, kGroupBy, Start::as_served, Until::whole_record, kSeldom), pandas);
    pair("pandas_no_pool", call(target_.name, kGroupBy, Start::on_demand, Until::whole_record, kSeldom), pandas);
    pair("pandas_command", plan_.add(hutch_run(flags({"--template", target_.name}), kGroupBy, kSeldom)), pandas);
  }

  Result<void> add_cells(std::size_t anchor) {
    const bool has_ipython = !target_.environment_python.empty();
    HUTCH_TRY(add_cell("second_cell", wire::RunMode::shell, Seen::by_engine, anchor));
    HUTCH_TRY(add_cell("second_cell_client", wire::RunMode::shell, Seen::by_client, anchor));
    if (!has_ipython) return {};
    HUTCH_TRY(add_cell("second_cell_ipython", wire::RunMode::ipython, Seen::by_engine, anchor));
    return add_cell("second_cell_ipython_client", wire::RunMode::ipython, Seen::by_client, anchor);
  }

  Result<void> add_cell(const std::string& name, wire::RunMode mode, Seen seen, std::size_t anchor) {
    auto request = request_for(options_, target_.name, kPrint, Start::as_served);
    request.mode = mode;
    HUTCH_TRY(auto client, EngineClient::connect_or_start(location_));
    HUTCH_TRY(auto series, live_cell(std::move(client), std::move(request), seen, kOften));
    pair(name, plan_.add(std::move(series)), anchor);
    return {};
  }

  const BenchOptions& options_;
  const EngineLocation& location_;
  EngineClient& client_;
  const Target& target_;
  Plan plan_;
};

// The first runs import the templates' libraries; what that costs is said, not measured.
Result<void> warm_up(const BenchOptions& options, const Target& target, EngineClient& client, bool started,
                     Nanoseconds start_time, std::vector<std::string>& notes) {
  if (started) {
    notes.push_back(fmt::format("the engine was not running; it started in {:.0f} ms (not part of the measurements)",
                                static_cast<double>(start_time.count()) / 1e6));
  }
  for (const std::string& name : {std::string("bare"), target.name}) {
    const auto request = request_for(options, name, kPrint, Start::as_served);
    auto first = engine_call(client, request, kPrint, Until::whole_record, Seen::by_client, 1).measure();
    if (!first) return std::move(first).error().during("the first run");
    if (!started || name != target.name) continue;
    notes.push_back(fmt::format("its first run of template {} took {:.0f} ms with the imports (not part either)",
                                target.name, static_cast<double>(first->all.count()) / 1e6));
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
    const auto& subject = plan.series[pairing.subject];
    const auto against = summarize(anchor.samples);
    result.rows.push_back(
        {.name = pairing.name, .subject = summarize(subject.samples), .anchor = anchor.name, .against = against});
    const std::size_t explained = pairing.explained.value_or(pairing.subject);
    const auto& steps = plan.series[explained].steps;
    if (!steps.empty() && !seen[explained]) {  // print_no_pool_vs_fork is the same start again
      result.starts.push_back({.row = pairing.name, .steps = summarize_steps(steps)});
    }
    seen[explained] = true;
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

  HUTCH_TRY(auto plan, Planner(options, location, client, target).make(store));
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

// Whether the file can be written is asked before the minute that it takes.
Result<BenchResult> measure_and_save(const BenchOptions& options) {
  if (!options.save.empty()) {
    HUTCH_TRY(check_writable(options.save));
  }
  HUTCH_TRY(auto result, measure(options));
  if (!options.save.empty()) {
    HUTCH_TRY(write_whole_file(options.save, bench_json(result)));
  }
  return result;
}

}  // namespace

int bench_command(const BenchOptions& options) {
  const auto result = measure_and_save(options);
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
