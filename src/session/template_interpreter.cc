#include "session/template_interpreter.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>

#include "base/unique_fd.h"

namespace hutch {

namespace fs = std::filesystem;

namespace {

constexpr PythonVersion kOldest{.major = 3, .minor = 10};

Result<fs::path> locate(std::string_view wanted) {
  if (wanted.starts_with('/')) return fs::path(wanted);
  for (const char* directory : {"/usr/bin", "/usr/local/bin"}) {
    const auto candidate = fs::path(directory) / wanted;
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return make_error(ErrorCode::not_found, std::string(wanted) + " is neither in /usr/bin nor in /usr/local/bin")
      .with_hint("Install it, or give the interpreter's absolute path.");
}

// A shim that picks an interpreter by the directory it is called from (pyenv, asdf) is a script; inside the sandbox
// neither it nor what it picks would be there.
Result<void> check_program(const fs::path& path) {
  const UniqueFd fd{::open(path.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!fd) return system_error(errno).during("open " + path.string());
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return system_error(errno).during("stat " + path.string());
  std::array<char, 4> magic{};
  const bool program = S_ISREG(status.st_mode) && (status.st_mode & 0111) != 0 &&
                       ::read(fd.get(), magic.data(), magic.size()) == 4 &&
                       std::string_view(magic.data(), magic.size()) == "\177ELF";
  if (program) return {};
  return make_error(ErrorCode::unsupported, path.string() + " is not a program but a script or something else")
      .with_hint("Name the interpreter itself: python3 -c 'import sys; print(sys._base_executable)' prints it.");
}

}  // namespace

bool Interpreter::beneath_usr() const { return prefix == "/usr" || prefix.string().starts_with("/usr/"); }

Result<Interpreter> find_interpreter(std::string_view wanted) {
  HUTCH_TRY(const auto named, locate(wanted));
  std::error_code failed;
  const auto path = fs::canonical(named, failed);
  if (failed) {
    return make_error(ErrorCode::not_found, "there is no interpreter " + named.string() + ": " + failed.message())
        .with_hint("Install python3, or change the template's interpreter.");
  }
  HUTCH_TRY(check_program(path));
  const auto name = path.filename().string();
  auto version = parse_python_version(name.starts_with("python") ? name.substr(6) : name);
  if (!version) {
    return make_error(ErrorCode::unsupported, path.string() + " is not named like python3.11")
        .with_hint("Name a CPython with its version, such as /usr/bin/python3.11.");
  }
  if (*version < kOldest) {
    return make_error(ErrorCode::unsupported, path.string() + " is older than Python " + to_string(kOldest))
        .with_hint("Install Python " + to_string(kOldest) + " or newer and name it in the template.");
  }
  // CPython finds its library by the same landmark.
  const auto prefix = path.parent_path().parent_path();
  if (prefix == "/" || !fs::is_regular_file(prefix / "lib" / name / "os.py", failed)) {
    return make_error(ErrorCode::unsupported,
                      "the standard library of " + path.string() + " is not in " + (prefix / "lib" / name).string())
        .with_hint("Install the complete Python package.");
  }
  return Interpreter{.path = path, .version = *version, .prefix = prefix};
}

}  // namespace hutch
