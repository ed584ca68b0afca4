// The two seccomp programs of the sandbox, compiled from sandbox/syscall_policy.cc at build time, and words for what
// they refuse. The programs are constants: a child may use them between fork and exec.
#pragma once

#include <linux/filter.h>

#include <span>
#include <string>
#include <string_view>

namespace hutch {

// For the warm process, before it forks: the policy, with what set-up needs left open.
std::span<const sock_filter> base_filter();

// For the child, stacked on base as the last step of set-up: closes what base left open, and notifies of tripwires.
std::span<const sock_filter> final_filter();

// Sixteen hexadecimal digits that change whenever either program does; for /health and bug reports.
std::string filter_hash();

// "openat"; "unknown" for a number that the policy does not know.
std::string_view syscall_name(int number);

// Whether the final filter may notify the supervisor of this call.
bool is_tripwire(int number);

// What the supervisor answers a notification with: never 0, never "continue".
int tripwire_errno(int number);

// One sentence for the agent whose code made a denied call.
std::string_view denial_hint(int number);

}  // namespace hutch
