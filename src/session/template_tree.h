// Files of built trees: finding, opening to readers, removing. Symbolic links are never followed.
#pragma once

#include <filesystem>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace hutch {

struct TreeEntry {
  enum class Kind {
    tree,
    partial,  // of a build that runs or was killed
    failure,  // the note of a build that failed
  };
  Kind kind = Kind::tree;
  std::filesystem::path path;
};

// What belongs to the template in `directory`, whatever the definition says now.
std::vector<TreeEntry> tree_entries(const std::filesystem::path& directory, std::string_view name);

// The directory or file and all beneath it; nothing there is fine.
Result<void> remove_tree(const std::filesystem::path& path);

// Lets every user read and search the tree, whatever the umask was. Returns the size of its files.
Result<Bytes> open_to_readers(const std::filesystem::path& tree);

// Programs in env/bin name their interpreter and themselves by where the sandbox shows the environment.
Result<void> show_scripts_inside(const std::filesystem::path& environment, std::string_view inside);

}  // namespace hutch
