// What the processes of a sandbox use, read from its own proc: the stand-in where there is no control group.
#pragma once

#include "zygote/keeper_messages.h"

namespace hutch {

// Shared memory counts for every process that has it, but for the `image` that all share with their zygote.
UsageNumbers usage_from_proc(int proc_directory, std::uint64_t image);

}  // namespace hutch
