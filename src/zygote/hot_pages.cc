#include "zygote/hot_pages.h"

#include <linux/io_uring.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <span>

#include "zygote/heap_image.h"
#include "zygote/memory_map.h"
#include "zygote/rest_image.h"

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
  std::uintptr_t mapping = 0;  // where the one begins that it is in
  bool write = false;
  bool inherited = false;  // fork copies the page tables of mappings that we have written to
};

struct List {
  std::size_t count = 0;
  Range ranges[kMostRanges];
};

// For as long as no page may change between the look at it and what is done about it.
class NoSignals {
 public:
  NoSignals() {
    sigset_t all;
    ::sigfillset(&all);
    ::sigprocmask(SIG_SETMASK, &all, &before_);
  }
  ~NoSignals() { ::sigprocmask(SIG_SETMASK, &before_, nullptr); }
  NoSignals(const NoSignals&) = delete;
  NoSignals& operator=(const NoSignals&) = delete;

 private:
  sigset_t before_{};
};

List* list = nullptr;                                  // what a program touches
std::array<List*, rest_image::kMostKinds> sessions{};  // the same by kind

void add(List& list, const Range& range) {
  if (list.count > 0) {
    Range& last = list.ranges[list.count - 1];
    if (last.begin + last.size == range.begin && last.mapping == range.mapping && last.write == range.write) {
      last.size += range.size;
      return;
    }
  }
  if (list.count < kMostRanges) list.ranges[list.count++] = range;
}

enum class Touch { none, read, written };

// Written pages are its own by now; of files it has what it read, and their neighbours.
Touch touch_of(std::uint64_t entry) {
  if ((entry & memory_map::kPresent) == 0) return Touch::none;
  if ((entry & memory_map::kOfFile) != 0) return Touch::read;
  return (entry & memory_map::kExclusive) != 0 ? Touch::written : Touch::none;
}

void touch_by_hand(const Range& range) {
  for (std::size_t at = 0; at < range.size; at += kPage) {
    auto* byte = reinterpret_cast<volatile char*>(range.begin + at);
    const char value = *byte;
    if (range.write) *byte = value;
  }
}

bool watched(const memory_map::Mapping& mapping) {
  const bool special = mapping.name.starts_with('[') && mapping.name != "[heap]" && mapping.name != "[stack]";
  return mapping.is_private && mapping.readable && !special;
}

// A part of a mapping, and what a process has there.
struct Window {
  const memory_map::Mapping& mapping;
  std::uintptr_t begin;
  std::span<const std::uint64_t> entries;  // of its pagemap
};

// Calls `each(window)` for all that the process behind `maps` has mapped, with what the one behind `pagemap` has there.
template <class Each>
bool for_each_window(const char* maps, const char* pagemap, Each each) {
  constexpr std::size_t kRoom = kScratchSize + kWindow * sizeof(std::uint64_t);
  void* scratch = ::mmap(nullptr, kRoom, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (scratch == MAP_FAILED) return false;
  const int pages = ::open(pagemap, O_RDONLY | O_CLOEXEC);
  auto* text = static_cast<char*>(scratch);
  auto* entries = reinterpret_cast<std::uint64_t*>(text + kScratchSize);
  const auto look = [&](const memory_map::Mapping& mapping) {
    const auto look_there = [&](std::size_t first, std::size_t count) {
      each(Window{.mapping = mapping, .begin = mapping.begin + first * kPage, .entries = {entries, count}});
    };
    return !watched(mapping) ||
           memory_map::for_each_window(pages, mapping.begin, mapping.end, entries, kWindow, look_there);
  };
  const bool read = pages >= 0 && memory_map::for_each_mapping(maps, text, kScratchSize, look);
  if (pages >= 0) ::close(pages);
  ::munmap(scratch, kRoom);
  return read;
}

bool of_file(std::uint64_t entry) {
  return (entry & (memory_map::kPresent | memory_map::kOfFile)) == (memory_map::kPresent | memory_map::kOfFile);
}

void advise(std::uintptr_t begin, std::size_t size, int advice) {
  if (size > 0) ::madvise(reinterpret_cast<void*>(begin), size, advice);
}

// Pages of files that we have and no program needs: fork would copy their entries in the page tables, every exit would
// remove them.
void drop_what_is_not_listed() {
  const NoSignals quiet;
  const Range* range = list->ranges;
  const Range* const last = list->ranges + list->count;
  for_each_window("/proc/self/maps", "/proc/self/pagemap", [&](const Window& window) {
    std::uintptr_t page = window.begin;
    std::uintptr_t begin = page;
    for (const std::uint64_t entry : window.entries) {
      while (range != last && range->begin + range->size <= page) ++range;
      const bool listed = range != last && range->begin <= page;
      if (listed || !of_file(entry)) {
        advise(begin, page - begin, MADV_DONTNEED);
        begin = page + kPage;
      }
      page += kPage;
    }
    advise(begin, page - begin, MADV_DONTNEED);
  });
}

// fork copies the page tables of a mapping only when one of its pages is our own. One byte of each, written as it is
// through a door that does not ask for permission to write, makes it so; children then need not fault in the code that
// all of them run.
void hand_on_what_is_read() {
  const int memory = ::open("/proc/self/mem", O_RDWR | O_CLOEXEC);
  if (memory < 0) return;
  std::uintptr_t mapping = 0;
  bool owned = false;
  for (std::size_t i = 0; i < list->count; ++i) {
    Range& range = list->ranges[i];
    auto* begin = reinterpret_cast<void*>(range.begin);
    if (range.inherited) {
      if (!range.write) ::madvise(begin, range.size, kPopulateRead);
      continue;
    }
    if (range.mapping != mapping) {
      mapping = range.mapping;
      owned = ::pwrite(memory, begin, 1, static_cast<off_t>(range.begin)) == 1;
    }
    range.inherited = owned && ::madvise(begin, range.size, kPopulateRead) == 0;
  }
  ::close(memory);
}

// Drops our copies of pages that are as they were: whoever reads one again finds the same in the image.
void give_back_unchanged(std::uintptr_t begin, std::uintptr_t end, const char* original) {
  std::uintptr_t first = begin;
  const auto drop_until = [&first](std::uintptr_t until) {
    if (until > first) ::madvise(reinterpret_cast<void*>(first), until - first, MADV_DONTNEED);
  };
  for (std::uintptr_t page = begin; page < end; page += kPage, original += kPage) {
    if (std::memcmp(reinterpret_cast<const void*>(page), original, kPage) == 0) continue;
    drop_until(page);
    first = page + kPage;
  }
  drop_until(end);
}

void give_back_in(const memory_map::Mapping& mapping, const char* image, const List& of) {
  const Range* const last = of.ranges + of.count;
  const auto ends_before = [](const Range& range, std::uintptr_t at) { return range.begin + range.size <= at; };
  for (const Range* range = std::lower_bound(of.ranges, last, mapping.begin, ends_before);
       range != last && range->begin < mapping.end; ++range) {
    const std::uintptr_t begin = std::max(range->begin, mapping.begin);
    const std::uintptr_t end = std::min(range->begin + range->size, mapping.end);
    if (range->write) give_back_unchanged(begin, end, image + (begin - mapping.begin));
  }
}

void add_touched(List& list, const Window& window) {
  for (std::size_t i = 0; i < window.entries.size(); ++i) {
    const Touch touch = touch_of(window.entries[i]);
    if (touch == Touch::none) continue;
    add(list, {.begin = window.begin + i * kPage,
               .size = kPage,
               .mapping = window.mapping.begin,
               .write = window.mapping.writable && touch == Touch::written,
               .inherited = window.mapping.writable});
  }
}

// What the process `pid` has touched of what the one behind `maps` has mapped.
List* pages_of(pid_t pid, const char* maps) {
  // Private: what is shared with a child, a child could change for all others.
  void* kept = ::mmap(nullptr, sizeof(List), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (kept == MAP_FAILED) return nullptr;
  auto* found = static_cast<List*>(kept);
  char pages[64];
  std::snprintf(pages, sizeof(pages), "/proc/%d/pagemap", pid);
  const bool read = for_each_window(maps, pages, [found](const Window& window) { add_touched(*found, window); });
  if (read && found->count > 0) return found;
  ::munmap(kept, sizeof(List));
  return nullptr;
}

// By its own map: it may have made the heap longer.
List* pages_of_session(pid_t pid) {
  char maps[64];
  std::snprintf(maps, sizeof(maps), "/proc/%d/maps", pid);
  return pages_of(pid, maps);
}

}  // namespace

void come_alone() {
  constexpr std::size_t kMostParts = 16'000;  // a process may have 65,530 mappings, and each of these makes two more
  std::size_t parts = 0;
  for_each_window("/proc/self/maps", "/proc/self/pagemap", [&](const Window& window) {
    const auto& entries = window.entries;
    const auto has = [&](std::size_t i) { return i >= entries.size() || of_file(entries[i]); };
    for (std::size_t i = 0; i < entries.size(); ++i) {
      const std::uintptr_t page = window.begin + i * kPage;
      if (of_file(entries[i])) advise(page, kPage, MADV_DONTNEED);
      const bool near = has(i - 1) || has(i) || has(i + 1);
      if (near && page / kPage % 2 == 1 && parts++ < kMostParts) advise(page, kPage, MADV_DONTDUMP);
    }
  });
}

bool remember(pid_t pid) {
  list = pages_of(pid, "/proc/self/maps");  // its own is in pieces
  return list != nullptr;
}

void remember_session(pid_t pid, std::size_t kind) {
  if (kind >= sessions.size()) return;
  sessions[kind] = pages_of_session(pid);
  if (sessions[kind] == nullptr) return;
  rest_image::Maker maker;
  for (const Range& range : std::span(sessions[kind]->ranges, sessions[kind]->count)) {
    if (range.write) maker.add(range.begin, range.size, range.mapping);
  }
  maker.keep(pid, kind);
}

void remember_more(pid_t pid, std::size_t kind) {
  if (kind >= sessions.size()) return;
  List* const more = pages_of_session(pid);
  if (more == nullptr) return;
  if (sessions[kind] != nullptr) ::munmap(sessions[kind], sizeof(List));
  sessions[kind] = more;
}

void own() {
  if (list == nullptr) return;
  hand_on_what_is_read();
  drop_what_is_not_listed();
  for (std::size_t i = 0; i < list->count; ++i) {
    const Range& range = list->ranges[i];
    if (range.write) ::madvise(reinterpret_cast<void*>(range.begin), range.size, kPopulateWrite);
  }
  // fork shares pages and leaves the copy to the first write, which costs a fault for each; those that the kernel has
  // pinned it copies at once. It pins what is registered as a buffer. Where that is not allowed, forks are slower.
  io_uring_params parameters{};
  const auto ring = static_cast<int>(::syscall(SYS_io_uring_setup, 1, &parameters));
  if (ring < 0) return;
  void* room = ::mmap(nullptr, kMostRanges * sizeof(iovec), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return;
  auto* buffers = static_cast<iovec*>(room);
  unsigned count = 0;
  for (std::size_t i = 0; i < list->count; ++i) {
    const Range& range = list->ranges[i];
    if (range.write) buffers[count++] = {.iov_base = reinterpret_cast<void*>(range.begin), .iov_len = range.size};
  }
  ::syscall(SYS_io_uring_register, ring, IORING_REGISTER_BUFFERS, buffers, count);
  ::munmap(room, kMostRanges * sizeof(iovec));  // the descriptor stays open as long as we live
}

void touch(Which which) {
  if (list == nullptr) return;
  bool by_hand = false;
  for (const Range& range : std::span(list->ranges, list->count)) {
    if (which == Which::not_inherited && range.inherited) continue;
    auto* begin = reinterpret_cast<void*>(range.begin);
    if (range.inherited && !range.write) {
      touch_by_hand(range);  // it is here; the first use of each page by the processor takes time too
      continue;
    }
    if (!by_hand && ::madvise(begin, range.size, range.write ? kPopulateWrite : kPopulateRead) == 0) continue;
    by_hand = by_hand || errno == EINVAL;
    if (by_hand && range.write) touch_by_hand(range);
  }
}

void give_back(std::size_t kind) {
  if (kind >= sessions.size() || sessions[kind] == nullptr) return;  // it is tried out, or could not be
  const NoSignals quiet;
  // By what is mapped now: the program may have given some of the memory back itself, and have something else there.
  void* scratch = ::mmap(nullptr, kScratchSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (scratch != MAP_FAILED) {
    const auto look = [kind](const memory_map::Mapping& mapping) {
      if (const char* rested = rest_image::original(mapping)) give_back_unchanged(mapping.begin, mapping.end, rested);
      const char* image = heap_image::original(mapping);
      if (image == nullptr) return true;
      for (const List* each : {list, sessions[kind]}) {
        if (each != nullptr) give_back_in(mapping, image, *each);
      }
      rest_image::share(kind, mapping, image);
      return true;
    };
    memory_map::for_each_mapping("/proc/self/maps", static_cast<char*>(scratch), kScratchSize, look);
    ::munmap(scratch, kScratchSize);
  }
  heap_image::look_away();
  rest_image::look_away();
}

}  // namespace hutch::hot_pages
