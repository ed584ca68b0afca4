#include "session/workspace.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <deque>
#include <optional>

#include "base/sha256.h"
#include "sandbox/kernel.h"
#include "session/mime_types.h"

namespace hutch {
namespace {

constexpr std::size_t kMostFiles = 1'000;
constexpr std::size_t kMostEntries = 20'000;
constexpr std::size_t kDeepest = 32;
constexpr std::size_t kLongestPath = 1'024;
constexpr int kMostTries = 3;  // to hash a file that is being written
constexpr auto kTimeToHash = std::chrono::seconds(2);
constexpr auto kTimeToList = std::chrono::seconds(3);  // and hash: what is listed later is known the next time

struct Walk {
  int workspace;
  bool keep_open;
  std::uint64_t room;
  const std::map<std::string, std::string>* inputs = nullptr;  // files that have this content are left out
  const Census* known = nullptr;                               // files that look as they did are left out
  Look look = Look::content;
  std::chrono::steady_clock::time_point began = std::chrono::steady_clock::now();
  Collection result;
  Census seen;
  std::size_t entries = 0;

  [[nodiscard]] bool too_late_to_hash() const { return std::chrono::steady_clock::now() > began + kTimeToHash; }
  [[nodiscard]] bool over() const {
    return entries > kMostEntries || std::chrono::steady_clock::now() > began + kTimeToList;
  }
  void miss(const std::string& directory) {
    seen.unread.insert(directory);
    result.truncated = true;
  }
  // The list is bounded, what is known of the files is not: otherwise the next list would be wrong.
  void list(CollectedFile file) {
    if (result.files.size() < kMostFiles) {
      result.files.push_back(std::move(file));
    } else {
      result.truncated = true;
    }
  }
};

// Of the first `length` bytes; empty when there are not so many, or no time.
std::string hash_content(const Walk& walk, int file, std::uint64_t length) {
  Sha256 sha;
  std::array<char, 64 << 10> chunk;
  for (std::uint64_t at = 0; at < length;) {
    const ssize_t size =
        ::pread(file, chunk.data(), std::min<std::uint64_t>(chunk.size(), length - at), static_cast<off_t>(at));
    if (size <= 0 || walk.too_late_to_hash()) return {};
    sha.update({chunk.data(), static_cast<std::size_t>(size)});
    at += static_cast<std::uint64_t>(size);
  }
  return sha.hex();
}

std::int64_t nanoseconds(const timespec& time) { return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

FileStamp stamp_of(const struct stat& status) {
  return {.size = static_cast<std::uint64_t>(status.st_size),
          .inode = status.st_ino,
          .modified_ns = nanoseconds(status.st_mtim),
          .changed_ns = nanoseconds(status.st_ctim)};
}

// Nothing when it is no regular file.
std::optional<FileStamp> stamp_of(int file) {
  struct stat status{};
  if (::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return stamp_of(status);
}

// What became of it; nothing when it is as it was, or nobody knows how it was.
std::optional<wire::Change> change_since(const Census& known, const std::string& path, const FileStamp& now) {
  const auto before = known.files.find(path);
  if (before != known.files.end()) return before->second == now ? std::nullopt : std::optional(wire::Change::modified);
  return known.may_lack(path) ? std::nullopt : std::optional(wire::Change::created);
}

// Somebody may be writing it: its hash and its size are of the same moment, or there is no hash.
void read_content(Walk& walk, int directory, const std::string& name, CollectedFile& file) {
  UniqueFd content = open_beneath(directory, name, O_RDONLY);
  auto stamp = content ? stamp_of(content.get()) : std::nullopt;
  for (int tries = 0; stamp && tries < kMostTries; ++tries) {
    file.hashed = *stamp;
    file.entry.size = stamp->size;
    file.entry.modified_ns = stamp->modified_ns;
    if (stamp->size > walk.room || walk.too_late_to_hash()) {
      walk.result.truncated = true;
      return;
    }
    std::string hash = hash_content(walk, content.get(), stamp->size);
    stamp = stamp_of(content.get());
    if (stamp == file.hashed) file.entry.sha256 = std::move(hash);
    if (stamp == file.hashed || walk.too_late_to_hash()) break;
  }
  if (!stamp) return;
  walk.room -= file.entry.size;
  walk.result.truncated = walk.result.truncated || walk.too_late_to_hash();
  file.entry.mime_type = mime_type_of(file.entry.path, content.get());
  if (walk.keep_open) file.content = std::move(content);
}

// True when there is something to tell of it.
bool compare_with_input(Walk& walk, CollectedFile& file) {
  const auto input = walk.inputs->find(file.entry.path);
  if (input == walk.inputs->end()) return true;
  walk.result.truncated = walk.result.truncated || file.entry.sha256.empty();
  file.entry.change = wire::Change::modified;
  return !file.entry.sha256.empty() && file.entry.sha256 != input->second;
}

// Always by its name in the directory that is open: a directory on the way may have become a link by now. False when
// nobody knows what is there.
bool add_file(Walk& walk, int directory, const std::string& name, const std::string& path) {
  struct stat status{};
  if (::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return errno == ENOENT;
  if (!S_ISREG(status.st_mode)) return true;
  CollectedFile file;
  file.entry.path = path;
  file.entry.size = static_cast<std::uint64_t>(status.st_size);
  file.entry.modified_ns = nanoseconds(status.st_mtim);
  const FileStamp now = walk.seen.files[path] = stamp_of(status);
  if (walk.known != nullptr) {
    const auto change = change_since(*walk.known, path, now);
    if (!change) return true;
    file.entry.change = *change;
  }
  const bool room = walk.result.files.size() < kMostFiles;
  if (room && walk.look == Look::content) read_content(walk, directory, name, file);
  if (walk.inputs == nullptr || compare_with_input(walk, file)) walk.list(std::move(file));
  return true;
}

struct Pending {
  std::string path;
  std::size_t depth;
};

// False when not everything in it was seen.
bool read_directory(Walk& walk, const Pending& current, DIR* directory, std::deque<Pending>& pending) {
  for (;;) {
    errno = 0;
    const dirent* entry = ::readdir(directory);
    if (entry == nullptr) return errno == 0;
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    ++walk.entries;
    if (walk.over()) return false;
    const std::string path = current.path == "." ? name : current.path + "/" + name;
    const bool is_directory = entry->d_type == DT_DIR;
    if (path.size() > kLongestPath || (is_directory && current.depth + 1 > kDeepest)) {
      walk.result.truncated = true;  // never known, whenever somebody looks
    } else if (is_directory) {
      pending.push_back({.path = path, .depth = current.depth + 1});
    } else if (entry->d_type == DT_REG && !add_file(walk, ::dirfd(directory), name, path)) {
      walk.miss(current.path);
    }
  }
}

// Breadth first, so that a chain of a thousand directories does not hide the files at the top.
void walk_all(Walk& walk) {
  std::deque<Pending> pending{{.path = ".", .depth = 0}};
  while (!pending.empty()) {
    const Pending current = std::move(pending.front());
    pending.pop_front();
    if (walk.over()) {
      walk.miss(current.path);
      continue;
    }
    UniqueFd opened = open_beneath(walk.workspace, current.path, O_RDONLY | O_DIRECTORY);
    if (!opened && (errno == ENOENT || errno == ENOTDIR || errno == ELOOP)) continue;  // it is no directory any more
    DIR* directory = opened ? ::fdopendir(opened.get()) : nullptr;
    if (directory == nullptr) {
      walk.miss(current.path);
      continue;
    }
    (void)opened.release();  // closedir closes it
    if (!read_directory(walk, current, directory, pending)) walk.miss(current.path);
    ::closedir(directory);
  }
}

// Those that are named in `before` and were looked for in vain.
template <class Files>
void list_deleted(Walk& walk, const Files& before) {
  for (const auto& [path, what] : before) {
    if (walk.seen.files.contains(path) || walk.seen.may_lack(path)) continue;
    walk.list({.entry = {.path = path, .change = wire::Change::deleted}});
  }
}

Collection finish(Walk& walk) {
  std::ranges::sort(walk.result.files, {}, [](const CollectedFile& file) { return file.entry.path; });
  walk.result.scratch_used = used_bytes(walk.workspace);
  return std::move(walk.result);
}

}  // namespace

UniqueFd open_beneath(int workspace, const std::string& path, int flags) {
  const int quick = (flags & O_PATH) != 0 ? 0 : O_NONBLOCK;  // a FIFO must not hold us up
  const kernel::OpenHow how{.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC | O_NOFOLLOW | quick),
                            .resolve = kernel::kResolveBeneath | kernel::kResolveNoSymlinks |
                                       kernel::kResolveNoMagicLinks | kernel::kResolveNoXdev};
  return UniqueFd{kernel::openat2(workspace, path.empty() ? "." : path.c_str(), how)};
}

bool Census::may_lack(std::string_view path) const {
  if (unread.empty()) return false;
  while (!path.empty()) {
    path = path.substr(0, path.find_last_of('/') == path.npos ? 0 : path.find_last_of('/'));
    if (unread.contains(path.empty() ? "." : path)) return true;
  }
  return false;
}

Collection collect_changes(int workspace, Census& known, Look look, Bytes most) {
  Walk walk{.workspace = workspace, .keep_open = false, .room = most.count, .known = &known, .look = look};
  walk_all(walk);
  list_deleted(walk, known.files);
  walk.result.truncated = walk.result.truncated || !known.unread.empty();
  known = std::move(walk.seen);
  return finish(walk);
}

Collection collect_files(int workspace, const std::map<std::string, std::string>& inputs, bool keep_open, Bytes most) {
  Walk walk{.workspace = workspace, .keep_open = keep_open, .room = most.count, .inputs = &inputs};
  walk_all(walk);
  list_deleted(walk, inputs);
  return finish(walk);
}

std::uint64_t used_bytes(int workspace) {
  struct statvfs space{};
  return ::fstatvfs(workspace, &space) == 0 ? (space.f_blocks - space.f_bfree) * space.f_frsize : 0;
}

bool copy_content(int from, int to, std::uint64_t size) {
  const auto end = static_cast<off_t>(size);
  if (::ftruncate(to, end) != 0) return false;
  for (off_t at = 0; at < end;) {
    const off_t data = ::lseek(from, at, SEEK_DATA);
    if (data < 0) return errno == ENXIO;  // nothing but a hole is left
    const off_t hole = ::lseek(from, data, SEEK_HOLE);
    if (hole <= data) return false;
    at = data;
    while (at < std::min(hole, end)) {
      ::lseek(to, at, SEEK_SET);
      if (::sendfile(to, from, &at, static_cast<std::size_t>(std::min(hole, end) - at)) <= 0) return false;
    }
  }
  return true;
}

bool copy_as_hashed(int from, int to, const CollectedFile& file) {
  if (!copy_content(from, to, file.entry.size)) return false;
  return file.entry.sha256.empty() || stamp_of(from) == file.hashed;
}

bool is_empty(int workspace) {
  alignas(dirent64) std::array<char, 256> room;
  ::lseek(workspace, 0, SEEK_SET);
  const long size = ::syscall(SYS_getdents64, workspace, room.data(), room.size());
  ::lseek(workspace, 0, SEEK_SET);
  std::size_t entries = 0;
  for (long at = 0; at < size; ++entries) at += reinterpret_cast<const dirent64*>(room.data() + at)->d_reclen;
  return size > 0 && entries <= 2;  // `.` and `..`
}

Result<void> check_workspace_path(std::string_view path) {
  const auto refuse = [&](const char* why) {
    return make_error(ErrorCode::invalid_argument, std::string("not a path inside the workspace: ") + why);
  };
  if (path.empty() || path.size() > kLongestPath) return refuse("it is empty or too long");
  if (path.front() == '/') return refuse("it is absolute");
  std::size_t depth = 0;
  for (std::size_t begin = 0; begin <= path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") return refuse("it has an empty part, `.` or `..`");
    if (part.size() > 255) return refuse("a part of it is longer than 255 bytes");
    if (++depth > kDeepest) return refuse("it is too deep");
    for (const char character : part) {
      if (static_cast<unsigned char>(character) < 0x20 || character == 0x7F) return refuse("it has control bytes");
    }
    begin = end + 1;
  }
  return {};
}

}  // namespace hutch
