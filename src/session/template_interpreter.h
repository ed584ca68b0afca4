// The CPython of a template, found on the host without running it: the real file behind every symbolic link, so that
// version, library and what must be visible inside the sandbox follow from where it lies.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"
#include "session/template_requirement.h"

namespace hutch {

struct Interpreter {
  std::filesystem::path path;  // "/usr/bin/python3.11": a program named by its version, never a script
  PythonVersion version;
  std::filesystem::path prefix;  // where its lib/python3.N is
  [[nodiscard]] bool beneath_usr() const;
};

// `wanted` is an absolute path, or a name that is looked for in /usr/bin and /usr/local/bin. The python of a virtual
// environment leads to the interpreter it was made from.
Result<Interpreter> find_interpreter(std::string_view wanted);

}  // namespace hutch
