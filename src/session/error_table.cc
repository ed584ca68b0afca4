#include "session/error_table.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "base/utf8.h"

namespace hutch {
namespace {

using wire::PythonError;
using wire::RunError;

std::string seconds(std::uint64_t ms) { return fmt::format("{:g} s", static_cast<double>(ms) / 1000.0); }

std::string size(std::uint64_t bytes) {
  if (bytes >= 1ULL << 30 && bytes % (1ULL << 30) == 0) return fmt::format("{} GiB", bytes >> 30);
  if (bytes >= 1ULL << 20) return fmt::format("{:.4g} MiB", static_cast<double>(bytes) / (1 << 20));
  return fmt::format("{} bytes", bytes);
}

RunError error_of(std::string category, std::string code, std::string message, std::string hint) {
  return {.category = std::move(category),
          .code = std::move(code),
          .message = std::move(message),
          .hint = std::move(hint),
          .fix = "change_code",
          .state = "lost"};  // a one-shot sandbox ends with its program
}

RunError with_limit(RunError error, std::string name, std::uint64_t value, std::uint64_t used, std::string unit) {
  error.limit_name = std::move(name);
  error.limit_value = value;
  error.limit_used = used;
  error.limit_unit = std::move(unit);
  return error;
}

RunError wall_timeout(const RunFacts& facts) {
  const auto limit = static_cast<std::uint64_t>(facts.limits.wall.count());
  return with_limit(error_of("timeout", "wall_timeout", "Execution timed out after " + seconds(limit) + ".",
                             "Do less per run, or ask for more time (--timeout, up to the configured ceiling)."),
                    "wall_time", limit, facts.wall_ms, "ms");
}

RunError cpu_timeout(const RunFacts& facts) {
  const auto limit = static_cast<std::uint64_t>(facts.limits.cpu.count());
  return with_limit(error_of("timeout", "cpu_timeout",
                             fmt::format("Killed: the program used {} of processor time, more than its {}.",
                                         seconds(facts.usage.cpu_us / 1000), seconds(limit)),
                             "Use a faster algorithm or vectorised operations, or ask for more (--cpu-time)."),
                    "cpu_time", limit, facts.usage.cpu_us / 1000, "ms");
}

RunError out_of_memory(const RunFacts& facts) {
  const std::uint64_t limit = facts.limits.memory.count;
  const std::uint64_t used = facts.usage.peak_memory;
  return with_limit(
      error_of("memory_limit", "oom_killed", "Killed: the program used more than " + size(limit) + " of memory.",
               "Work in pieces (for example pd.read_csv(..., chunksize=100000)), or ask for more (--memory)."),
      "memory", limit, used, "bytes");
}

RunError too_many_processes(const RunFacts& facts) {
  return with_limit(error_of("resource_limit", "too_many_processes",
                             fmt::format("The program tried to have more than {} processes and threads at once.",
                                         facts.limits.processes),
                             "Use fewer workers, or ask for more (--processes)."),
                    "processes", facts.limits.processes,
                    std::max<std::uint64_t>(facts.usage.processes, facts.limits.processes), "count");
}

RunError too_much_output(const RunFacts& facts) {
  return with_limit(error_of("resource_limit", "output_limit",
                             "Killed: the program wrote more than " + size(facts.limits.output.count) + " of output.",
                             "Print less, or write the data to a file in /workspace."),
                    "output", facts.limits.output.count, facts.output_bytes, "bytes");
}

// One row per reason for which the engine ends a run.
std::optional<RunError> engine_ended(const RunFacts& facts) {
  switch (facts.ended) {
    case Ended::by_itself:
      return std::nullopt;
    case Ended::wall_limit:
      return wall_timeout(facts);
    case Ended::cpu_limit:
      return cpu_timeout(facts);
    case Ended::memory_limit:
      return out_of_memory(facts);
    case Ended::process_limit:
      return too_many_processes(facts);
    case Ended::output_limit:
      return too_much_output(facts);
    case Ended::denial_flood:
      return error_of("crash", "seccomp_violation", "Killed: the program kept making forbidden system calls.",
                      "Remove the calls that the sandbox refuses; `denials` names them.");
    case Ended::cancelled:
      return cancelled_error();
  }
  return std::nullopt;
}

RunError signalled(const RunFacts& facts, int signal) {
  if (signal == SIGKILL && facts.usage.oom_kills > 0) return out_of_memory(facts);
  if (signal == SIGXCPU) return cpu_timeout(facts);
  if (signal == SIGXFSZ) {
    return with_limit(
        error_of("resource_limit", "file_too_large", "The program wrote a file larger than its scratch space.",
                 "Write less, or ask for more (--scratch)."),
        "scratch", facts.limits.scratch.count, facts.limits.scratch.count, "bytes");
  }
  const char* code = signal == SIGSEGV   ? "signal_segv"
                     : signal == SIGABRT ? "signal_abrt"
                     : signal == SIGSYS  ? "seccomp_violation"
                                         : "signal_other";
  return error_of("crash", code, fmt::format("The interpreter died from signal {} ({}).", signal, ::strsignal(signal)),
                  "Look for native code that crashes: ctypes, a C extension, or very deep recursion.");
}

bool is_any(const std::string& name, std::initializer_list<const char*> of) {
  for (const char* candidate : of) {
    if (name == candidate) return true;
  }
  return false;
}

RunError no_network(const std::string& said) {
  RunError error =
      error_of("network_blocked", "network_disabled", said, "This sandbox has no network: put the data in with --in.");
  error.fix = "ask_operator";  // no other code would reach anybody
  return error;
}

RunError from_os_error(const RunFacts& facts, const PythonError& python) {
  const std::string said = python.name + ": " + python.value;
  switch (python.error_number) {
    case ENOSPC:
    case EDQUOT:
      return with_limit(error_of("resource_limit", "disk_full", "The scratch space (/workspace and /tmp) is full.",
                                 "Write less, delete temporary files, or ask for more (--scratch, --inodes)."),
                        "scratch", facts.limits.scratch.count, facts.limits.scratch.count, "bytes");
    case EFBIG:
      return with_limit(error_of("resource_limit", "file_too_large", "A file grew beyond the scratch space.",
                                 "Write less, or ask for more (--scratch)."),
                        "scratch", facts.limits.scratch.count, facts.limits.scratch.count, "bytes");
    case EMFILE:
      return with_limit(error_of("resource_limit", "too_many_files",
                                 fmt::format("The program had more than {} files open.", facts.limits.open_files),
                                 "Close files when done (use `with open(...)`), or ask for more (--open-files)."),
                        "open_files", facts.limits.open_files, facts.limits.open_files, "count");
    case EAGAIN:
      if (facts.usage.process_limit_hits > 0 || !facts.usage.from_cgroup) return too_many_processes(facts);
      break;
    case EROFS:
      return error_of("permission_denied", "readonly_fs", said,
                      "Write to /workspace or /tmp; everything else is read-only.");
    case EACCES:
      // A file would be named; without one it was a connection, which Landlock refuses so.
      if (python.value == "[Errno 13] Permission denied") return no_network(said);
      [[fallthrough]];
    case EPERM:
      return error_of(
          "permission_denied", "path_denied", said,
          "Use files in /workspace or /tmp; the sandbox shows nothing else for writing and has no network.");
    case ENETUNREACH:
    case EHOSTUNREACH:
      return no_network(said);
    default:
      break;
  }
  return error_of("python_exception", "exception", said, "Fix the program; the traceback names the line.");
}

RunError failed_call(const std::string& code, const std::string& said) {
  const char* hint = code == "tool_timeout"
                         ? "Whoever offers the tool must answer with POST /v1/runs/{run}/tool_results; allow more time "
                           "with tool_timeout, or catch TimeoutError."
                     : code == "tool_denied" ? "Call only tools that are offered for this run, and fewer at once."
                                             : "Change what is asked of the tool, or catch tools.ToolError.";
  RunError error = error_of("host_call_failed", code, said, hint);
  error.retryable = code == "tool_timeout";
  return error;
}

RunError from_python(const RunFacts& facts, const PythonError& python) {
  const std::string said = python.value.empty() ? python.name : python.name + ": " + python.value;
  if (facts.host_call) return failed_call(facts.host_call->code, said);
  if (is_any(python.name, {"SyntaxError", "IndentationError", "TabError"})) {
    return error_of("syntax_error", python.name == "SyntaxError" ? "syntax_error" : "indentation_error", said,
                    "Correct the syntax at that line and run again.");
  }
  if (python.name == "ModuleNotFoundError") {
    std::string hint = "Use a module the template has (`hutch template show`), or add the package to a template.";
    if (!python.similar.empty()) hint = "There is " + printable(python.similar) + ", if that was meant. " + hint;
    return error_of("missing_module", "module_not_found", said, std::move(hint));
  }
  if (python.name == "MemoryError") {
    RunError error = out_of_memory(facts);
    error.code = "memory_error";
    error.message = "Python could not allocate memory.";
    return error;
  }
  // Sockets, urllib, requests, httpx: with no network at all there is only one reason why these fail.
  if (is_any(python.name, {"gaierror", "herror", "URLError", "ConnectionError", "NewConnectionError", "MaxRetryError",
                           "NameResolutionError", "ConnectError", "ConnectTimeout"})) {
    return no_network(said);
  }
  if (python.name == "EOFError" && python.value == "EOF when reading a line") {
    return error_of("stdin_unavailable", "input_called", "input() found no standard input.",
                    "Pass the input on standard input, as an argument after --, or as a file with --in.");
  }
  if (python.name == "RuntimeError" && python.value == "can't start new thread") return too_many_processes(facts);
  if (python.error_number != 0) return from_os_error(facts, python);
  return error_of("python_exception", "exception", said, "Fix the program; the traceback names the line.");
}

}  // namespace

RunError cancelled_error() {
  RunError error =
      error_of("cancelled", "user_cancelled", "The run was cancelled.", "Run it again if it is still wanted.");
  error.retryable = true;
  error.fix = "none";
  return error;
}

Verdict judge(const RunFacts& facts) {
  Verdict verdict;
  const bool signal = WIFSIGNALED(facts.wait_status);
  verdict.exit_code = signal ? 128 + WTERMSIG(facts.wait_status) : WEXITSTATUS(facts.wait_status);
  if (facts.ended == Ended::wall_limit || facts.ended == Ended::cpu_limit) {
    verdict.exit_code = 124;
  } else if (facts.ended != Ended::by_itself) {
    verdict.exit_code = 128 + SIGKILL;  // also when the program came to its own end a moment before
  }

  if (facts.ended != Ended::by_itself) {
    verdict.error = engine_ended(facts);
  } else if (signal) {
    verdict.error = signalled(facts, WTERMSIG(facts.wait_status));
  } else if (verdict.exit_code != 0 && facts.python) {
    verdict.error = from_python(facts, *facts.python);
  } else if (verdict.exit_code != 0) {
    verdict.error = error_of("system_exit", "exit", fmt::format("The program exited with code {}.", verdict.exit_code),
                             "Nothing to do if the program meant it.");
    verdict.error->fix = "none";
  }
  if (!verdict.error) return verdict;
  verdict.error->python = facts.python;
  verdict.status = wire::Status::error;
  if (verdict.error->category == "timeout") {
    verdict.status = wire::Status::timeout;
    verdict.exit_code = 124;
  }
  if (facts.ended == Ended::cancelled) verdict.status = wire::Status::cancelled;
  return verdict;
}

}  // namespace hutch
