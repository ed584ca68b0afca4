#include "base/scheduling.h"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

namespace hutch {
namespace {

constexpr std::uint64_t kTurnNs = 500'000;  // less than the kernel's own, enough for what one wake-up brings

// sched_attr of the kernel, first version; C libraries differ in where they have it.
struct Attributes {
  std::uint32_t size = sizeof(Attributes);
  std::uint32_t policy = SCHED_OTHER;
  std::uint64_t flags = 0;
  std::int32_t nice = 0;
  std::uint32_t priority = 0;
  std::uint64_t runtime = kTurnNs;
  std::uint64_t deadline = 0;
  std::uint64_t period = 0;
};
static_assert(sizeof(Attributes) == 48);

}  // namespace

void take_short_turns() {
  const Attributes wanted{.nice = ::getpriority(PRIO_PROCESS, 0)};
  ::syscall(SYS_sched_setattr, 0, &wanted, 0U);
}

}  // namespace hutch
