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

inline constexpr std::uint32_t kMaxIdleFrame = 1U << 20;    // what a sandbox may send at once
inline constexpr std::uint32_t kMaxRunnerFrame = 7U << 20;  // and while its code runs: a picture may be among it
inline constexpr std::uint32_t kMaxTaskFrame = 16U << 20;   // what we send into a sandbox at once

// Engine to runner.
enum class TaskType : std::uint8_t {
  put_file = 1,
  run_script,
  open_shell,
  run_cell,
  run_in_session,
  open_porter,
  shown,
  ask,
  tool_result
};

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
  bool as_cell = false;                // one cell: its last value and its displays are told
  std::string directory;               // to run in, made if it is not there; empty: the workspace
  std::string tools;                   // of a cell: as in RunInSession
  template <class A>
  void fields(A& a) {
    a(code), a(file_name), a(has_file), a(arguments), a(environment), a(as_cell), a(directory), a(tools);
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
  std::string tools;  // of the client, for this cell: a JSON array of {name, description, input_schema}, or nothing
  template <class A>
  void fields(A& a) {
    a(code), a(is_command), a(input), a(input_text), a(tools);
  }
};

// What became of a `tool_call`: what the client answered, or why there is no answer.
struct ToolResult {
  std::uint32_t number = 0;  // the runner's own
  bool ok = false;
  std::string text;  // the result, or what went wrong
  std::string code;  // of a failure: tool_error, tool_timeout, tool_denied, cancelled
  template <class A>
  void fields(A& a) {
    a(number), a(ok), a(text), a(code);
  }
};

// Every `display` is answered, so that what is printed after it comes after it.
struct Shown {
  std::uint32_t number = 0;
  bool refused = false;
  template <class A>
  void fields(A& a) {
    a(number), a(refused);
  }
};

enum class AskKind : std::uint8_t { complete, inspect, variables, preview, last = preview };

// A question about the interpreter's state, between cells.
struct Ask {
  AskKind what = AskKind::variables;
  std::string code;
  std::uint32_t cursor = 0;  // in characters
  std::string name;
  std::uint32_t detail = 0;
  template <class A>
  void fields(A& a) {
    a(what), a(code), a(cursor), a(name), a(detail);
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
  display = 72,
  changes = 73,
  answer = 74,  // to `ask`: the payload is JSON
  tool_call = 75,
  tool_call_dropped = 76,
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
  std::string similar;            // modules that it may have meant, with commas
  std::int32_t error_number = 0;  // for OSError
  std::int32_t line = 0;          // 1-based, 0 when unknown
  std::int32_t column = 0;
  std::string source_line;
  std::vector<std::string> traceback;  // user frames first, at most 20 entries
  template <class A>
  void fields(A& a) {
    a(name), a(value), a(module_name), a(similar), a(error_number), a(line), a(column), a(source_line), a(traceback);
  }
};

enum class CellStatus : std::uint8_t { ok, error, incomplete, exit, last = exit };

struct CellDone {
  CellStatus status = CellStatus::ok;
  std::uint8_t exit_code = 0;         // of a command, or of the whole shell
  std::uint32_t execution_count = 0;  // which cell of its interpreter it was; 0 for a command
  template <class A>
  void fields(A& a) {
    a(status), a(exit_code), a(execution_count);
  }
};

enum class DisplayKind : std::uint8_t { display, result, update, clear, last = clear };

// Something to look at, in one or more representations: text as UTF-8, pictures as bytes, JSON as text.
struct Display {
  std::uint32_t number = 0;
  DisplayKind kind = DisplayKind::display;
  std::string id;     // by which it can be updated
  bool wait = false;  // clear: when the next one comes
  std::vector<std::pair<std::string, std::string>> items;
  std::string metadata;  // a JSON object, or nothing
  template <class A>
  void fields(A& a) {
    a(number), a(kind), a(id), a(wait), a(items), a(metadata);
  }
};

// The code calls a tool that the client offered, and waits for a `tool_result`.
struct ToolCall {
  std::uint32_t number = 0;
  std::string name;
  std::string input;  // a JSON object
  template <class A>
  void fields(A& a) {
    a(number), a(name), a(input);
  }
};

// Nobody waits for its result any more.
struct ToolCallDropped {
  std::uint32_t number = 0;
  template <class A>
  void fields(A& a) {
    a(number);
  }
};

enum class VariableChange : std::uint8_t { created, changed, removed, last = removed };

struct Variable {
  std::string name;
  VariableChange change = VariableChange::created;
  std::string type;
  std::string summary;
  template <class A>
  void fields(A& a) {
    a(name), a(change), a(type), a(summary);
  }
};

// What a cell did to the interpreter's state.
struct Changes {
  std::vector<Variable> variables;
  bool more = false;
  std::string directory;  // the new working directory, or nothing
  std::vector<std::string> packages;
  template <class A>
  void fields(A& a) {
    a(variables), a(more), a(directory), a(packages);
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
