#include "session/runtime_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <fstream>
#include <span>
#include <string_view>

#include "base/sha256.h"
#include "base/subprocess.h"

namespace hutch {
namespace {

namespace fs = std::filesystem;

struct Embedded {
  const char* path;
  std::span<const unsigned char> bytes;
  [[nodiscard]] std::string_view view() const { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }
};

#include "session/embedded_runner.inc"

constexpr const char* kVersion =
#include "session/embedded_version.inc"
    ;  // a hash of all of them

Result<void> write_all(const fs::path& directory) {
  for (const auto& file : kEmbedded) {
    const fs::path path = directory / file.path;
    std::error_code failed;
    fs::create_directories(path.parent_path(), failed);
    std::ofstream out(path, std::ios::binary);
    out.write(file.view().data(), static_cast<std::streamsize>(file.bytes.size()));
    if (!out.flush()) return make_error(ErrorCode::system, "write " + path.string());
    fs::permissions(path, fs::perms(0644), failed);
  }
  return {};
}

Result<void> compile(const fs::path& directory, const std::string& interpreter) {
  HUTCH_TRY(run_checked(
      {.argv = {interpreter, "-I", (directory / "bundle.py").string(), directory.string(), kRunnerInside}}));
  return {};
}

}  // namespace

Result<fs::path> install_runtime(const fs::path& data_directory, const std::string& interpreter) {
  std::error_code failed;
  const fs::path real = fs::canonical(interpreter, failed);
  const std::string python = sha256_hex(real.string()).substr(0, 8);
  const fs::path final_path = data_directory / "runtime" / (std::string(kVersion).substr(0, 16) + "-" + python);
  if (fs::exists(final_path, failed)) return final_path;

  const fs::path partial = final_path.string() + ".partial-" + std::to_string(::getpid());
  fs::create_directories(partial, failed);
  if (failed) return make_error(ErrorCode::system, "make " + partial.string() + ": " + failed.message());
  auto made = write_all(partial);
  if (made) made = compile(partial, interpreter);
  if (made) {
    fs::rename(partial, final_path, failed);  // another process may have been faster, with the same content
    if (failed && !fs::exists(final_path)) made = make_error(ErrorCode::system, failed.message());
  }
  fs::remove_all(partial, failed);
  if (!made) return std::move(made).error().during("install the runner");
  return final_path;
}

}  // namespace hutch
