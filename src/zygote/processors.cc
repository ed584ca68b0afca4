#include "zygote/processors.h"

#include <cstddef>

namespace hutch {

Processors::Processors() {
  if (::sched_getaffinity(0, sizeof all_, &all_) != 0) return;  // more of them than we can name: none are known
  all_but_one_ = all_;
  std::size_t first = 0;
  while (first < CPU_SETSIZE && !CPU_ISSET(first, &all_)) ++first;
  if (CPU_COUNT(&all_) > 1) CPU_CLR(first, &all_but_one_);
}

void Processors::keep_one_free(bool free) {
  if (CPU_COUNT(&all_) < 2) return;
  one_is_free_ = free;
  give_ours(0);
}

void Processors::give_all(pid_t thread) const {
  if (CPU_COUNT(&all_) > 1) ::sched_setaffinity(thread, sizeof all_, &all_);
}

void Processors::give_back(pid_t thread) const {
  cpu_set_t its{};
  if (::sched_getaffinity(thread, sizeof its, &its) == 0 && CPU_EQUAL(&its, &all_but_one_)) give_all(thread);
}

void Processors::give_ours(pid_t thread) const {
  const cpu_set_t& ours = one_is_free_ ? all_but_one_ : all_;
  if (CPU_COUNT(&ours) > 0) ::sched_setaffinity(thread, sizeof ours, &ours);
}

}  // namespace hutch
