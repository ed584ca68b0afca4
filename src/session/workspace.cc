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

#include "base/sha256.h"
#include "sandbox/kernel.h"
#include "session/mime_types.h"

namespace hutch {
namespace {

constexpr std::size_t kMostFiles = 1'000;
constexpr std::size_t kMostEntries = 20'000;
constexpr std::size_t kDeepest = 32;
constexpr std::size_t kLongestPath = 1'024;
constexpr auto kTimeToCollect = std::chrono::seconds(2);

struct Walk {
  int workspace;
  bool keep_open;
  std::uint64_t room;
  std::chrono::steady_clock::time_point deadline;
  Look look = Look::content;
  FileStamps* known = nullptr;  // files that look as they did are left out
  FileStamps* seen = nullptr;
  Collection result;
  std::size_t entries = 0;

  [[nodiscard]] bool late() const { return std::chrono::steady_clock::now() > deadline; }
};

std::string hash_content(const Walk& walk, int file) {
  Sha256 sha;
  std::array<char, 64 << 10> chunk;
  for (off_t at = 0;;) {
    const ssize_t size = ::pread(file, chunk.data(), chunk.size(), at);
    if (size < 0 || walk.late()) return {};
    if (size == 0) return sha.hex();
    sha.update({chunk.data(), static_cast<std::size_t>(size)});
    at += size;
  }
}

std::int64_t nanoseconds(const timespec& time) { return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; }

bool looks_unchanged(Walk& walk, const std::string& path, const struct stat& status) {
  const FileStamp stamp{.size = static_cast<std::uint64_t>(status.st_size),
                        .inode = status.st_ino,
                        .modified_ns = nanoseconds(status.st_mtim),
                        .changed_ns = nanoseconds(status.st_ctim)};
  (*walk.seen)[path] = stamp;
  const auto before = walk.known->find(path);
  return before != walk.known->end() && before->second == stamp;
}

void read_content(Walk& walk, int directory, const std::string& name, CollectedFile& file) {
  UniqueFd content = open_beneath(directory, name, O_RDONLY);
  struct stat status{};
  if (!content || ::fstat(content.get(), &status) != 0 || !S_ISREG(status.st_mode)) return;
  file.entry.size = static_cast<std::uint64_t>(status.st_size);
  file.entry.modified_ns = nanoseconds(status.st_mtim);
  if (file.entry.size > walk.room) {
    walk.result.truncated = true;
    return;
  }
  walk.room -= file.entry.size;
  file.entry.sha256 = hash_content(walk, content.get());
  file.entry.mime_type = mime_type_of(file.entry.path, content.get());
  if (walk.keep_open) file.content = std::move(content);
}

// Always by its name in the directory that is open: a directory on the way may have become a link by now.
void add_file(Walk& walk, int directory, const std::string& name, const std::string& path) {
  struct stat status{};
  if (::fstatat(directory, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(status.st_mode)) return;
  if (walk.known != nullptr && looks_unchanged(walk, path, status)) return;
  CollectedFile file;
  file.entry.path = path;
  file.entry.size = static_cast<std::uint64_t>(status.st_size);
  file.entry.modified_ns = nanoseconds(status.st_mtim);
  if (walk.look == Look::content) read_content(walk, directory, name, file);
  walk.result.files.push_back(std::move(file));
}

// Breadth first, so that a chain of a thousand directories does not hide the files at the top.
void walk_all(Walk& walk) {
  struct Pending {
    std::string path;
    std::size_t depth;
  };
  std::deque<Pending> pending{{.path = ".", .depth = 0}};
  while (!pending.empty()) {
    const Pending current = std::move(pending.front());
    pending.pop_front();
    UniqueFd opened = open_beneath(walk.workspace, current.path, O_RDONLY | O_DIRECTORY);
    DIR* directory = opened ? ::fdopendir(opened.get()) : nullptr;
    if (directory == nullptr) continue;
    (void)opened.release();  // closedir closes it
    while (const dirent* entry = ::readdir(directory)) {
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      const std::string path = current.path == "." ? name : current.path + "/" + name;
      if (++walk.entries > kMostEntries || walk.result.files.size() >= kMostFiles || path.size() > kLongestPath ||
          walk.late()) {
        walk.result.truncated = true;
        break;
      }
      if (entry->d_type == DT_DIR) {
        if (current.depth + 1 > kDeepest) {
          walk.result.truncated = true;
        } else {
          pending.push_back({.path = path, .depth = current.depth + 1});
        }
      } else if (entry->d_type == DT_REG) {
        add_file(walk, ::dirfd(directory), name, path);
      }
    }
    ::closedir(directory);
    if (walk.entries > kMostEntries || walk.late()) return;
  }
}

}  // namespace

UniqueFd open_beneath(int workspace, const std::string& path, int flags) {
  const int quick = (flags & O_PATH) != 0 ? 0 : O_NONBLOCK;  // a FIFO must not hold us up
  const kernel::OpenHow how{.flags = static_cast<std::uint64_t>(flags | O_CLOEXEC | O_NOFOLLOW | quick),
                            .resolve = kernel::kResolveBeneath | kernel::kResolveNoSymlinks |
                                       kernel::kResolveNoMagicLinks | kernel::kResolveNoXdev};
  return UniqueFd{kernel::openat2(workspace, path.empty() ? "." : path.c_str(), how)};
}

Collection collect_changes(int workspace, FileStamps& known, Look look, Bytes most) {
  FileStamps seen;
  Walk walk{.workspace = workspace,
            .keep_open = false,
            .room = most.count,
            .deadline = std::chrono::steady_clock::now() + kTimeToCollect,
            .look = look,
            .known = &known,
            .seen = &seen};
  walk_all(walk);
  for (auto& file : walk.result.files) {
    if (known.contains(file.entry.path)) file.entry.change = wire::Change::modified;
  }
  if (!walk.result.truncated) {
    for (const auto& [path, stamp] : known) {
      if (seen.contains(path)) continue;
      walk.result.files.push_back({.entry = {.path = path, .change = wire::Change::deleted}});
    }
  }
  known = std::move(seen);
  std::ranges::sort(walk.result.files, {}, [](const CollectedFile& file) { return file.entry.path; });
  walk.result.scratch_used = used_bytes(workspace);
  return std::move(walk.result);
}

Collection collect_files(int workspace, const std::map<std::string, std::string>& inputs, bool keep_open, Bytes most) {
  Walk walk{.workspace = workspace,
            .keep_open = keep_open,
            .room = most.count,
            .deadline = std::chrono::steady_clock::now() + kTimeToCollect};
  walk_all(walk);
  std::map<std::string, std::string> missing = inputs;
  std::erase_if(walk.result.files, [&](CollectedFile& file) {
    const auto input = inputs.find(file.entry.path);
    if (input == inputs.end()) return false;
    missing.erase(file.entry.path);
    file.entry.change = wire::Change::modified;
    return input->second == file.entry.sha256;
  });
  if (!walk.result.truncated) {
    for (const auto& [path, sha] : missing) {
      walk.result.files.push_back({.entry = {.path = path, .change = wire::Change::deleted}});
    }
  }
  std::ranges::sort(walk.result.files, {}, [](const CollectedFile& file) { return file.entry.path; });
  walk.result.scratch_used = used_bytes(workspace);
  return std::move(walk.result);
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
