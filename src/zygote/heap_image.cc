// fork(2) copies page tables for every page that the process owns privately; pages of a clean private file mapping are
// left out, because the child can fault them in again. So every private page that preloading made is written to one
// memory file, which is sealed and then mapped over the very same addresses.
//
// While that happens nothing may change what is being copied: one thread, signals blocked, no allocation, no buffers
// but the stack and one scratch mapping.
#include "zygote/heap_image.h"

#include <fcntl.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "zygote/image_file.h"
#include "zygote/memory_map.h"

namespace hutch::heap_image {
namespace {

using memory_map::kPage;

constexpr std::size_t kMostRegions = 4096;
constexpr std::size_t kScratchSize = 8U << 20;  // the text of /proc/self/smaps, then a window of pagemap

struct Region {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  int protection = 0;
  bool of_file = false;  // a library's data: every page counts, not only those that were written
  off_t offset = 0;      // in the image
  [[nodiscard]] std::size_t size() const { return end - begin; }
};

struct Plan {
  std::array<Region, kMostRegions> regions;
  std::size_t count = 0;
  off_t size = 0;
};

constexpr const char* kName = "hutch-heap";
constexpr std::string_view kMapped = "/memfd:hutch-heap";

image_file::View originals;  // the image once more, to compare with

// What no child gets a copy of: wiped by fork, droppable, not given to children. The state of random number generators
// lies there (glibc's, BoringSSL's), so that no two processes draw the same.
bool is_kept_from_children(std::string_view flags) {
  return std::ranges::any_of(std::array<std::string_view, 3>{" wf", " dp", " dc"},
                             [flags](std::string_view flag) { return flags.contains(flag); });
}

// Nothing for what must stay as it is: code, the stack, what the kernel maps.
bool take(const memory_map::Mapping& mapping, std::string_view flags, Region& region) {
  if (!mapping.is_private || !mapping.readable || mapping.executable || is_kept_from_children(flags)) return false;
  const auto name = mapping.name;
  if (name.starts_with("[") && name != "[heap]" && !name.starts_with("[anon")) return false;
  region = {.begin = mapping.begin,
            .end = mapping.end,
            .protection = PROT_READ | (mapping.writable ? PROT_WRITE : 0),
            .of_file = mapping.of_file()};
  return true;
}

bool read_regions(char* scratch, Plan& plan) {
  const auto own = reinterpret_cast<std::uintptr_t>(scratch);
  const auto look = [&](const memory_map::Mapping& mapping, std::string_view flags) {
    Region region;
    if (!take(mapping, flags, region) || region.begin == own) return true;
    if (plan.count == kMostRegions) return false;
    plan.regions[plan.count++] = region;
    return true;
  };
  return memory_map::for_each_mapping_with_flags("/proc/self/smaps", scratch, kScratchSize, look);
}

// Calls `each(first page, pages)` for every run of pages that are here; says whether any was private to us.
template <class Each>
bool for_present_runs(int pagemap, const Region& region, std::uint64_t* window, Each each) {
  using memory_map::kPresent, memory_map::kSwapped, memory_map::kOfFile;
  constexpr std::size_t kWindow = kScratchSize / sizeof(std::uint64_t);
  bool any_private = false;
  memory_map::for_each_window(pagemap, region.begin, region.end, window, kWindow,
                              [&](std::size_t done, std::size_t batch) {
                                for (std::size_t i = 0; i < batch;) {
                                  std::size_t run = 0;
                                  while (i + run < batch && (window[i + run] & (kPresent | kSwapped)) != 0) {
                                    any_private = any_private || (window[i + run] & kOfFile) == 0;
                                    ++run;
                                  }
                                  if (run > 0) each(done + i, run);
                                  i += run > 0 ? run : 1;
                                }
                              });
  return any_private;
}

// Leaves out regions without a private page, and gives the others their place in the image.
void choose(int pagemap, std::uint64_t* window, Plan& plan) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < plan.count; ++i) {
    Region region = plan.regions[i];
    if (!for_present_runs(pagemap, region, window, [](std::size_t, std::size_t) {})) continue;
    region.offset = plan.size;
    plan.size += static_cast<off_t>(region.size());
    plan.regions[kept++] = region;
  }
  plan.count = kept;
}

// Pages that were never touched stay holes: they read as zeros, as they did before.
bool write_image(int image, int pagemap, std::uint64_t* window, const Plan& plan) {
  for (std::size_t i = 0; i < plan.count; ++i) {
    const Region& region = plan.regions[i];
    const char* base = reinterpret_cast<const char*>(region.begin);
    if (region.of_file) {
      if (!image_file::write_fully(image, base, region.size(), region.offset)) return false;
      continue;
    }
    bool written = true;
    for_present_runs(pagemap, region, window, [&](std::size_t first, std::size_t pages) {
      written = written && image_file::write_fully(image, base + first * kPage, pages * kPage,
                                                   region.offset + static_cast<off_t>(first * kPage));
    });
    if (!written) return false;
  }
  return true;
}

// From the first mapping on there is no way back: half an image would be a broken process.
void map_image(int image, const Plan& plan) {
  for (std::size_t i = 0; i < plan.count; ++i) {
    const Region& region = plan.regions[i];
    void* address = reinterpret_cast<void*>(region.begin);
    if (::mmap(address, region.size(), region.protection, MAP_PRIVATE | MAP_FIXED, image, region.offset) != address) {
      ::_exit(125);
    }
  }
}

}  // namespace

std::uint64_t make_fork_cheap() {
  ::malloc_trim(0);
  sigset_t all;
  sigset_t before;
  ::sigfillset(&all);
  ::sigprocmask(SIG_SETMASK, &all, &before);
  std::uint64_t moved = 0;
  // Shared, so that neither the list nor fork sees them as ours.
  void* scratch = ::mmap(nullptr, kScratchSize, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  void* room = ::mmap(nullptr, sizeof(Plan), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const int pagemap = ::open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  if (scratch != MAP_FAILED && room != MAP_FAILED && pagemap >= 0) {
    auto& plan = *static_cast<Plan*>(room);
    auto* window = static_cast<std::uint64_t*>(scratch);
    if (read_regions(static_cast<char*>(scratch), plan)) {
      choose(pagemap, window, plan);
      const int image = image_file::make(kName, static_cast<std::size_t>(plan.size));
      if (image >= 0 && write_image(image, pagemap, window, plan) && image_file::seal(image)) {
        map_image(image, plan);
        // Without it forks are as cheap, but no child can give a page back.
        originals = image_file::view(image, static_cast<std::size_t>(plan.size));
        moved = static_cast<std::uint64_t>(plan.size);
      }
      if (image >= 0) ::close(image);
    }
  }
  if (pagemap >= 0) ::close(pagemap);
  if (scratch != MAP_FAILED) ::munmap(scratch, kScratchSize);
  if (room != MAP_FAILED) ::munmap(room, sizeof(Plan));
  ::sigprocmask(SIG_SETMASK, &before, nullptr);
  return moved;
}

const char* original(const memory_map::Mapping& mapping) { return image_file::find(originals, mapping, kMapped); }

void look_away() { image_file::look_away(originals); }

}  // namespace hutch::heap_image
