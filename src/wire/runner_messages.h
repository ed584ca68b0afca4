// What the engine and the code inside a sandbox say to each other, over one stream socket. Everything that comes from
// the runner after `ready` is input from an attacker: it is capped, parsed strictly, and decides nothing but what the
// program could decide anyway: when it ends, and with which code.
//
// A frame is: u32 length of what follows, u8 type, payload. runner/wire.py is the other half of this file.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace hutch::wire {

inline constexpr std::uint32_t kMaxRunnerFrame = 1U << 20;  // what a sandbox may send at once
inline constexpr std::uint32_t kMaxTaskFrame = 16U << 20;   // what we send into a sandbox at once

// Engine to runner.
enum class TaskType : std::uint8_t { put_file = 1, run_script, open_shell, run_cell, run_in_session, open_porter };

// One piece of a file for /workspace; pieces of one file follow each other.
struct PutFile {
  std::string path;  // relative, already checked
  bool append = false;
  bool executable = false;
  std::string data;
  template <class A>
  void fields(A& a) {
    a(path), a(append), a(executable), a(data);
  }
};

using Environment = std::vector<std::pair<std::string, std::string>>;

// Run a program as __main__ and exit with its code.
struct RunScript {
  std::string code;
  std::string file_name;               // what tracebacks call it: "<string>", "<stdin>" or "/workspace/name.py"
  bool has_file = false;               // file_name exists in the workspace: set __file__ and sys.path[0] from it
  std::vector<std::string> arguments;  // sys.argv[1:]
  Environment environment;             // added to the template's
  template <class A>
  void fields(A& a) {
    a(code), a(file_name), a(has_file), a(arguments), a(environment);
  }
};

// Keep the interpreter and run cells in it.
struct OpenShell {
  Environment environment;
  bool ipython = false;  // cells as IPython runs them, where the template has it
  template <class A>
  void fields(A& a) {
    a(environment), a(ipython);
  }
};

struct RunCell {
  std::string code;
  template <class A>
  void fields(A& a) {
    a(code);
  }
};

// What a cell finds on its standard input: nothing, a text, or what a client sends while it runs.
enum class CellInput : std::uint8_t { none, text, live, last = live };

// A cell of a session, or a command for its shell.
struct RunInSession {
  std::string code;
  bool is_command = false;
  CellInput input = CellInput::none;
  std::string input_text;
  template <class A>
  void fields(A& a) {
    a(code), a(is_command), a(input), a(input_text);
  }
};

// Become the one who changes files for the file API; wire/porter_messages.h follows.
struct OpenPorter {
  template <class A>
  void fields(A&) {}
};

// Runner to engine. `ready` and `setup_failed` are sent by our own code before the first user instruction.
enum class RunnerType : std::uint8_t {
  ready = 64,
  setup_failed = 65,
  started = 66,
  error = 67,
  cell_done = 68,
  rested = 69,  // made in advance, rehearsed, ready for a task; no payload
  finished = 70,
  input_wanted = 71,  // a cell reads input that is live; no payload
};

// Every wall is up. Carries the monotonic time at which each step of joining ended, for `--explain`.
struct Ready {
  std::vector<std::uint64_t> step_end_ns;
  template <class A>
  void fields(A& a) {
    a(step_end_ns);
  }
};

struct SetupFailed {
  std::uint8_t step = 0;  // sandbox/steps.h
  std::uint32_t error_number = 0;
  template <class A>
  void fields(A& a) {
    a(step), a(error_number);
  }
};

// The user's code starts now; only a cold start says so.
struct Started {
  template <class A>
  void fields(A&) {}
};

// What Python said about an uncaught exception.
struct PythonError {
  std::string name;               // "ZeroDivisionError"
  std::string value;              // str(exception), at most 4 KiB
  std::string module_name;        // for ModuleNotFoundError: the name that was asked for
  std::int32_t error_number = 0;  // for OSError
  std::int32_t line = 0;          // 1-based, 0 when unknown
  std::int32_t column = 0;
  std::string source_line;
  std::vector<std::string> traceback;  // user frames first, at most 20 entries
  template <class A>
  void fields(A& a) {
    a(name), a(value), a(module_name), a(error_number), a(line), a(column), a(source_line), a(traceback);
  }
};

enum class CellStatus : std::uint8_t { ok, error, incomplete, exit, last = exit };

struct CellDone {
  CellStatus status = CellStatus::ok;
  std::uint8_t exit_code = 0;  // of a command, or of the whole shell
  template <class A>
  void fields(A& a) {
    a(status), a(exit_code);
  }
};

// The program is over and everything it wrote is in the pipes; the runner waits to be killed. Said so that a result
// need not wait until the kernel has taken the process apart.
struct Finished {
  std::uint8_t exit_code = 0;
  std::uint64_t started_ns = 0;  // when the user's code began, by the monotonic clock; for `--explain`
  template <class A>
  void fields(A& a) {
    a(exit_code), a(started_ns);
  }
};

}  // namespace hutch::wire
