// What a client (the CLI) and the engine say to each other over the engine's Unix socket. The engine believes nothing
// in a request: it validates limits, names and sizes again.
//
// A frame is: u32 length of what follows, u8 type, payload.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "wire/record.h"

namespace hutch::wire {

inline constexpr std::uint32_t kEngineProtocol = 4;
inline constexpr std::uint32_t kMaxEngineFrame = 24U << 20;
inline constexpr std::uint32_t kFileChunk = 1U << 20;

// Client to engine.
enum class RequestType : std::uint8_t {
  hello = 1,
  run,
  put_file,
  go,
  cell,
  interrupt,
  cancel,
  status,
  stop,
  measure_fork
};

struct Hello {
  std::uint32_t protocol = kEngineProtocol;
  std::string binary;    // identity of the client's own binary; another one means that the engine is outdated
  std::string settings;  // what the client's configuration says about engines; empty: any will do
  template <class A>
  void fields(A& a) {
    a(protocol), a(binary), a(settings);
  }
};

enum class RunMode : std::uint8_t { script, shell, ipython, last = ipython };

struct RunLimits {
  std::uint64_t wall_ms = 0, cpu_ms = 0, memory = 0, scratch = 0, output = 0;
  std::uint32_t cpu_percent = 0, processes = 0, open_files = 0, inodes = 0;
  template <class A>
  void fields(A& a) {
    a(wall_ms), a(cpu_ms), a(memory), a(scratch), a(output), a(cpu_percent), a(processes), a(open_files), a(inodes);
  }
};

// Attached: the read end of the program's standard input. `put_file` frames and one `go` follow.
struct RunRequest {
  std::string template_name;
  RunMode mode = RunMode::script;
  std::string code;
  std::string file_name;
  bool has_file = false;
  std::vector<std::string> arguments;
  Environment environment;
  RunLimits limits;
  bool weaker_limits = false;
  bool cold = false;
  bool on_demand = false;   // not in a sandbox that was made in advance
  bool want_files = false;  // attach a descriptor to every `file`
  bool as_cell = false;     // a script as one cell: its last value and its displays are told
  std::string directory;    // to run in; empty: the workspace
  std::string fault;        // tests: the name of the set-up step that fails
  template <class A>
  void fields(A& a) {
    a(template_name), a(mode), a(code), a(file_name), a(has_file), a(arguments), a(environment), a(limits);
    a(weaker_limits), a(cold), a(on_demand), a(want_files), a(as_cell), a(directory), a(fault);
  }
};

// One cell of a shell.
struct CellRequest {
  std::string code;
  std::uint64_t timeout_ms = 0;  // 0: the shell's. A cell with its own is whole as it is, and late it is interrupted
  template <class A>
  void fields(A& a) {
    a(code), a(timeout_ms);
  }
};

// Engine to client.
enum class ReplyType : std::uint8_t { hello = 64, output, file, cell_done, finished, failed, status, fork_time };

struct HelloReply {
  std::uint32_t protocol = kEngineProtocol;
  bool current = true;  // false: made by another binary or for other templates; start a new engine
  std::uint32_t pid = 0;
  template <class A>
  void fields(A& a) {
    a(protocol), a(current), a(pid);
  }
};

// A file that the run created, changed or deleted. Attached when `has_content`: its content, open for reading.
struct FileMessage {
  FileEntry entry;
  bool has_content = false;
  template <class A>
  void fields(A& a) {
    a(entry), a(has_content);
  }
};

// How a cell ended; the shell goes on unless it says `exit`.
struct CellReport {
  CellStatus status = CellStatus::ok;
  Record record;
  template <class A>
  void fields(A& a) {
    a(status), a(record);
  }
};

// Hutch's own failure: the program did not run, or its result could not be had.
struct Failed {
  std::string message;
  std::string hint;
  std::string code;                  // sandbox_start_failed, bad_arguments, unknown_template, ...
  std::string step;                  // of sandbox/steps.h, or empty
  std::uint64_t retry_after_ms = 0;  // 0: trying again is no remedy
  template <class A>
  void fields(A& a) {
    a(message), a(hint), a(code), a(step), a(retry_after_ms);
  }
};

// How long does a bare fork of a template's zygote take?
struct MeasureFork {
  std::string template_name;
  template <class A>
  void fields(A& a) {
    a(template_name);
  }
};

struct ForkTime {
  std::uint64_t ns = 0;
  template <class A>
  void fields(A& a) {
    a(ns);
  }
};

struct EngineStatus {
  std::uint32_t pid = 0;
  std::uint64_t uptime_ms = 0;
  std::uint64_t runs = 0;
  std::uint32_t running = 0;
  std::uint32_t waiting = 0;
  std::uint32_t most_running = 0;
  std::uint32_t sessions = 0;    // open shells
  std::uint32_t dying = 0;       // sandboxes being taken apart
  std::uint32_t pool_ready = 0;  // runners that wait for a task
  std::uint64_t pool_hits = 0, pool_misses = 0;
  std::uint64_t idle_exit_ms = 0;
  std::vector<std::string> templates;
  std::string limits;  // "cgroup v1: memory, cpu, cpuacct, pids", or why there are none
  std::string filter;  // hash of the system call filter
  template <class A>
  void fields(A& a) {
    a(pid), a(uptime_ms), a(runs), a(running), a(waiting), a(most_running), a(sessions), a(dying);
    a(pool_ready), a(pool_hits), a(pool_misses), a(idle_exit_ms), a(templates), a(limits), a(filter);
  }
};

}  // namespace hutch::wire
