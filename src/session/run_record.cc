// The last step of a run: everything that was seen, put into its record.
#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>

#include "base/id.h"
#include "sandbox/seccomp_filter.h"
#include "session/run.h"

namespace hutch {
namespace {

constexpr const char* kWeakerNotice =
    "limits are weaker: no control groups here, so rlimits and a watchdog stand in (--weaker-limits)";

std::uint64_t us_between(Clock::time_point begin, Clock::time_point end) {
  const auto span = std::chrono::duration_cast<std::chrono::microseconds>(end - begin).count();
  return span > 0 ? static_cast<std::uint64_t>(span) : 0;
}

std::vector<std::string> notices_of(const UsageNumbers& usage, const DisplayBudget& displays) {
  std::vector<std::string> notices;
  if (!usage.from_cgroup) notices.emplace_back(kWeakerNotice);
  if (displays.left_out() > 0) {
    notices.push_back(fmt::format("displays left out: {}; a run may show {}, of {} MiB together", displays.left_out(),
                                  DisplayCaps{}.count, DisplayCaps{}.total.count >> 20));
  }
  return notices;
}

}  // namespace

wire::Record Run::make_record(const Collection& files) {
  const std::uint64_t execution_us = us_between(up_, finished_);
  // One that ran out of time and ended when it was interrupted did not end by itself.
  const bool late = ended_ == Ended::by_itself && cell_timed_out_;
  const Verdict verdict = judge({.ended = late ? Ended::wall_limit : ended_,
                                 .wait_status = wait_status_,
                                 .limits = limits_now_,
                                 .usage = usage_,
                                 .wall_ms = execution_us / 1000,
                                 .output_bytes = output_bytes_,
                                 .python = python_,
                                 .host_call = failed_call()});
  wire::Record record{.execution_id = random_id("exe"),
                      .status = verdict.status,
                      .template_name = spec_.request.template_name,
                      .started_at_ns = started_at_ns_,
                      .exit_code = verdict.exit_code,
                      .warm = !spec_.request.cold,
                      .stdout_truncated = truncated_[0],
                      .stderr_truncated = truncated_[1],
                      .files_truncated = files.truncated,
                      .displays_truncated = displays_.truncated(),
                      .changes = std::move(changes_),
                      .error = verdict.error};
  record.usage = {.wall_us = execution_us,
                  .cpu_us = cell_cpu_us(),
                  .peak_memory = usage_.peak_memory,
                  .scratch_used = files.scratch_used,
                  .output = output_bytes_,
                  .memory_source = usage_.from_cgroup ? "cgroup" : "watchdog"};
  record.phases = {.validation_us = spec_.validation_us,
                   .setup_us = us_between(asked_, up_) + spec_.waited_us,
                   .execution_us = execution_us,
                   .collection_us = us_since(finished_),
                   .total_us = us_since(spec_.arrived)};
  record.steps = step_times();
  record.walls = walls();
  record.denials = denials_.report();
  record.notices = notices_of(usage_, displays_);
  return record;
}

// Of one cell; the shell goes on.
wire::Record Run::make_cell_record(const wire::CellDone& done) {
  finished_ = Clock::now();
  const std::uint64_t wall_us = us_between(cell_began_, finished_);
  if (const auto cpu_us = group_cpu_us()) {
    usage_.cpu_us = *cpu_us - std::min(link_.cpu_before_us, *cpu_us);
    usage_.from_cgroup = true;
  }
  if (const auto peak = link_.cgroup.read_peak_memory()) usage_.peak_memory = *peak;
  const bool failed = python_.has_value() || done.status == wire::CellStatus::error;
  const int code = done.exit_code != 0 ? done.exit_code : failed ? 1 : 0;
  const Verdict verdict = judge({.ended = cell_timed_out_ ? Ended::wall_limit : Ended::by_itself,
                                 .wait_status = W_EXITCODE(code, 0),
                                 .limits = limits_now_,
                                 .usage = usage_,
                                 .wall_ms = wall_us / 1000,
                                 .output_bytes = output_bytes_ - cell_output_before_,
                                 .python = python_,
                                 .host_call = failed_call()});
  wire::Record record{.execution_id = {},
                      .status = verdict.status,
                      .template_name = spec_.request.template_name,
                      .started_at_ns = cell_began_at_ns_,
                      .exit_code = verdict.exit_code,
                      .warm = true,
                      .displays_truncated = displays_.truncated(),
                      .execution_count = done.execution_count,
                      .changes = std::move(changes_),
                      .error = verdict.error};
  if (record.error) record.error->state = "kept";
  if (cell_is_command_ && record.error && record.error->category == "system_exit") {
    record.error->category = "process_exit";
    record.error->code = "nonzero_exit";
    record.error->message = "The command exited with code " + std::to_string(code) + ".";
    record.error->hint = "Its output says why.";
    record.error->fix = "change_code";
  }
  record.usage = {.wall_us = wall_us,
                  .cpu_us = cell_cpu_us(),
                  .peak_memory = usage_.peak_memory,
                  .output = output_bytes_ - cell_output_before_,
                  .memory_source = usage_.from_cgroup ? "cgroup" : "watchdog"};
  record.phases = {.setup_us = us_between(cell_arrived_, cell_began_),
                   .execution_us = wall_us,
                   .collection_us = us_since(finished_),
                   .total_us = us_since(cell_arrived_)};
  record.steps = {{.name = "run the cell", .duration_us = wall_us}};
  record.walls = walls();
  record.denials = denials_.report();
  record.notices = notices_of(usage_, displays_);
  return record;
}

std::vector<wire::StepTime> Run::step_times() const {
  std::vector<wire::StepTime> steps;
  const auto add = [&](std::string name, std::uint64_t us) {
    steps.push_back({.name = std::move(name), .duration_us = us});
  };
  add("check the request", spec_.validation_us);
  if (spec_.waited_us > 0) add("wait for a slot", spec_.waited_us);
  const std::uint64_t ready_us = us_between(asked_, up_);
  if (claimed_) {
    add("sandbox and fork: made in advance", 0);
    add("messages and scheduling", ready_us);
  } else {
    add_start(steps, ready_us);
  }
  add("interpreter to first statement", us_between(up_, running_));
  add("run the program", us_between(running_, finished_));
  add("drain the output, end what is left", us_between(finished_, drained_at_));
  add("list and hash files", us_since(drained_at_));
  return steps;
}

void Run::add_start(std::vector<wire::StepTime>& steps, std::uint64_t ready_us) const {
  const auto add = [&](std::string name, std::uint64_t us) {
    steps.push_back({.name = std::move(name), .duration_us = us});
  };
  std::uint64_t named_us = 0;
  if (!link_.started.shell_was_ready) {
    for (const auto& step : link_.started.shell_steps) {
      add("shell: " + std::string(name_of(step.step)), step.ns / 1000);
      named_us += step.ns / 1000;
    }
  } else {
    add("shell: made in advance", 0);
  }
  for (std::size_t i = 1; i < link_.join_steps.size(); ++i) {
    const auto step = static_cast<Step>(static_cast<std::size_t>(Step::fork) + i - 1);
    const std::uint64_t ns =
        link_.join_steps[i] > link_.join_steps[i - 1] ? link_.join_steps[i] - link_.join_steps[i - 1] : 0;
    if (step > Step::last) break;
    add((step == Step::fork ? "" : "join: ") + std::string(name_of(step)), ns / 1000);
    named_us += ns / 1000;
  }
  add("messages and scheduling", ready_us > named_us ? ready_us - named_us : 0);
}

std::vector<wire::Wall> Run::walls() const {
  const auto& hello = keeper_.hello();
  const bool cgroup = !hello.cgroup.empty();
  return {
      {.name = "namespaces", .up = true, .detail = "user, mount, pid, net, ipc, uts, cgroup; no new ones inside"},
      {.name = "root", .up = true, .detail = "private, read-only; /workspace, /tmp and /dev/shm are the sandbox's own"},
      {.name = "network", .up = true, .detail = "none: an empty network namespace"},
      {.name = "ids",
       .up = hello.own_ids,
       .detail = hello.own_ids ? "host ids of its own" : "the user's one id: no subordinate ids are set up"},
      {.name = "capabilities", .up = true, .detail = "none, bounding set empty, no_new_privs"},
      {.name = "seccomp", .up = true, .detail = "allowlist " + filter_hash()},
      {.name = "landlock", .up = hello.landlock_abi > 0, .detail = "ABI " + std::to_string(hello.landlock_abi)},
      {.name = "rlimits", .up = true, .detail = "open files, processes, file size, cpu, no core dumps"},
      {.name = "cgroup", .up = cgroup, .detail = cgroup ? hello.cgroup : "none: rlimits and a watchdog stand in"},
  };
}

}  // namespace hutch
