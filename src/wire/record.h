// The immutable record of one run, as it travels from the engine to whoever asked for it. Exit status, times, sizes
// and identities come from the kernel and the engine; only `python` is the sandbox's own word.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "wire/runner_messages.h"

namespace hutch::wire {

enum class Status : std::uint8_t { ok, error, timeout, cancelled, last = cancelled };

// Which stream a piece of output came from.
enum class Stream : std::uint8_t { out, err, last = err };

struct OutputEvent {
  Stream stream = Stream::out;
  std::uint64_t at_us = 0;                 // since the request arrived
  std::string data;                        // bytes as the program wrote them
  std::shared_ptr<const Display> display;  // or something to look at, between what was written
  template <class A>
  void fields(A& a) {
    a(stream), a(at_us), a(data), a(display);
  }
};

enum class Change : std::uint8_t { created, modified, deleted, last = deleted };

struct FileEntry {
  std::string path;  // relative to /workspace, bytes as the program named it
  std::uint64_t size = 0;
  std::int64_t modified_ns = 0;  // since the epoch
  std::string mime_type;
  std::string sha256;  // lower-case hex; empty when the file could not be read
  Change change = Change::created;
  template <class A>
  void fields(A& a) {
    a(path), a(size), a(modified_ns), a(mime_type), a(sha256), a(change);
  }
};

// agent-facing error: category and code from one fixed table (session/error_table.h).
struct RunError {
  std::string category;
  std::string code;
  std::string message;
  std::string hint;
  std::string fix;    // change_code, wait_and_retry, new_session, ask_user, ask_operator, none
  std::string state;  // kept, files_kept, lost
  bool retryable = false;
  std::optional<PythonError> python;
  std::string limit_name;  // empty when no limit was involved
  std::uint64_t limit_value = 0;
  std::uint64_t limit_used = 0;
  std::string limit_unit;  // "bytes", "ms", "count"
  template <class A>
  void fields(A& a) {
    a(category), a(code), a(message), a(hint), a(fix), a(state), a(retryable), a(python);
    a(limit_name), a(limit_value), a(limit_used), a(limit_unit);
  }
};

struct Usage {
  std::uint64_t wall_us = 0;       // execution: from "every wall is up" to the program's exit
  std::uint64_t cpu_us = 0;        // user and system, every process of the sandbox
  std::uint64_t peak_memory = 0;   // bytes
  std::uint64_t scratch_used = 0;  // bytes of /workspace, /tmp and /dev/shm at the end
  std::uint64_t output = 0;        // bytes the program wrote, kept or not
  std::string memory_source;       // where peak_memory comes from: "cgroup" or "watchdog"
  template <class A>
  void fields(A& a) {
    a(wall_us), a(cpu_us), a(peak_memory), a(scratch_used), a(output), a(memory_source);
  }
};

struct Phases {
  std::uint64_t validation_us = 0;  // checking the request
  std::uint64_t setup_us = 0;       // shell, fork, walls
  std::uint64_t execution_us = 0;
  std::uint64_t collection_us = 0;  // drain output, list and hash files
  std::uint64_t total_us = 0;
  template <class A>
  void fields(A& a) {
    a(validation_us), a(setup_us), a(execution_us), a(collection_us), a(total_us);
  }
};

// One line of "where the time went".
struct StepTime {
  std::string name;
  std::uint64_t duration_us = 0;
  template <class A>
  void fields(A& a) {
    a(name), a(duration_us);
  }
};

// One wall, whether it is up, and what exactly it is here: {"landlock", true, "ABI 7"}.
struct Wall {
  std::string name;
  bool up = false;
  std::string detail;
  template <class A>
  void fields(A& a) {
    a(name), a(up), a(detail);
  }
};

// A forbidden system call that the program attempted.
struct Denial {
  std::string syscall;
  std::string detail;
  std::uint64_t count = 0;
  std::string hint;
  template <class A>
  void fields(A& a) {
    a(syscall), a(detail), a(count), a(hint);
  }
};

struct Record {
  std::string execution_id;
  Status status = Status::ok;
  std::string template_name;
  std::int64_t started_at_ns = 0;  // since the epoch
  std::int32_t exit_code = 0;
  bool warm = false;  // forked from a zygote, or started cold
  bool stdout_truncated = false;
  bool stderr_truncated = false;
  bool files_truncated = false;  // more files than the list may hold
  bool displays_truncated = false;
  std::uint32_t execution_count = 0;  // of a cell
  std::optional<Changes> changes;     // to the interpreter's state, by a cell
  std::optional<RunError> error;
  Usage usage;
  Phases phases;
  std::vector<StepTime> steps;
  std::vector<Wall> walls;
  std::vector<Denial> denials;
  std::vector<std::string> notices;  // what the reader must know: "limits are weaker: ..."
  template <class A>
  void fields(A& a) {
    a(execution_id), a(status), a(template_name), a(started_at_ns), a(exit_code), a(warm);
    a(stdout_truncated), a(stderr_truncated), a(files_truncated), a(displays_truncated), a(execution_count), a(changes);
    a(error), a(usage), a(phases);
    a(steps), a(walls), a(denials), a(notices);
  }
};

}  // namespace hutch::wire
