// What a template file may say, word by word: names, requirements, versions. Everything accepted here ends up as one
// argument of an installer or as one import statement, so the checks are strict: no URL, no path, no option, no marker.
#pragma once

#include <compare>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hutch {

// "default", "my-tools": a file name and a directory name.
Result<void> check_template_name(std::string_view name);

// A package name of PEP 508 with optional extras and version specifiers: "numpy", "pandas[excel]>=2,<4",
// "pillow==11.*".
Result<void> check_requirement(std::string_view requirement);

// A dotted module name: "matplotlib.pyplot".
Result<void> check_module(std::string_view module);

// The name of an environment variable, and a value that fits on one line.
Result<void> check_variable(std::string_view name, std::string_view value);

struct PythonVersion {
  int major = 0;
  int minor = 0;
  auto operator<=>(const PythonVersion&) const = default;
};

// "3.11" and nothing else.
Result<PythonVersion> parse_python_version(std::string_view text);

// Whether `version` meets ">=3.10" or ">=3.10,<3.13"; an empty text is met by every version.
Result<bool> python_meets(PythonVersion version, std::string_view specifiers);

std::string to_string(PythonVersion version);

}  // namespace hutch
