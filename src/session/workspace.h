// What a run left in its workspace. The workspace is a hostile file system: everything is resolved beneath its
// descriptor, links are never followed, only regular files are opened, and counts, depth and time are bounded.
#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "base/units.h"
#include "wire/record.h"

namespace hutch {

// What tells a file from what it was: enough to see a change without reading the content.
struct FileStamp {
  std::uint64_t size = 0, inode = 0;
  std::int64_t modified_ns = 0, changed_ns = 0;
  bool operator==(const FileStamp&) const = default;
};
using FileStamps = std::map<std::string, FileStamp>;

struct CollectedFile {
  wire::FileEntry entry;  // without a hash when the file did not stand still
  FileStamp hashed;       // how it looked then
  UniqueFd content;       // open for reading; empty for a deleted or unreadable file
};

struct Collection {
  std::vector<CollectedFile> files;  // sorted by path
  bool truncated = false;            // not all: more than may be listed, or not known before; too deep; out of time
  std::uint64_t scratch_used = 0;    // bytes of the whole scratch file system
};

// `inputs` are the files that were put in, path to sha256: unchanged ones are left out, missing ones are `deleted`.
// `most` bounds the sizes of all files together: a scratch space can seem to hold far more than it does, in holes and
// under several names. Beyond it a file is listed without hash and content; an input is not, as nobody knows whether it
// changed.
Collection collect_files(int workspace, const std::map<std::string, std::string>& inputs, bool keep_open, Bytes most);

// What is known of a workspace. Whatever lies in or below an unread directory may be there without being listed.
struct Census {
  FileStamps files;
  std::set<std::string, std::less<>> unread;  // directories that were not read to their end; `.` is the workspace
  [[nodiscard]] bool may_lack(std::string_view path) const;
  [[nodiscard]] bool is_of_nothing() const { return files.empty() && unread.empty(); }
};
inline Census nothing_known() { return {.unread = {"."}}; }

// What was created, changed or deleted since `known`, which is brought up to date. A file is only told of when it is
// known how things were before and are now; where that is not so of every file, the collection is truncated. Only what
// changed is hashed, and only if `look` says so.
enum class Look : std::uint8_t { stamps, content };
Collection collect_changes(int workspace, Census& known, Look look, Bytes most);

// True when nothing was ever put there: the common case, told without a walk.
bool is_empty(int workspace);

// Of the file system that it is in.
std::uint64_t used_bytes(int workspace);

// The first `size` bytes into an empty file. Holes stay holes, so that it takes no more of a disk than it has content.
bool copy_content(int from, int to, std::uint64_t size);
// The same of a file that was hashed; false when it has been changed since.
bool copy_as_hashed(int from, int to, const CollectedFile& file);

// A file or directory beneath the workspace, no link followed on the way; an empty path is the workspace itself.
UniqueFd open_beneath(int workspace, const std::string& path, int flags);

// A path that a client may name for a file in the workspace: relative, no empty or dot parts, no control bytes.
Result<void> check_workspace_path(std::string_view path);

}  // namespace hutch
