// Which processors the engine's helpers and the sandboxes may use, while some are spared: those are left to the engine
// and to programs that did not have to wait, who otherwise meet, at every wake-up, a kernel that is busy with others'
// births, forks and deaths and not to be interrupted. It is a matter of speed and no wall: a program may choose its
// processors itself, and then has what it had without this.
#pragma once

#include <sched.h>
#include <sys/types.h>

#include <cstdint>

namespace hutch {

enum class Place : std::uint8_t {
  anywhere,
  spared,  // a quarter of the processors, but at least one
  others,
  last = others
};

class Processors {
 public:
  Processors();  // knows those that this process may use now

  // Nothing changes where there is one processor only.
  void spare_some(bool some) { some_are_spared_ = some && CPU_COUNT(&all_) > 1; }
  [[nodiscard]] bool some_are_spared() const { return some_are_spared_; }

  void give(pid_t thread, Place place) const;
  void move(pid_t thread, Place place) const;  // unless it has chosen others itself

 private:
  [[nodiscard]] const cpu_set_t& of(Place place) const;

  cpu_set_t all_{};
  cpu_set_t spared_{};
  cpu_set_t others_{};
  bool some_are_spared_ = false;
};

}  // namespace hutch
