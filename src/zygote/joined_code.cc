#include "zygote/joined_code.h"

#include <sys/mman.h>

#include "zygote/memory_map.h"

namespace hutch::joined_code {
namespace {

using memory_map::Mapping;

bool belong_together(const Mapping& first, const Mapping& second) {
  const auto constant = [](const Mapping& one) { return one.is_private && one.readable && !one.writable; };
  return constant(first) && constant(second) && first.executable != second.executable && first.of_file() &&
         first.name == second.name && first.end == second.begin && first.offset + first.size() == second.offset;
}

}  // namespace

void join() {
  constexpr std::size_t kRoom = 1U << 20;
  void* scratch = ::mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (scratch == MAP_FAILED) return;
  Mapping last;
  memory_map::for_each_mapping("/proc/self/maps", static_cast<char*>(scratch), kRoom, [&](const Mapping& mapping) {
    if (belong_together(last, mapping)) {
      const Mapping& constants = last.executable ? mapping : last;
      ::mprotect(reinterpret_cast<void*>(constants.begin), constants.size(), PROT_READ | PROT_EXEC);
    }
    last = mapping;
    return true;
  });
  ::munmap(scratch, kRoom);
}

}  // namespace hutch::joined_code
