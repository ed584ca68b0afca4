#include "zygote/cold_start.h"

#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "sandbox/kernel.h"
#include "sandbox/seccomp_filter.h"
#include "zygote/zygote_process.h"

namespace hutch {
namespace {

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (auto& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

}  // namespace

Result<ForkReply> cold_start(const ColdStart& start, const RunnerStreams& streams) {
  std::vector<std::string> argument_strings = {start.source.interpreter, "-I", "-X", "utf8",
                                               "/opt/hutch/runner/cold_main.pyc"};
  std::vector<std::string> environment_strings = interpreter_environment(start.source);
  const auto arguments = pointers(argument_strings);
  const auto environment = pointers(environment_strings);

  JoinPlan plan;
  plan.shell = start.shell.descriptors();
  plan.streams = streams;
  plan.limits = start.limits;
  plan.uid = kRunnerId;
  plan.gid = kRunnerId;
  plan.groups = start.shell.ids().groups();
  plan.base_filter = base_filter();
  plan.final_filter = final_filter();
  plan.close_control_on_exec = false;
  plan.fault = start.fault;

  clone_args args{};
  args.exit_signal = SIGCHLD;
  if (start.shell.cgroup()) {
    const auto files = start.shell.cgroup()->attach_fds();
    if (start.cgroup_is_directory) {
      args.flags |= CLONE_INTO_CGROUP;
      args.cgroup = static_cast<std::uint64_t>(files[0].get());
    } else {
      for (std::size_t i = 0; i < files.size() && i < kMostCgroupFiles; ++i) {
        plan.shell.cgroup_tasks[i] = files[i].get();
      }
    }
  }

  plan.begun_ns = kernel::monotonic_ns();
  if (::setns(plan.shell.pid, CLONE_NEWPID) != 0) return system_error(errno).during("enter the pid namespace");
  const pid_t pid = kernel::clone3(args);
  if (pid == 0) {
    restore_signals();
    join_shell(plan);
    if (plan.fault != Step::execute) ::execve(arguments[0], arguments.data(), environment.data());
    fail_step(kControlFd, Step::execute, plan.fault == Step::execute ? EIO : errno);
  }
  const int reason = errno;
  ::setns(start.own_pid_namespace, CLONE_NEWPID);
  if (pid < 0) return system_error(reason).during("fork");
  return ForkReply{.pid = pid};
}

}  // namespace hutch
