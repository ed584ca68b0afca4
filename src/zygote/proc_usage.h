// What the processes of a sandbox use, read from its own proc: the stand-in where there is no control group.
#pragma once

#include "zygote/keeper_messages.h"

namespace hutch {

UsageNumbers usage_from_proc(int proc_directory);

}  // namespace hutch
