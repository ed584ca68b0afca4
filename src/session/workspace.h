// What a run left in its workspace. The workspace is a hostile file system: everything is resolved beneath its
// descriptor, links are never followed, only regular files are opened, and counts, depth and time are bounded.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "wire/record.h"

namespace hutch {

struct CollectedFile {
  wire::FileEntry entry;
  UniqueFd content;  // open for reading; empty for a deleted or unreadable file
};

struct Collection {
  std::vector<CollectedFile> files;  // sorted by path
  bool truncated = false;            // more than may be listed, or too deep, or out of time
  std::uint64_t scratch_used = 0;    // bytes of the whole scratch file system
};

// `inputs` are the files that were put in, path to sha256: unchanged ones are left out, missing ones are `deleted`.
// `most` bounds the sizes of all files together: a scratch space can seem to hold far more than it does, in holes and
// under several names. Beyond it a file is listed without hash and content.
Collection collect_files(int workspace, const std::map<std::string, std::string>& inputs, bool keep_open, Bytes most);

// True when nothing was ever put there: the common case, told without a walk.
bool is_empty(int workspace);

// A path that a client may name for a file in the workspace: relative, no empty or dot parts, no control bytes.
Result<void> check_workspace_path(std::string_view path);

}  // namespace hutch
