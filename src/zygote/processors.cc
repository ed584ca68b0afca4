#include "zygote/processors.h"

#include <algorithm>
#include <cstddef>

namespace hutch {

Processors::Processors() {
  if (::sched_getaffinity(0, sizeof all_, &all_) != 0) return;  // more of them than we can name: none are known
  others_ = all_;
  int wanted = std::max(CPU_COUNT(&all_) / 4, 1);
  for (std::size_t processor = 0; processor < CPU_SETSIZE && wanted > 0; ++processor) {
    if (!CPU_ISSET(processor, &all_)) continue;
    CPU_SET(processor, &spared_);
    CPU_CLR(processor, &others_);
    --wanted;
  }
}

const cpu_set_t& Processors::of(Place place) const {
  switch (place) {
    case Place::anywhere:
      break;
    case Place::spared:
      return spared_;
    case Place::others:
      return others_;
  }
  return all_;
}

void Processors::give(pid_t thread, Place place) const {
  if (CPU_COUNT(&all_) > 1) ::sched_setaffinity(thread, sizeof all_, &of(place));
}

void Processors::move(pid_t thread, Place place) const {
  cpu_set_t its{};
  if (::sched_getaffinity(thread, sizeof its, &its) != 0) return;
  if (CPU_EQUAL(&its, &all_) || CPU_EQUAL(&its, &spared_) || CPU_EQUAL(&its, &others_)) give(thread, place);
}

}  // namespace hutch
