// Which processors the keeper and what it makes may use: all that we have, or all but one. That one is then left to the
// engine and to programs that did not have to wait, who otherwise meet, at every wake-up, a kernel that is busy with
// others' births, forks and deaths and not to be interrupted. It is a matter of speed: a program may choose its
// processors itself, and then has what it had without this.
#pragma once

#include <sched.h>
#include <sys/types.h>

namespace hutch {

class Processors {
 public:
  Processors();

  // For this process and what it forks from now on. Nothing changes where there is one processor only.
  void keep_one_free(bool free);
  [[nodiscard]] bool one_is_free() const { return one_is_free_; }

  void give_all(pid_t thread) const;
  void give_back(pid_t thread) const;  // unless it has chosen others itself
  void give_ours(pid_t thread) const;  // the same as we have

 private:
  cpu_set_t all_{};
  cpu_set_t all_but_one_{};
  bool one_is_free_ = false;
};

}  // namespace hutch
