#include "api/run_space.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <system_error>
#include <vector>

namespace hutch {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kBlock = 512;  // the unit of st_blocks

struct Entry {
  std::chrono::nanoseconds changed{0};
  std::uint64_t bytes = 0;
  fs::path path;
};

// What it takes of the disk. A cached result shares the files of the first one, so that each has its part of them.
std::uint64_t bytes_of(const struct stat& status) {
  return static_cast<std::uint64_t>(status.st_blocks) * kBlock / std::max<std::uint64_t>(status.st_nlink, 1);
}

// Files, and those in the directories here; what vanishes meanwhile is passed over.
void list(const fs::path& directory, bool with_directories, std::vector<Entry>& entries) {
  std::error_code failed;
  for (fs::directory_iterator at(directory, failed), end; !failed && at != end; at.increment(failed)) {
    struct stat status{};
    if (::lstat(at->path().c_str(), &status) != 0) continue;
    if (S_ISDIR(status.st_mode) && with_directories) list(at->path(), false, entries);
    if (!S_ISREG(status.st_mode)) continue;
    const auto changed = std::chrono::seconds(status.st_mtim.tv_sec) + std::chrono::nanoseconds(status.st_mtim.tv_nsec);
    entries.push_back({.changed = changed, .bytes = bytes_of(status), .path = at->path()});
  }
}

}  // namespace

void bound_run_space(const fs::path& directory, std::uint64_t most) {
  std::vector<Entry> entries;
  list(directory, true, entries);
  std::uint64_t total = 0;
  for (const auto& entry : entries) total += entry.bytes;
  if (total <= most) return;
  std::ranges::sort(entries, {}, &Entry::changed);
  for (const auto& entry : entries) {
    if (total <= most) break;
    std::error_code ignored;
    fs::remove(entry.path, ignored);
    total -= entry.bytes;
  }
}

}  // namespace hutch
