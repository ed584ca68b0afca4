// Starting an interpreter inside a shell without a zygote: fork from the keeper, join, exec. The same walls in the
// same order as a warm start; only the interpreter's own start-up comes after them instead of before.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "sandbox/shell.h"
#include "zygote/template.h"
#include "zygote/zygote_messages.h"

namespace hutch {

struct ColdStart {
  const Template& source;
  Shell& shell;
  int own_pid_namespace = -1;
  ProcessLimits limits;
  bool cgroup_is_directory = false;
  Step fault = Step::none;
};

Result<ForkReply> cold_start(const ColdStart& start, const RunnerStreams& streams);

}  // namespace hutch
