// Commands that run programs here.
#include "cli/commands.h"
#include "cli/notebook_command.h"
#include "cli/remote.h"
#include "cli/report.h"
#include "cli/run_command.h"

namespace hutch {
namespace {

void add_limits(CLI::App& command, RunOptions& options) {
  const std::string group = "Limits";
  command.add_option("--timeout", options.timeout, "Wall time in seconds, 0.1 to 300 (default 30)")->group(group);
  command.add_option("--cpu-time", options.cpu_time, "Processor seconds, all processes together (default 30)")
      ->group(group);
  command.add_option("--memory", options.memory, "Memory, like 512M (the default) or 2G")->group(group);
  command.add_option("--cpu", options.cpu_percent, "Share of processors in percent; 100, one core, is the default")
      ->group(group);
  command.add_option("--processes", options.processes, "Processes and threads at once (default 64)")->group(group);
  command.add_option("--open-files", options.open_files, "Open files per process (default 1024)")->group(group);
  command.add_option("--scratch", options.scratch, "Space for /workspace and /tmp (default 64M)")->group(group);
  command.add_option("--inodes", options.inodes, "Files in that space (default 16384)")->group(group);
  command.add_option("--output-limit", options.output, "Bytes of stdout and stderr together (default 8M)")
      ->group(group);
  command
      .add_flag("--weaker-limits", options.weaker_limits,
                "Where there are no control groups: let rlimits and a watchdog stand in, and say so")
      ->group(group);
}

void add_common(CLI::App& command, RunOptions& options) {
  command.add_option("--template", options.template_name,
                     "Which template (default: `default`, or `bare` if not built)");
  command.add_option("--env", options.environment, "NAME=VALUE for the program; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  command.add_flag("--no-engine", options.no_engine,
                   "Run in the foreground, starting the interpreter inside the sandbox");
}

struct RunCommandLine {
  RunOptions run;
  RemoteOptions remote;
  Words words;  // FILE and the program's arguments
};

}  // namespace

int own_failure(const Error& error) {
  Report().error(error.message, error.hint);
  return kOwnFailure;
}

Action define_run(CLI::App& app, const Words& after_dashes) {
  const auto typed = std::make_shared<RunCommandLine>();
  auto& run = typed->run;
  auto* code = app.add_option("-c", run.code, "The program itself");
  app.add_option("FILE", typed->words, "A Python file, or - for standard input; then the program's arguments");
  app.add_option("--in", run.inputs, "PATH or PATH:NAME to put into /workspace; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  app.add_option("--out", run.output_directory, "Directory for the files that the program creates or changes");
  app.add_flag("--json", run.json, "Print the whole record as JSON instead of the program's output");
  app.add_flag("--quiet", run.quiet, "Nothing on standard error but what the program writes");
  app.add_flag("--explain", run.explain, "Say where the time went, which walls were up, what was denied");
  app.add_flag("--cell", run.as_cell,
               "Run it as one cell: the value of the last line is shown, await works, and magics");
  app.add_flag("--no-pool", run.no_pool, "Fork on demand instead of taking a sandbox that was made in advance");
  auto* server = app.add_option("--server", typed->remote.server, "Run it on a daemon: http://HOST:PORT or unix:/PATH");
  app.add_option("--key", typed->remote.key, "Its key (default: $HUTCH_KEY)");
  app.add_option("--inject-fault", run.fault, "Make one set-up step fail (for tests)")->group("");
  add_common(app, run);
  add_limits(app, run);
  return [typed, code, server, after_dashes](const Config& config) {
    auto& options = typed->run;
    auto& words = typed->words;
    options.has_code = code->count() > 0;
    words.insert(words.end(), after_dashes.begin(), after_dashes.end());
    if (!options.has_code) {
      if (words.empty())
        return own_failure({.message = "nothing to run", .hint = "hutch run FILE, hutch run - or hutch run -c CODE"});
      options.file = words.front();
      words.erase(words.begin());
    }
    options.arguments = words;
    return server->count() > 0 ? remote_run_command(options, typed->remote) : run_command(options, config);
  };
}

Action define_shell(CLI::App& app, const Words&) {
  const auto options = std::make_shared<RunOptions>();
  app.add_flag("--ipython", options->ipython, "Cells as IPython runs them: magics, Out, its way of showing values");
  add_common(app, *options);
  add_limits(app, *options);
  return [options](const Config& config) { return shell_command(*options, config); };
}

Action define_notebook(CLI::App& app, const Words&) {
  const auto command = std::make_shared<NotebookCommand>();
  auto& options = command->run;
  app.require_subcommand(1);
  auto* run = app.add_subcommand("run", "Run every code cell, and write the notebook with its outputs");
  run->add_option("NOTEBOOK", options.file, "An .ipynb file, or - for standard input")->required();
  run->add_option("-o,--output", command->output, "Where the notebook goes with its outputs; - for standard output");
  run->add_option("--html", command->html, "Where a page of it goes");
  run->add_option("-p,--parameter", command->parameters, "NAME=VALUE, set after the cell tagged `parameters`")
      ->take_all()
      ->allow_extra_args(false);
  run->add_option("--parameters", command->parameters_file, "A JSON object with such values");
  run->add_flag("--allow-errors", command->allow_errors, "Go on after a cell that fails");
  run->add_option("--in", options.inputs, "PATH or PATH:NAME to put into /workspace; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  run->add_flag("--json", options.json, "Print what happened as JSON");
  run->add_flag("--quiet", options.quiet, "Say nothing but errors");
  run->add_flag("--hutch-data", command->hutch_data, "Keep tables and charts as data, for programs that know Hutch");
  add_common(*run, options);
  add_limits(*run, options);
  run->remove_option(run->get_option("--timeout"));
  run->add_option("--cell-timeout", options.timeout, "Wall time of each cell in seconds, 0.1 to 300 (default 30)")
      ->group("Limits");
  return [command](const Config& config) {
    if (command->output == "-" && command->run.json)
      return own_failure(
          {.message = "-o - and --json both want standard output", .hint = "write the notebook to a file"});
    return notebook_run(*command, config);
  };
}

}  // namespace hutch
