// Between the engine and the keeper: one packet per message, the kind first. Numbers only: no string from the engine
// ever becomes a path or an argument here.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "sandbox/limits.h"
#include "sandbox/steps.h"

namespace hutch {

inline constexpr std::size_t kMostKeeperBytes = 16 << 10;

enum class KeeperRequestKind : std::uint8_t { start, signal, usage, release, last = release };

// Limits as numbers on the wire.
struct LimitNumbers {
  std::uint64_t wall_ms = 0, cpu_ms = 0, memory = 0, scratch = 0, output = 0;
  std::uint32_t cpu_percent = 0, processes = 0, open_files = 0, inodes = 0;
  template <class A>
  void fields(A& a) {
    a(wall_ms), a(cpu_ms), a(memory), a(scratch), a(output), a(cpu_percent), a(processes), a(open_files), a(inodes);
  }
  static LimitNumbers from(const Limits& limits) {
    return {.wall_ms = static_cast<std::uint64_t>(limits.wall.count()),
            .cpu_ms = static_cast<std::uint64_t>(limits.cpu.count()),
            .memory = limits.memory.count,
            .scratch = limits.scratch.count,
            .output = limits.output.count,
            .cpu_percent = limits.cpu_percent,
            .processes = limits.processes,
            .open_files = limits.open_files,
            .inodes = limits.inodes};
  }
  [[nodiscard]] Limits to_limits() const {
    return {.wall = std::chrono::milliseconds{wall_ms},
            .cpu = std::chrono::milliseconds{cpu_ms},
            .memory = Bytes{memory},
            .cpu_percent = cpu_percent,
            .processes = processes,
            .open_files = open_files,
            .scratch = Bytes{scratch},
            .inodes = inodes,
            .output = Bytes{output}};
  }
};

// Start a runner.
struct StartRequest {
  std::uint64_t run = 0;  // the engine's number for it
  std::uint32_t template_index = 0;
  bool warm = true;
  bool weaker_limits = false;
  LimitNumbers limits;
  Step fault = Step::none;
  template <class A>
  void fields(A& a) {
    a(run), a(template_index), a(warm), a(weaker_limits), a(limits), a(fault);
  }
};

// A signal to the runner alone, or SIGKILL to the whole sandbox.
struct SignalRequest {
  std::uint64_t run = 0;
  std::int32_t signal = 0;
  template <class A>
  void fields(A& a) {
    a(run), a(signal);
  }
};

struct UsageRequest {
  std::uint64_t run = 0;
  template <class A>
  void fields(A& a) {
    a(run);
  }
};

// Kill what is left and take the sandbox apart.
struct ReleaseRequest {
  std::uint64_t run = 0;
  template <class A>
  void fields(A& a) {
    a(run);
  }
};

enum class KeeperReplyKind : std::uint8_t { hello, started, failed, exited, usage, last = usage };

// Once, when the keeper is ready to serve.
struct KeeperHello {
  bool ok = false;
  std::string message;  // what went wrong, for a person
  std::string hint;
  std::string cgroup;  // empty: there is none, and cgroup_problem says why
  std::string cgroup_problem;
  std::string cgroup_hint;
  std::uint8_t landlock_abi = 0;
  bool own_ids = false;  // every sandbox has host ids of its own
  template <class A>
  void fields(A& a) {
    a(ok), a(message), a(hint), a(cgroup), a(cgroup_problem), a(cgroup_hint), a(landlock_abi), a(own_ids);
  }
};

struct StepDuration {
  Step step = Step::none;
  std::uint64_t ns = 0;
  template <class A>
  void fields(A& a) {
    a(step), a(ns);
  }
};

// Attached: the workspace directory, and the engine's ends of stdin, stdout, stderr and the control socket.
inline constexpr std::size_t kStartedFds = 5;
struct StartedReply {
  std::uint64_t run = 0;
  bool shell_was_ready = false;   // only the fork was left to do
  bool runner_was_ready = false;  // nothing was
  std::uint64_t fork_ns = 0;
  std::vector<StepDuration> shell_steps;  // of making the shell, whenever that was
  template <class A>
  void fields(A& a) {
    a(run), a(shell_was_ready), a(runner_was_ready), a(fork_ns), a(shell_steps);
  }
};

struct FailedReply {
  std::uint64_t run = 0;
  Step step = Step::none;
  std::string message;
  std::string hint;
  template <class A>
  void fields(A& a) {
    a(run), a(step), a(message), a(hint);
  }
};

struct UsageNumbers {
  std::uint64_t cpu_us = 0, peak_memory = 0, memory_now = 0, oom_kills = 0, process_limit_hits = 0, processes = 0;
  bool from_cgroup = false;
  template <class A>
  void fields(A& a) {
    a(cpu_us), a(peak_memory), a(memory_now), a(oom_kills), a(process_limit_hits), a(processes), a(from_cgroup);
  }
};

// The runner ended; its sandbox is being killed.
struct ExitedReply {
  std::uint64_t run = 0;
  std::int32_t wait_status = 0;
  UsageNumbers usage;
  template <class A>
  void fields(A& a) {
    a(run), a(wait_status), a(usage);
  }
};

struct UsageReply {
  std::uint64_t run = 0;
  UsageNumbers usage;
  template <class A>
  void fields(A& a) {
    a(run), a(usage);
  }
};

}  // namespace hutch
