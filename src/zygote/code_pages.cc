#include "zygote/code_pages.h"

#include <sys/mman.h>

#include <cstring>

#include "zygote/memory_map.h"

namespace hutch::code_pages {
namespace {

using memory_map::Mapping;

constexpr std::size_t kHuge = 2U << 20;
constexpr int kCollapse = 25;  // MADV_COLLAPSE, Linux 6.1

bool belong_together(const Mapping& first, const Mapping& second) {
  const auto constant = [](const Mapping& one) { return one.is_private && one.readable && !one.writable; };
  return constant(first) && constant(second) && first.executable != second.executable && first.of_file() &&
         first.name == second.name && first.end == second.begin && first.offset + first.size() == second.offset;
}

template <class Each>
void for_each_own_mapping(Each each) {
  constexpr std::size_t kRoom = 1U << 20;
  void* scratch = ::mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (scratch == MAP_FAILED) return;
  memory_map::for_each_mapping("/proc/self/maps", static_cast<char*>(scratch), kRoom, each);
  ::munmap(scratch, kRoom);
}

constexpr std::uintptr_t round_up(std::uintptr_t address) { return (address + kHuge - 1) / kHuge * kHuge; }

// The copy is complete and in its final form before it takes the place of what it was made from.
void replace_by_huge(std::uintptr_t begin, std::size_t size) {
  void* const room = ::mmap(nullptr, size + kHuge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return;
  const auto first = reinterpret_cast<std::uintptr_t>(room);
  const std::uintptr_t aligned = round_up(first);
  auto* const copy = reinterpret_cast<void*>(aligned);
  ::madvise(copy, size, MADV_HUGEPAGE);
  std::memcpy(copy, reinterpret_cast<const void*>(begin), size);
  const bool moved = ::madvise(copy, size, kCollapse) == 0 && ::mprotect(copy, size, PROT_READ | PROT_EXEC) == 0 &&
                     ::mremap(copy, size, size, MREMAP_MAYMOVE | MREMAP_FIXED, begin) != MAP_FAILED;
  if (!moved) ::munmap(copy, size);
  if (aligned > first) ::munmap(room, aligned - first);
  ::munmap(reinterpret_cast<void*>(aligned + size), first + kHuge - aligned);
}

}  // namespace

void join() {
  Mapping last;
  for_each_own_mapping([&last](const Mapping& mapping) {
    if (belong_together(last, mapping)) {
      const Mapping& constants = last.executable ? mapping : last;
      ::mprotect(reinterpret_cast<void*>(constants.begin), constants.size(), PROT_READ | PROT_EXEC);
    }
    last = mapping;
    return true;
  });
}

void make_huge(const void* inside) {
  const auto address = reinterpret_cast<std::uintptr_t>(inside);
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  for_each_own_mapping([&](const Mapping& mapping) {
    const bool found = mapping.begin <= address && address < mapping.end;
    if (found && mapping.of_file() && mapping.executable && !mapping.writable && mapping.is_private) {
      begin = round_up(mapping.begin);
      end = mapping.end / kHuge * kHuge;
    }
    return !found;
  });
  if (begin < end) replace_by_huge(begin, end - begin);
}

}  // namespace hutch::code_pages
