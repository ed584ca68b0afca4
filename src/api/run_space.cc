#include "api/run_space.h"

#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

namespace hutch {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kBlock = 512;  // the unit of st_blocks

struct Entry {
  std::chrono::nanoseconds changed{0};
  std::uint64_t bytes = 0;
  std::string run_id;
  fs::path path;
};

struct Holder {
  std::uint64_t bytes = 0;          // of all its runs
  std::vector<Entry> newest_first;  // what may be removed
};
using Holders = std::map<std::string, Holder>;

// What it takes of the disk. A cached result shares the files of the first one, so that each has its part of them.
std::uint64_t bytes_of(const struct stat& status) {
  return static_cast<std::uint64_t>(status.st_blocks) * kBlock / std::max<std::uint64_t>(status.st_nlink, 1);
}

// Of exe_….stdout, exe_….stderr and exe_….files.
std::string run_of(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.substr(0, name.find('.', 1));
}

// Files, and those in the directories here; what vanishes meanwhile is passed over. `run_id` is whose directory this
// is, empty for the one of all.
void list(const fs::path& directory, const std::string& run_id, std::vector<Entry>& entries) {
  std::error_code failed;
  for (fs::directory_iterator at(directory, failed), end; !failed && at != end; at.increment(failed)) {
    struct stat status{};
    if (::lstat(at->path().c_str(), &status) != 0) continue;
    const std::string id = run_id.empty() ? run_of(at->path()) : run_id;
    if (S_ISDIR(status.st_mode) && run_id.empty()) list(at->path(), id, entries);
    if (!S_ISREG(status.st_mode)) continue;
    const auto changed = std::chrono::seconds(status.st_mtim.tv_sec) + std::chrono::nanoseconds(status.st_mtim.tv_nsec);
    entries.push_back({.changed = changed, .bytes = bytes_of(status), .run_id = id, .path = at->path()});
  }
}

Holders by_holder(std::vector<Entry> entries, const std::function<RunOwner(const std::string& run_id)>& owner_of) {
  std::ranges::sort(entries, std::ranges::greater{}, &Entry::changed);
  std::map<std::string, RunOwner> owners;
  Holders holders;
  for (auto& entry : entries) {
    const auto [owner, is_new] = owners.try_emplace(entry.run_id);
    if (is_new) owner->second = owner_of(entry.run_id);
    Holder& holder = holders[owner->second.key_id];
    holder.bytes += entry.bytes;
    if (!owner->second.under_way) holder.newest_first.push_back(std::move(entry));
  }
  return holders;
}

}  // namespace

void bound_run_space(const fs::path& directory, std::uint64_t most,
                     const std::function<RunOwner(const std::string& run_id)>& owner_of) {
  std::vector<Entry> entries;
  list(directory, {}, entries);
  std::uint64_t total = 0;
  for (const auto& entry : entries) total += entry.bytes;
  if (total <= most) return;
  Holders holders = by_holder(std::move(entries), owner_of);
  const std::uint64_t even_part = most / holders.size();
  const auto removable = [](const Holders::value_type& one) {
    return one.second.newest_first.empty() ? std::uint64_t{0} : one.second.bytes;
  };
  while (total > most) {
    Holder& holder = std::ranges::max_element(holders, {}, removable)->second;
    if (holder.newest_first.empty() || holder.bytes <= even_part) return;  // it is runs under way that have too much
    const Entry oldest = std::move(holder.newest_first.back());
    holder.newest_first.pop_back();
    std::error_code ignored;
    fs::remove(oldest.path, ignored);
    holder.bytes -= oldest.bytes;
    total -= oldest.bytes;
  }
}

}  // namespace hutch
