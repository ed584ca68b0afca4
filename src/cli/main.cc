// The `hutch` command: which one was asked for, and what it returns.
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <iostream>

#include "cli/commands.h"
#include "cli/report.h"

namespace {

using hutch::Action;
using hutch::Config;
using hutch::Words;

struct Command {
  const char* name;
  const char* summary;
  Action (*define)(CLI::App&, const Words&);
};

constexpr std::array kCommands{
    Command{"run", "Run a program in a fresh sandbox", hutch::define_run},
    Command{"shell", "An interactive prompt in one sandbox", hutch::define_shell},
    Command{"notebook", "Run the cells of a Jupyter notebook in one sandbox", hutch::define_notebook},
    Command{"engine", "The background engine that makes the second run fast", hutch::define_engine},
    Command{"template", "The environments that programs run in", hutch::define_template},
    Command{"serve", "The daemon: sessions, streams and files over HTTP, for many users", hutch::define_serve},
    Command{"mcp", "Tools for a model: an MCP server on standard input and output", hutch::define_mcp},
    Command{"session", "Sessions of a daemon", hutch::define_session},
    Command{"key", "Who may use the daemon", hutch::define_key},
    Command{"agent", "Ask a model a question; it writes code, and the sandbox runs it", hutch::define_agent},
    Command{"tools", "What agents are told of the tools, in the format of each kind of client", hutch::define_tools},
    Command{"bench", "How fast sandboxes start here, compared with plain Python", hutch::define_bench},
    Command{"doctor", "Can sandboxes run here, what is missing, and do the walls hold", hutch::define_doctor},
    Command{"config", "The effective configuration, and where each value comes from", hutch::define_config},
};

// What follows `--` belongs to the program, whatever it looks like.
Words split_off_arguments(int& argc, char** argv) {
  Words rest;
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

int carry_out(int argc, char** argv) {
  const Words after_dashes = split_off_arguments(argc, argv);
  CLI::App app{
      "Hutch runs Python that you do not trust, in a sandbox that it cannot leave.\n\n"
      "  hutch run -c 'print(6 * 7)'\n"
      "  hutch run analysis.py --in data.csv --out results\n"
      "  hutch run --json --timeout 10 script.py -- argument"};
  app.require_subcommand(1);
  app.set_version_flag("--version", "hutch " HUTCH_VERSION);
  app.failure_message(CLI::FailureMessage::help);
  const std::string_view wanted = argc > 1 ? argv[1] : "";
  Action action;
  for (const auto& command : kCommands) {
    auto* sub = app.add_subcommand(command.name, command.summary);
    if (wanted == command.name) action = command.define(*sub, after_dashes);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& problem) {
    const bool asked = problem.get_exit_code() == 0;
    return asked ? app.exit(problem) : (app.exit(problem), hutch::kOwnFailure);
  }
  if (!action) return hutch::own_failure({.message = "say the command first", .hint = "hutch --help lists them"});
  const auto config = Config::load();
  return config ? action(*config) : hutch::own_failure(config.error());
}

}  // namespace

int main(int argc, char** argv) {
  open_missing_streams();
  raise_descriptor_limit();
  const int result = carry_out(argc, argv);
  std::cout.flush();
  std::fflush(nullptr);
  ::_exit(result);  // what static objects hold is the kernel's to free
}
