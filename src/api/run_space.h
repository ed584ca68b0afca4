// The space that logs and files of runs may take in the daemon's data directory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

namespace hutch {

struct RunOwner {
  std::string key_id;      // empty: not known
  bool under_way = false;  // what it writes is bounded, and gives nothing back when it is removed
};

// Removes files until what is left takes no more than `most` bytes of the disk: the oldest of whoever has most, again
// and again, so that who has no more than an even part loses nothing. Those of runs under way count, and stay.
// `owner_of` is asked once for each run, and only if there is too much. For a thread of its own: meanwhile others may
// add and remove entries.
void bound_run_space(const std::filesystem::path& directory, std::uint64_t most,
                     const std::function<RunOwner(const std::string& run_id)>& owner_of);

}  // namespace hutch
