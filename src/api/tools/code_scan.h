// A look at Python source before it runs: what it imports, and what in it is worth a word to whoever reads the result.
// It is advice and nothing else. Nothing is forbidden here and nothing depends on it: the walls are the kernel's, they
// hold for code that this calls harmless, and it is easily deceived (`getattr(os, "sys" + "tem")`).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/units.h"

namespace hutch {

inline constexpr Bytes kMostScanned = 1_MiB;

enum class Risk : std::uint8_t { low, medium, high, critical };
std::string_view name(Risk risk);

struct CodeScan {
  Risk risk = Risk::low;              // the highest of what was found
  std::vector<std::string> warnings;  // one sentence each, in the order of the source, no two of the same kind
};
CodeScan scan_code(std::string_view source);

// The top-level modules that the source names outright, each once, in the order of the source; no relative imports.
std::vector<std::string> imported_modules(std::string_view source);

}  // namespace hutch
