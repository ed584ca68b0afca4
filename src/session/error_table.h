// Turns what the kernel, the engine and (last) the program itself said about the end of a run into one structured
// error that an agent can act on. Kernel facts win over the program's own words.
#pragma once

#include <cstdint>
#include <optional>

#include "sandbox/limits.h"
#include "session/host_calls.h"
#include "wire/record.h"
#include "zygote/keeper_messages.h"

namespace hutch {

// Why the engine itself ended a run.
enum class Ended {
  by_itself,
  wall_limit,
  cpu_limit,
  memory_limit,
  process_limit,
  output_limit,
  denial_flood,
  cancelled
};

struct RunFacts {
  Ended ended = Ended::by_itself;
  int wait_status = 0;
  Limits limits;
  UsageNumbers usage;
  std::uint64_t wall_ms = 0;
  std::uint64_t output_bytes = 0;
  std::optional<wire::PythonError> python;
  std::optional<HostCallFailure> host_call;  // that `python` comes from
};

struct Verdict {
  wire::Status status = wire::Status::ok;
  std::int32_t exit_code = 0;
  std::optional<wire::RunError> error;
};

Verdict judge(const RunFacts& facts);
wire::RunError cancelled_error();

}  // namespace hutch
