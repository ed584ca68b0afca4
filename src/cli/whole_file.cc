#include "cli/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/unique_fd.h"

namespace hutch {
namespace {

namespace fs = std::filesystem;

Result<void> write_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t size = ::write(fd, bytes.data(), bytes.size());
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) return system_error(errno);
    bytes.remove_prefix(static_cast<std::size_t>(size));
  }
  return {};
}

// A pipe or a terminal cannot be replaced, only written to.
bool is_special(const std::string& path) {
  struct stat status{};
  return ::stat(path.c_str(), &status) == 0 && !S_ISREG(status.st_mode);
}

mode_t mode_for(const std::string& path) {
  struct stat status{};
  if (::stat(path.c_str(), &status) == 0) return status.st_mode & 0777;
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

fs::path directory_of(const std::string& path) {
  const auto parent = fs::path(path).parent_path();
  return parent.empty() ? fs::path(".") : parent;
}

}  // namespace

Result<std::string> read_whole_file(const std::string& path, std::size_t most) {
  UniqueFd file;
  if (path != "-") file.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (path != "-" && !file) return system_error(errno).during("read " + path);
  const int fd = file ? file.get() : STDIN_FILENO;
  std::string text;
  std::string chunk(64U << 10, '\0');
  for (;;) {
    const ssize_t size = ::read(fd, chunk.data(), chunk.size());
    if (size < 0) return system_error(errno).during("read " + path);
    if (size == 0) return text;
    text.append(chunk, 0, static_cast<std::size_t>(size));
    if (text.size() > most) {
      return make_error(ErrorCode::invalid_argument, path + " is larger than " + std::to_string(most >> 20) + " MiB");
    }
  }
}

Result<void> check_writable(const std::string& path) {
  const bool exists = ::access(path.c_str(), F_OK) == 0;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) return make_error(ErrorCode::invalid_argument, path + " is a directory");
  if (exists && ::access(path.c_str(), W_OK) != 0) return system_error(errno).during("write " + path);
  if (exists && is_special(path)) return {};
  if (::access(directory_of(path).c_str(), W_OK | X_OK) != 0) return system_error(errno).during("write " + path);
  return {};
}

Result<void> write_whole_file(const std::string& path, std::string_view content) {
  if (path == "-") return write_all(STDOUT_FILENO, content);
  if (is_special(path)) {
    const UniqueFd file{::open(path.c_str(), O_WRONLY | O_CLOEXEC)};
    if (!file) return system_error(errno).during("write " + path);
    return write_all(file.get(), content);
  }
  std::error_code failed;
  const fs::path target = fs::exists(path, failed) ? fs::canonical(path, failed) : fs::path(path);  // through a link
  std::string temporary = target.string() + ".XXXXXX";
  const UniqueFd file{::mkostemp(temporary.data(), O_CLOEXEC)};
  if (!file) return system_error(errno).during("write " + path);
  auto written = write_all(file.get(), content);
  if (written && ::fchmod(file.get(), mode_for(path)) != 0) written = system_error(errno);
  if (written && ::rename(temporary.c_str(), target.c_str()) != 0) written = system_error(errno);
  if (written) return {};
  ::unlink(temporary.c_str());
  return std::move(written).error().during("write " + path);
}

}  // namespace hutch
