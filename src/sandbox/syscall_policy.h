// The one table that says which system calls a sandboxed program may make. Both seccomp filters are compiled from it at
// build time (seccomp_compiler_main.cc), the tests judge the compiled filters by it, and denials are named from it.
//
// There are two filters because the warm process is filtered before it forks: the base filter holds in the warm process
// and in its child during set-up, the final filter is stacked on top when the child is ready. The kernel takes the
// stricter answer of the two, so a call that set-up needs is open in base and decided in final.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace hutch {

// (argument & mask) is one of values. Only the low 32 bits are looked at: that is all that the kernel looks at for the
// flags, modes and families that we filter, and whatever stands above them must not change the answer.
struct Condition {
  std::uint32_t argument = 0;
  std::uint32_t mask = 0xffff'ffff;
  std::vector<std::uint32_t> values;
};

// One permitted way of making a call: all conditions hold. Without conditions it is every way.
using Form = std::vector<Condition>;

// What the base filter makes of the call, that is, what the trusted code between fork and the final filter may do.
enum class DuringSetup : std::uint8_t { as_in_program, anything };

// How a call in none of the permitted forms is refused.
enum class Refusal : std::uint8_t {
  error,     // the kernel returns the errno
  tripwire,  // the supervisor is notified, counts it, and answers with the errno
};

struct Rule {
  int number = -1;
  std::string_view name;
  DuringSetup during_setup = DuringSetup::as_in_program;
  std::vector<Form> forms;  // what the program may do; none: nothing
  Refusal refusal = Refusal::error;
  int refusal_errno = 0;
  std::string_view why;  // who needs it, or why nobody gets it
};

// Every call that we know of, sorted by number. A number that is not here is answered with kUnknownErrno, as a kernel
// without the call would: libraries probe for new calls and fall back.
std::span<const Rule> syscall_policy();

// The rule of one call, or nullptr for a number that we do not know.
const Rule* find_rule(int number);

extern const int kUnknownErrno;

}  // namespace hutch
