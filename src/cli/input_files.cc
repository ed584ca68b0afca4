#include "cli/input_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/unique_fd.h"
#include "wire/engine_messages.h"

namespace hutch {
namespace {

namespace fs = std::filesystem;

Error too_much() {
  return make_error(ErrorCode::invalid_argument, "the files put in are larger than the scratch space")
      .with_hint("ask for more with --scratch, for example --scratch 256M");
}

Result<void> read_file(const fs::path& path, const std::string& name, std::uint64_t& room,
                       std::vector<wire::PutFile>& files) {
  const UniqueFd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) return system_error(errno).during("read " + path.string());
  if (!S_ISREG(status.st_mode))
    return make_error(ErrorCode::invalid_argument, path.string() + " is not a regular file");
  bool append = false;
  for (;;) {
    wire::PutFile piece{.path = name, .append = append, .executable = (status.st_mode & 0111) != 0};
    piece.data.resize(wire::kFileChunk);
    const ssize_t size = ::read(file.get(), piece.data.data(), piece.data.size());
    if (size < 0) return system_error(errno).during("read " + path.string());
    if (static_cast<std::uint64_t>(size) > room) return too_much();
    room -= static_cast<std::uint64_t>(size);
    piece.data.resize(static_cast<std::size_t>(size));
    if (size == 0 && append) return {};
    files.push_back(std::move(piece));
    if (size == 0) return {};
    append = true;
  }
}

Result<void> read_directory(const fs::path& path, const std::string& name, std::uint64_t& room,
                            std::vector<wire::PutFile>& files) {
  std::error_code failed;
  for (fs::recursive_directory_iterator entry(path, failed), end; !failed && entry != end; entry.increment(failed)) {
    if (entry->is_symlink(failed) || !entry->is_regular_file(failed)) continue;
    const std::string inside = name + "/" + entry->path().lexically_relative(path).string();
    HUTCH_TRY(read_file(entry->path(), inside, room, files));
  }
  if (failed) return make_error(ErrorCode::system, failed.message()).during("read " + path.string());
  return {};
}

}  // namespace

Result<std::vector<wire::PutFile>> read_inputs(const std::vector<std::string>& specifications, Bytes room) {
  std::vector<wire::PutFile> files;
  std::uint64_t left = room.count;
  for (const auto& specification : specifications) {
    std::string path = specification;
    std::string name;
    std::error_code failed;
    // A path with a colon in its own name wins over the form PATH:NAME.
    if (const std::size_t colon = path.rfind(':'); !fs::exists(path, failed) && colon != std::string::npos) {
      name = path.substr(colon + 1);
      path.resize(colon);
    }
    if (name.empty()) name = fs::absolute(path).lexically_normal().filename().string();
    if (name.empty()) name = fs::absolute(path).lexically_normal().parent_path().filename().string();
    if (!fs::exists(path, failed)) {
      return make_error(ErrorCode::not_found, "--in: there is no " + path)
          .with_hint("the form is --in PATH or --in PATH:NAME");
    }
    if (fs::is_directory(path, failed)) {
      HUTCH_TRY(read_directory(path, name, left, files));
    } else {
      HUTCH_TRY(read_file(path, name, left, files));
    }
  }
  return files;
}

}  // namespace hutch
