#include "zygote/hot_pages.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstdio>

#include "zygote/memory_map.h"

namespace hutch::hot_pages {
namespace {

using memory_map::kPage;

constexpr std::size_t kMostRanges = 4096;
constexpr std::size_t kScratchSize = 4U << 20;  // the text of maps; the window of pagemap follows it
constexpr std::size_t kWindow = 4096;
constexpr int kPopulateRead = 22, kPopulateWrite = 23;  // Linux 5.14

struct Range {
  std::uintptr_t begin = 0;
  std::size_t size = 0;
  bool write = false;
};

struct List {
  std::size_t count = 0;
  Range ranges[kMostRanges];
};

List* list = nullptr;

void add(const Range& range) {
  if (list->count > 0) {
    Range& last = list->ranges[list->count - 1];
    if (last.begin + last.size == range.begin && last.write == range.write) {
      last.size += range.size;
      return;
    }
  }
  if (list->count < kMostRanges) list->ranges[list->count++] = range;
}

// Written pages are its own by now. Of files it has nothing but what it read: fork copies none of those mappings.
bool was_touched(const memory_map::Mapping& mapping, std::uint64_t entry) {
  if ((entry & memory_map::kPresent) == 0) return false;
  if (mapping.writable) return (entry & memory_map::kOfFile) == 0 && (entry & memory_map::kExclusive) != 0;
  return mapping.of_file() && (entry & memory_map::kOfFile) != 0;
}

void add_touched(int pagemap, const memory_map::Mapping& mapping, std::uint64_t* window) {
  const auto look = [&](std::size_t first, std::size_t pages) {
    for (std::size_t i = 0; i < pages; ++i) {
      if (!was_touched(mapping, window[i])) continue;
      add({.begin = mapping.begin + (first + i) * kPage, .size = kPage, .write = mapping.writable});
    }
  };
  memory_map::for_each_window(pagemap, mapping.begin, mapping.end, window, kWindow, look);
}

void touch_by_hand(const Range& range) {
  for (std::size_t at = 0; at < range.size; at += kPage) {
    auto* byte = reinterpret_cast<volatile char*>(range.begin + at);
    const char value = *byte;
    if (range.write) *byte = value;
  }
}

}  // namespace

bool remember(pid_t pid) {
  constexpr std::size_t kRoom = kScratchSize + kWindow * sizeof(std::uint64_t);
  // Private: what is shared with a child, a child could change for all others.
  void* kept = ::mmap(nullptr, sizeof(List), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  void* scratch = ::mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (kept == MAP_FAILED || scratch == MAP_FAILED) return false;
  list = static_cast<List*>(kept);
  char maps[64];
  char pages[64];
  std::snprintf(maps, sizeof(maps), "/proc/%d/maps", pid);
  std::snprintf(pages, sizeof(pages), "/proc/%d/pagemap", pid);
  const int pagemap = ::open(pages, O_RDONLY | O_CLOEXEC);
  auto* text = static_cast<char*>(scratch);
  auto* window = reinterpret_cast<std::uint64_t*>(text + kScratchSize);
  const bool read = pagemap >= 0 && memory_map::for_each_mapping(maps, text, kScratchSize, [&](const auto& mapping) {
                      const bool special =
                          mapping.name.starts_with('[') && mapping.name != "[heap]" && mapping.name != "[stack]";
                      if (mapping.is_private && mapping.readable && !special) add_touched(pagemap, mapping, window);
                      return true;
                    });
  if (!read) list->count = 0;
  if (pagemap >= 0) ::close(pagemap);
  ::munmap(scratch, kRoom);
  return read && list->count > 0;
}

void touch() {
  if (list == nullptr) return;
  bool by_hand = false;
  for (std::size_t i = 0; i < list->count; ++i) {
    const Range& range = list->ranges[i];
    auto* begin = reinterpret_cast<void*>(range.begin);
    if (!by_hand && ::madvise(begin, range.size, range.write ? kPopulateWrite : kPopulateRead) == 0) continue;
    by_hand = by_hand || errno == EINVAL;
    if (by_hand && range.write) touch_by_hand(range);
  }
}

}  // namespace hutch::hot_pages
