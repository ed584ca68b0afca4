#include "cli/output_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <filesystem>

#include "base/id.h"
#include "base/utf8.h"
#include "sandbox/kernel.h"
#include "session/workspace.h"

namespace hutch {
namespace {

Result<UniqueFd> open_directory_beneath(int root, const std::string& path) {
  UniqueFd current{::openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    if (::mkdirat(current.get(), part.c_str(), 0755) != 0 && errno != EEXIST) {
      return system_error(errno).during("make directory " + printable(part));
    }
    const kernel::OpenHow how{.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW,
                              .resolve = kernel::kResolveBeneath | kernel::kResolveNoSymlinks};
    UniqueFd next{kernel::openat2(current.get(), part.c_str(), how)};
    if (!next) return system_error(errno).during("open directory " + printable(part));
    current = std::move(next);
    begin = end + 1;
  }
  return current;
}

// Data only: a sparse file stays sparse, so what comes out is never more than the scratch space held.
Result<void> copy(int from, int to, std::uint64_t size) {
  std::array<char, 64 << 10> chunk;
  const auto end = static_cast<off_t>(size);
  if (::ftruncate(to, end) != 0) return system_error(errno);
  for (off_t at = ::lseek(from, 0, SEEK_DATA); at >= 0 && at < end; at = ::lseek(from, at, SEEK_DATA)) {
    const off_t hole = std::min(::lseek(from, at, SEEK_HOLE), end);
    while (at < hole) {
      const auto most = std::min<std::size_t>(chunk.size(), static_cast<std::size_t>(hole - at));
      const ssize_t got = ::pread(from, chunk.data(), most, at);
      if (got <= 0) return got < 0 ? Result<void>(system_error(errno)) : Result<void>{};
      if (::pwrite(to, chunk.data(), static_cast<std::size_t>(got), at) != got) return system_error(errno);
      at += got;
    }
  }
  return {};
}

}  // namespace

Result<OutputDirectory> OutputDirectory::open(const std::string& path) {
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  OutputDirectory result;
  result.path_ = path;
  result.directory_.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!result.directory_) return system_error(errno).during("open " + path);
  return result;
}

Result<void> OutputDirectory::put(const wire::FileEntry& entry, int content) {
  HUTCH_TRY(check_workspace_path(entry.path));
  const std::size_t slash = entry.path.rfind('/');
  const std::string parent = slash == std::string::npos ? "" : entry.path.substr(0, slash);
  const std::string name = slash == std::string::npos ? entry.path : entry.path.substr(slash + 1);
  HUTCH_TRY(const auto directory, open_directory_beneath(directory_.get(), parent));
  const std::string temporary = ".hutch-" + random_id("out");
  const UniqueFd file{
      ::openat(directory.get(), temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0644)};
  if (!file) return system_error(errno).during("write " + printable(entry.path));
  auto copied = copy(content, file.get(), entry.size);
  if (copied && ::renameat(directory.get(), temporary.c_str(), directory.get(), name.c_str()) != 0) {
    copied = system_error(errno);
  }
  if (!copied) {
    ::unlinkat(directory.get(), temporary.c_str(), 0);
    return std::move(copied).error().during("write " + printable(entry.path));
  }
  return {};
}

}  // namespace hutch
