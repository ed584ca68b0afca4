// The `hutch` command: what can be typed, and who does it.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <boost/json.hpp>
#include <string>

#include "api/json_text.h"
#include "cli/bench_command.h"
#include "cli/config.h"
#include "cli/doctor_command.h"
#include "cli/engine_command.h"
#include "cli/key_command.h"
#include "cli/remote.h"
#include "cli/report.h"
#include "cli/run_command.h"
#include "cli/serve_command.h"
#include "cli/session_command.h"
#include "cli/template_command.h"
#include "session/template_store.h"

namespace {

using hutch::Config;
using hutch::OutputFormat;
using hutch::RunOptions;

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

int config_command(const Config& config, OutputFormat format) {
  boost::json::object all;
  for (const auto& entry : config.entries) {
    if (format == OutputFormat::json) {
      all[entry.key] = boost::json::object{{"value", entry.value}, {"origin", entry.origin}};
    } else {
      fmt::print("{:<22} {:<14} {}\n", entry.key, entry.value.empty() ? "-" : entry.value, entry.origin);
    }
  }
  if (format == OutputFormat::json) fmt::print("{}\n", hutch::json_text(all));
  return 0;
}

int own_failure(const hutch::Error& error) {
  hutch::Report().error(error.message, error.hint);
  return hutch::kOwnFailure;
}

hutch::Result<hutch::TemplateStore> open_store() {
  HUTCH_TRY(const auto paths, hutch::TemplatePaths::from_environment());
  return hutch::TemplateStore::open(paths);
}

// What follows `--` belongs to the program, whatever it looks like.
std::vector<std::string> split_off_arguments(int& argc, char** argv) {
  std::vector<std::string> rest;
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) != "--") continue;
    rest.assign(argv + i + 1, argv + argc);
    argc = i;
    break;
  }
  return rest;
}

// Every sandbox takes some descriptors of the engine and the keeper, and those on their way count against ours.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// A closed standard stream would be given to the next file we open.
void open_missing_streams() {
  int fd = 0;
  while ((fd = ::open("/dev/null", O_RDWR)) >= 0 && fd <= 2) {
  }
  if (fd > 2) ::close(fd);
}

}  // namespace

int main(int argc, char** argv) {
  open_missing_streams();
  raise_descriptor_limit();
  const std::vector<std::string> after_dashes = split_off_arguments(argc, argv);
  CLI::App app{
      "Hutch runs Python that you do not trust, in a sandbox that it cannot leave.\n\n"
      "  hutch run -c 'print(6 * 7)'\n"
      "  hutch run analysis.py --in data.csv --out results\n"
      "  hutch run --json --timeout 10 script.py -- argument"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "hutch " HUTCH_VERSION);
  app.failure_message(CLI::FailureMessage::help);
  int result = 0;

  RunOptions run;
  auto* run_app = app.add_subcommand("run", "Run a program in a fresh sandbox");
  std::vector<std::string> words;
  auto* code = run_app->add_option("-c", run.code, "The program itself");
  run_app->add_option("FILE", words, "A Python file, or - for standard input; then the program's arguments");
  run_app->add_option("--in", run.inputs, "PATH or PATH:NAME to put into /workspace; may be repeated")
      ->take_all()
      ->allow_extra_args(false);
  run_app->add_option("--out", run.output_directory, "Directory for the files that the program creates or changes");
  run_app->add_flag("--json", run.json, "Print the whole record as JSON instead of the program's output");
  run_app->add_flag("--quiet", run.quiet, "Nothing on standard error but what the program writes");
  run_app->add_flag("--explain", run.explain, "Say where the time went, which walls were up, what was denied");
  run_app->add_flag("--no-pool", run.no_pool, "Fork on demand instead of taking a sandbox that was made in advance");
  hutch::RemoteOptions remote;
  auto* server = run_app->add_option("--server", remote.server, "Run it on a daemon: http://HOST:PORT or unix:/PATH");
  run_app->add_option("--key", remote.key, "Its key (default: $HUTCH_KEY)");
  run_app->add_option("--inject-fault", run.fault, "Make one set-up step fail (for tests)")->group("");
  add_common(*run_app, run);
  add_limits(*run_app, run);

  RunOptions shell;
  auto* shell_app = app.add_subcommand("shell", "An interactive prompt in one sandbox");
  shell_app->add_flag("--ipython", shell.ipython, "Cells as IPython runs them: magics, Out, its way of showing values");
  add_common(*shell_app, shell);
  add_limits(*shell_app, shell);

  bool json = false;
  auto* engine_app = app.add_subcommand("engine", "The background engine that makes the second run fast");
  engine_app->require_subcommand(1);
  auto* status_app = engine_app->add_subcommand("status", "Is it running, and what has it done");
  status_app->add_flag("--json", json);
  auto* stop_app = engine_app->add_subcommand("stop", "Finish what is running, then leave");
  auto* serve_app = engine_app->add_subcommand("serve")->group("");
  std::string name;

  auto* template_app = app.add_subcommand("template", "The environments that programs run in");
  template_app->require_subcommand(1);
  bool force = false;
  auto* build_app = template_app->add_subcommand("build", "Download and install a template's packages");
  build_app->add_option("NAME", name)->required();
  build_app->add_flag("--force", force, "Build anew what is already built");
  build_app->add_flag("--json", json);
  auto* list_app = template_app->add_subcommand("list", "Every template and its state");
  list_app->add_flag("--json", json);
  auto* show_app = template_app->add_subcommand("show", "What is in a template");
  show_app->add_option("NAME", name)->required();
  show_app->add_flag("--json", json);
  auto* rm_app = template_app->add_subcommand("rm", "Remove what was built");
  rm_app->add_option("NAME", name)->required();

  hutch::ServeOptions serve;
  auto* daemon_app = app.add_subcommand("serve", "The daemon: sessions, streams and files over HTTP, for many users");
  daemon_app->add_option("--listen", serve.listen, "ADDRESS:PORT (default 127.0.0.1:8484; port 0: any; none: no TCP)");
  daemon_app->add_option("--socket", serve.socket, "Unix socket (default: serve.sock in the runtime directory)");
  daemon_app->add_option("--data", serve.data, "Directory for keys, results and saved sessions");
  daemon_app->add_option("--tls-certificate", serve.tls_certificate, "PEM file with the certificate chain");
  daemon_app->add_option("--tls-key", serve.tls_key, "PEM file with its key");
  daemon_app->add_option("--log", serve.log_file, "Append the log to this file instead of standard error");
  daemon_app->add_option("--ready-file", serve.ready_file, "Write the addresses here when requests are served");
  daemon_app->add_flag("--weaker-limits", serve.weaker_limits, "Where there are no control groups");

  hutch::SessionOptions session;
  auto* session_app = app.add_subcommand("session", "Sessions of a daemon");
  session_app->require_subcommand(1);
  session_app->add_option("--server", session.remote.server, "Which daemon (default: $HUTCH_SERVER, or your own)");
  session_app->add_option("--key", session.remote.key, "Its key (default: $HUTCH_KEY; your own needs none)");
  auto* session_ls_app = session_app->add_subcommand("ls", "Every session of yours");
  auto* session_create_app = session_app->add_subcommand("create", "A new session; prints its id");
  session_create_app->add_option("--name", session.name, "For people");
  session_create_app->add_option("--template", session.template_name);
  session_create_app->add_flag("--persist", session.persist, "Keep its files when the daemon restarts");
  auto* session_run_app = session_app->add_subcommand("run", "Run code in a session");
  session_run_app->add_option("ID", session.id)->required();
  session_run_app->add_option("FILE", session.what.file, "A Python file, or - for standard input");
  auto* session_code = session_run_app->add_option("-c", session.what.code, "The code itself");
  session_run_app->add_flag("--quiet", session.what.quiet);
  auto* session_attach_app = session_app->add_subcommand("attach", "A prompt in a session; others may watch");
  session_attach_app->add_option("ID", session.id)->required();
  auto* session_rm_app = session_app->add_subcommand("rm", "End a session");
  session_rm_app->add_option("ID", session.id)->required();
  for (auto* command : {session_ls_app, session_create_app, session_run_app}) command->add_flag("--json", json);
  for (auto* command : session_app->get_subcommands({})) command->fallthrough();

  hutch::KeyOptions key;
  std::string key_data;
  auto* key_app = app.add_subcommand("key", "Who may use the daemon");
  key_app->require_subcommand(1);
  key_app->add_option("--data", key_data, "The daemon's directory");
  auto* key_create_app = key_app->add_subcommand("create", "Make a key; it is shown once");
  key_create_app->add_option("NAME", key.name, "Whose it is, for your own eyes")->required();
  key_create_app->add_option("--scope", key.scopes, "run, files, admin (default run and files)")->delimiter(',');
  key_create_app->add_option("--concurrent-runs", key.limits.concurrent_runs, "Runs at once");
  key_create_app->add_option("--runs-per-minute", key.limits.runs_per_minute, "0: no limit");
  key_create_app->add_option("--memory", key.limits.memory_bytes, "Bytes that one run may have at most");
  key_create_app->add_option("--cpu-seconds", key.limits.cpu_seconds_per_month, "Processor seconds a month");
  key_create_app->add_option("--budget", key.limits.budget_per_month, "Money a month, at serve.price_per_cpu_second");
  key_create_app->add_flag("--cache", key.limits.cache,
                           "Answer identical runs from the cache unless a request says no");
  auto* key_list_app = key_app->add_subcommand("list", "Every key, without its secret");
  auto* key_revoke_app = key_app->add_subcommand("revoke", "Make a key useless, at once");
  key_revoke_app->add_option("ID", key.name)->required();
  auto* key_rotate_app = key_app->add_subcommand("rotate", "A new key with the rights of an old one, which is revoked");
  key_rotate_app->add_option("ID", key.name)->required();
  for (auto* command : {key_create_app, key_list_app, key_rotate_app}) command->add_flag("--json", json);
  for (auto* command : key_app->get_subcommands({})) command->fallthrough();

  hutch::BenchOptions bench{.version = HUTCH_VERSION};
  auto* bench_app = app.add_subcommand("bench", "How fast sandboxes start here, compared with plain Python");
  bench_app->add_flag("--quick", bench.quick, "About 20 seconds instead of about 75");
  bench_app->add_option("--rounds", bench.rounds, "Exactly so many rounds, however long they take")
      ->check(CLI::Range(1, 10'000));
  auto* bench_json = bench_app->add_flag("--json", bench.json);
  bench_app->add_flag("--markdown", bench.markdown, "The table of BENCHMARKS.md")->excludes(bench_json);
  bench_app->add_flag("--weaker-limits", bench.weaker_limits, "Where there are no control groups");

  hutch::DoctorOptions doctor;
  auto* doctor_app = app.add_subcommand("doctor", "Can sandboxes run here, what is missing, and do the walls hold");
  doctor_app->add_flag("--json", json);
  doctor_app->add_flag("--verbose", doctor.verbose, "Say what each item is for, also where all is well");
  auto* delegate = doctor_app->add_option("--delegate", doctor.delegate, "As root: give a USER or uid a control group");
  doctor_app->add_option("--undelegate", doctor.undelegate, "As root: take it away again")->excludes(delegate);

  auto* config_app = app.add_subcommand("config", "The effective configuration, and where each value comes from");
  config_app->add_flag("--json", json);

  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    const bool asked = problem.get_exit_code() == 0;
    return asked ? app.exit(problem) : (app.exit(problem), hutch::kOwnFailure);
  }

  const auto config = Config::load();
  if (!config) return own_failure(config.error());
  const OutputFormat format = json ? OutputFormat::json : OutputFormat::text;
  if (*run_app) {
    run.has_code = code->count() > 0;
    words.insert(words.end(), after_dashes.begin(), after_dashes.end());
    if (!run.has_code) {
      if (words.empty())
        return own_failure({.message = "nothing to run", .hint = "hutch run FILE, hutch run - or hutch run -c CODE"});
      run.file = words.front();
      words.erase(words.begin());
    }
    run.arguments = words;
    result = server->count() > 0 ? hutch::remote_run_command(run, remote) : hutch::run_command(run, *config);
  } else if (*shell_app) {
    result = hutch::shell_command(shell, *config);
  } else if (*status_app) {
    result = hutch::engine_status(format);
  } else if (*stop_app) {
    result = hutch::engine_stop();
  } else if (*serve_app) {
    result = hutch::engine_serve(*config);
  } else if (*daemon_app) {
    result = hutch::serve_command(serve, *config, HUTCH_VERSION);
  } else if (*session_app) {
    session.format = format;
    session.what.json = json;
    session.what.has_code = session_code->count() > 0;
    if (*session_run_app && !session.what.has_code && session.what.file.empty())
      return own_failure({.message = "nothing to run", .hint = "hutch session run ID FILE, - or -c CODE"});
    result = *session_ls_app       ? hutch::session_list(session)
             : *session_create_app ? hutch::session_create(session)
             : *session_run_app    ? hutch::session_run(session)
             : *session_attach_app ? hutch::session_attach(session)
                                   : hutch::session_remove(session);
  } else if (*key_app) {
    const auto data = hutch::serve_directory(key_data, *config);
    if (!data) return own_failure(data.error());
    key.data = *data;
    key.format = format;
    result = *key_create_app   ? hutch::key_create(key)
             : *key_list_app   ? hutch::key_list(key)
             : *key_revoke_app ? hutch::key_revoke(key)
                               : hutch::key_rotate(key);
  } else if (*bench_app) {
    result = hutch::bench_command(bench);
  } else if (*doctor_app) {
    doctor.format = format;
    result = hutch::doctor_command(doctor);
  } else if (*config_app) {
    result = config_command(*config, format);
  } else {
    const auto store = open_store();
    if (!store) return own_failure(store.error());
    if (*build_app) {
      result = hutch::template_build(*store, name, force ? hutch::Rebuild::always : hutch::Rebuild::if_missing, format);
    } else if (*list_app) {
      result = hutch::template_list(*store, format);
    } else if (*show_app) {
      result = hutch::template_show(*store, name, format);
    } else {
      result = hutch::template_rm(*store, name);
    }
  }
  return result;
}
