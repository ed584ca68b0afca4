#include "cli/notebook_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <boost/json.hpp>
#include <chrono>
#include <csignal>
#include <optional>

#include "api/engine_setup.h"
#include "api/json_text.h"
#include "api/notebook_html.h"
#include "api/notebook_parameters.h"
#include "api/notebook_run.h"
#include "base/utf8.h"
#include "cli/input_files.h"
#include "cli/progress_line.h"
#include "cli/report.h"
#include "cli/whole_file.h"
#include "session/template_store.h"

namespace hutch {
namespace {

namespace json = boost::json;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostParameters = 1U << 20;
constexpr int kFailed = 1;
constexpr int kInterrupted = 130;

std::atomic<bool> interrupted = false;  // told to the engine, once
std::atomic<bool> asked_to_stop = false;

class NotebookEvents final : public ClientEvents {
 public:
  NotebookEvents(NotebookRun& run, std::uint64_t timeout_ms, ProgressLine& progress)
      : run_(run), timeout_ms_(timeout_ms), progress_(progress) {}

  void on_output(const wire::OutputEvent& event) override {
    if (run_.cell_runs()) run_.add(event);
  }
  void on_file(const wire::FileEntry&, UniqueFd) override {}
  void on_cell_done(const wire::CellReport& report) override {
    const bool over = report.status == wire::CellStatus::exit;
    run_.finish(report.record, over ? AfterCell::interpreter_gone : AfterCell::interpreter_lives);
  }
  std::optional<wire::CellRequest> next_cell(std::optional<wire::CellStatus>) override {
    if (asked_to_stop) run_.stop();
    auto source = run_.next();
    if (!source) return std::nullopt;
    progress_.show(run_.cells_run(), run_.cells_to_run(), fmt::format("cell {}: {}", run_.cell() + 1, *source));
    return wire::CellRequest{.code = std::move(*source), .timeout_ms = timeout_ms_};
  }

 private:
  NotebookRun& run_;
  std::uint64_t timeout_ms_;
  ProgressLine& progress_;
};

Result<json::object> read_parameters(const NotebookCommand& command) {
  json::object parameters;
  if (!command.parameters_file.empty()) {
    HUTCH_TRY(const auto text, read_whole_file(command.parameters_file, kMostParameters));
    boost::system::error_code failed;
    auto value = json::parse(text, failed);
    if (failed || !value.is_object()) {
      return make_error(ErrorCode::invalid_argument, command.parameters_file + " is not a JSON object")
          .with_hint("write {\"NAME\": VALUE, …}");
    }
    parameters = std::move(value.get_object());
  }
  for (const auto& given : command.parameters) HUTCH_TRY(add_parameter(parameters, given));
  return parameters;
}

Result<Notebook> read_notebook(const NotebookCommand& command) {
  const std::string& path = command.run.file;
  HUTCH_TRY(const auto text, read_whole_file(path, kMostNotebookBytes));
  auto notebook = Notebook::read(text);
  if (!notebook) return std::move(notebook).error().during(path);
  HUTCH_TRY(check_language(*notebook));
  HUTCH_TRY(const auto parameters, read_parameters(command));
  HUTCH_TRY(inject_parameters(*notebook, parameters));
  return std::move(*notebook);
}

// Before anything runs: what cannot be written should not be computed first.
Result<void> check_places(const NotebookCommand& command) {
  for (const auto& path : {command.output, command.html}) {
    if (!path.empty() && path != "-") HUTCH_TRY(check_writable(path));
  }
  return {};
}

Result<ClientRun> make_run(const NotebookCommand& command, const Config& config, std::string& notice) {
  ClientRun run;
  HUTCH_TRY(run.request, make_request(command.run, config, notice));
  HUTCH_TRY(const auto paths, TemplatePaths::from_environment());
  HUTCH_TRY(const auto store, TemplateStore::open(paths));
  HUTCH_TRY(const auto choice, store.choose(run.request.template_name));
  run.request.mode = usual_mode(choice.chosen);
  // Each cell has the time limit; all together have no processor budget but what was asked for.
  if (command.run.cpu_time.empty()) {
    run.request.limits.cpu_ms = static_cast<std::uint64_t>(config.engine.ceiling.wall.count()) * 64;
  }
  HUTCH_TRY(run.files, read_inputs(command.run.inputs, Bytes{run.request.limits.scratch}));
  return run;
}

// Nothing of the run is lost because of how it ended.
Result<void> write_results(const NotebookCommand& command, const Notebook& notebook) {
  if (!command.output.empty()) HUTCH_TRY(write_whole_file(command.output, notebook.text()));
  if (!command.html.empty()) HUTCH_TRY(write_whole_file(command.html, notebook_html(notebook)));
  return {};
}

std::string in_words(const NotebookFailure& failure) {
  const auto& error = failure.error;
  const std::string value = printable(error.value.substr(0, 500));
  return fmt::format("cell {} failed: {}{}", failure.cell + 1, printable(error.name),
                     value.empty() ? "" : ": " + value);
}

// Whatever the engine had to say at the end; the cell that was running then ends with it.
std::optional<Error> take_outcome(NotebookRun& run, Result<Outcome> outcome) {
  wire::Record record;
  std::optional<Error> failure;
  if (!outcome) {
    failure = outcome.error();
  } else if (const auto* failed = std::get_if<wire::Failed>(&*outcome)) {
    failure = Error{.message = failed->message, .hint = failed->hint};
    if (failed->code == "cancelled") failure.reset();  // there was nothing to run
  } else {
    record = std::get<wire::Record>(std::move(*outcome));
  }
  if (!run.cell_runs()) return failure;
  if (failure) record.error = wire::RunError{.category = "internal", .code = "HutchError", .message = failure->message};
  run.finish(record, AfterCell::interpreter_gone);
  return failure;
}

int conclude(const NotebookCommand& command, const Report& report, const NotebookRun& run,
             const std::string& template_name, double seconds) {
  int code = run.succeeded() ? 0 : asked_to_stop ? kInterrupted : kFailed;
  if (run.failure()) report.error(in_words(*run.failure()), "");
  if (const auto written = write_results(command, run.notebook()); !written) {
    report.error(written.error().message, written.error().hint);
    code = kOwnFailure;
  }
  if (command.run.json) {
    json::object summary = run.summary();
    summary["template"] = template_name;
    summary["wall_ms"] = seconds * 1000;
    fmt::print("{}\n", json_text(summary));
  } else if (!command.run.quiet) {
    report.notice(fmt::format("{} of {} cells run in {:.1f} s{}", run.cells_run(), run.cells_to_run(), seconds,
                              command.output.empty() ? "" : ", written to " + command.output));
  }
  return code;
}

void listen_to_signals() {
  ::signal(SIGPIPE, SIG_IGN);
  struct sigaction on_interrupt{};
  on_interrupt.sa_handler = [](int) { interrupted = asked_to_stop = true; };
  ::sigaction(SIGINT, &on_interrupt, nullptr);
  ::sigaction(SIGTERM, &on_interrupt, nullptr);
}

}  // namespace

int notebook_run(const NotebookCommand& command, const Config& config) {
  const Report report;
  const auto own = [&](const Error& error) {
    report.error(error.message, error.hint);
    return kOwnFailure;
  };
  listen_to_signals();
  auto notebook = read_notebook(command);
  if (!notebook) return own(notebook.error());
  if (const auto checked = check_places(command); !checked) return own(checked.error());
  std::string notice;
  auto asked = make_run(command, config, notice);
  if (!asked) return own(asked.error());
  const std::string template_name = asked->request.template_name;
  auto client = reach_engine(command.run, config, template_name);
  if (!client) return own(client.error());
  client->interrupted = &interrupted;
  if (!notice.empty() && !command.run.quiet) report.notice(notice);

  NotebookRun run(std::move(*notebook), {.allow_errors = command.allow_errors,
                                         .data = command.hutch_data ? HutchData::keep : HutchData::leave_out});
  ProgressLine progress(command.run.quiet ? ProgressLine::Where::nowhere : ProgressLine::Where::terminal);
  const auto began = Clock::now();
  NotebookEvents events(run, asked->request.limits.wall_ms, progress);
  auto outcome = client->run(std::move(*asked), events);
  progress.clear();
  const std::chrono::duration<double> took = Clock::now() - began;
  const auto failure = take_outcome(run, std::move(outcome));
  const int code = conclude(command, report, run, template_name, took.count());
  return failure ? own(*failure) : code;
}

}  // namespace hutch
