// The space that logs and files of runs may take in the daemon's data directory.
#pragma once

#include <cstdint>
#include <filesystem>

namespace hutch {

// Removes the oldest until what is left takes no more than `most` bytes of the disk. For a thread of its own: meanwhile
// others may add and remove entries.
void bound_run_space(const std::filesystem::path& directory, std::uint64_t most);

}  // namespace hutch
