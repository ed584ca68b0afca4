// Between the engine and the keeper: one packet per message, the kind first. Numbers only: no string from the engine
// ever becomes a path or an argument here.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include "sandbox/limits.h"
#include "sandbox/steps.h"
#include "zygote/processors.h"

namespace hutch {

inline constexpr std::size_t kMostKeeperBytes = 16 << 10;
inline constexpr std::size_t kMostTaskBytes = 8 << 10;

enum class KeeperRequestKind : std::uint8_t {
  start,
  signal,
  usage,
  limit,
  settle,
  stock,
  measure,
  spare,
  place,
  release,
  last = release
};

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
  // Whether a control group need not be written again.
  [[nodiscard]] bool same_group_limits(const LimitNumbers& other) const {
    return memory == other.memory && cpu_percent == other.cpu_percent && processes == other.processes;
  }
  // Whether a sandbox made for `other` will do once its control group is written: the rest is fixed when a runner
  // starts. Without control groups memory and processor time are, too.
  [[nodiscard]] bool same_fixed_limits(const LimitNumbers& other, bool has_group) const {
    return processes == other.processes && open_files == other.open_files && scratch == other.scratch &&
           inodes == other.inodes && (has_group || (cpu_ms == other.cpu_ms && memory == other.memory));
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
  bool in_advance = false;     // nobody waits: the runner says when it is ready for a task
  bool others_follow = false;  // make the next shell while this one's runner is forked
  bool lasting = false;        // the sandbox outlives its runner, and others may join it
  std::uint64_t into = 0;      // join the lasting sandbox of that run instead of a new one
  bool stand_back = false;     // behind those who did not have to wait
  bool helper = false;         // works for us beside the program, and is spared when that is killed
  std::string task;            // what the engine would say to the runner first, if it is not long
  LimitNumbers limits;
  Step fault = Step::none;
  template <class A>
  void fields(A& a) {
    a(run), a(template_index), a(warm), a(weaker_limits), a(in_advance), a(others_follow), a(lasting), a(into);
    a(stand_back), a(helper), a(task), a(limits), a(fault);
  }
};

// A signal to the runner alone, or SIGKILL to the whole sandbox; of a lasting one, to everything but init and helpers.
struct SignalRequest {
  std::uint64_t run = 0;
  std::int32_t signal = 0;
  bool to_others = false;  // SIGKILL to whatever the runner has started, not to itself
  template <class A>
  void fields(A& a) {
    a(run), a(signal), a(to_others);
  }
};

struct UsageRequest {
  std::uint64_t run = 0;
  bool forget_peak = false;  // what was used until now was not the program's
  template <class A>
  void fields(A& a) {
    a(run), a(forget_peak);
  }
};

// Other limits for a sandbox that was made in advance: those of its control group only.
struct LimitRequest {
  std::uint64_t run = 0;
  LimitNumbers limits;
  template <class A>
  void fields(A& a) {
    a(run), a(limits);
  }
};

// What becomes of a sandbox that was made in advance and is now in use: closed to others, or lasting.
struct SettleRequest {
  std::uint64_t run = 0;
  bool lasting = false;
  template <class A>
  void fields(A& a) {
    a(run), a(lasting);
  }
};

// Make spare shells until there are so many, one at a time and when there is nothing else to do.
struct StockRequest {
  std::uint32_t template_index = 0;
  std::uint32_t shells = 0;
  template <class A>
  void fields(A& a) {
    a(template_index), a(shells);
  }
};

// How long does a bare fork of this template's zygote take, to the end of the child?
struct MeasureRequest {
  std::uint32_t template_index = 0;
  template <class A>
  void fields(A& a) {
    a(template_index);
  }
};

// Some processors for the engine and those who do not have to wait; the keeper, and who stands back, use the others.
struct SpareRequest {
  bool processors = false;
  template <class A>
  void fields(A& a) {
    a(processors);
  }
};

// Where a sandbox is from now on, as long as some are spared.
struct PlaceRequest {
  std::uint64_t run = 0;
  Place place = Place::anywhere;
  template <class A>
  void fields(A& a) {
    a(run), a(place);
  }
};

// Kill what is left and take the sandbox apart.
struct ReleaseRequest {
  std::uint64_t run = 0;
  bool leisurely = false;  // its program is over, and others need the processors more
  template <class A>
  void fields(A& a) {
    a(run), a(leisurely);
  }
};
inline constexpr std::size_t kMostAsleep = 128;  // sandboxes that wait to be taken apart

enum class KeeperReplyKind : std::uint8_t {
  hello,
  started,
  failed,
  exited,
  usage,
  limited,
  measured,
  gone,
  last = gone
};

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

// Attached: the workspace directory, the engine's ends of stdin, stdout, stderr and the control socket, and the files
// of the control group's handle: all of them, the one that tells processor time, or none.
inline constexpr std::size_t kStartedFds = 5, kHandleFds = 3;
struct StartedReply {
  std::uint64_t run = 0;
  bool shell_was_ready = false;  // only the fork was left to do
  bool cgroup_is_v1 = false;
  bool stands_back = false;
  std::string threads;                    // of the handle
  std::vector<StepDuration> shell_steps;  // of making the shell, whenever that was
  template <class A>
  void fields(A& a) {
    a(run), a(shell_was_ready), a(cgroup_is_v1), a(stands_back), a(threads), a(shell_steps);
  }
};

struct FailedReply {
  std::uint64_t run = 0;
  Step step = Step::none;
  bool sandbox_gone = false;  // that it was to start in; after any other failure that one is what it was
  std::string message;
  std::string hint;
  template <class A>
  void fields(A& a) {
    a(run), a(step), a(sandbox_gone), a(message), a(hint);
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

// The runner ended, and every other process of its sandbox with it; of a lasting one, all but init and helpers.
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

// The limits that were asked for stand.
struct LimitedReply {
  std::uint64_t run = 0;
  template <class A>
  void fields(A& a) {
    a(run);
  }
};

struct MeasuredReply {
  std::uint64_t ns = 0;  // 0: there is no zygote
  template <class A>
  void fields(A& a) {
    a(ns);
  }
};

// Nothing is left of a sandbox that was released.
struct GoneReply {
  std::uint64_t run = 0;
  template <class A>
  void fields(A& a) {
    a(run);
  }
};

}  // namespace hutch
