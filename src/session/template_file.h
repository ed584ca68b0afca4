// The two text files of a template: its definition (templates/NAME.toml, written by people) and the manifest of a built
// tree (written by the builder). Unknown keys are errors that name the file, the line and the known keys.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "base/units.h"

namespace hutch {

using Variables = std::vector<std::pair<std::string, std::string>>;

struct TemplateFile {
  std::string name;    // of the file, without ".toml"
  std::string origin;  // its path, or "built-in"
  std::string description;
  std::string interpreter = "/usr/bin/python3";  // absolute, or a name to look for in /usr/bin and /usr/local/bin
  std::string python = ">=3.10";                 // what the interpreter's version must meet
  std::vector<std::string> packages;             // checked requirements; with none there is nothing to build
  std::vector<std::string> preload;
  Variables environment;  // sorted by name
};

Result<TemplateFile> parse_template_file(std::string_view name, std::string_view text, std::string_view origin);

// What the builder knows when a tree is ready.
struct TemplateManifest {
  std::string fingerprint;  // of what was built: see tree_fingerprint()
  std::string built_at;     // "2025-01-31T12:00:00Z"
  Bytes size;
  std::string cjk_font;               // the family that draws CJK text; empty when there is none
  std::vector<std::string> packages;  // "numpy==2.3.1", everything that is installed
  Variables environment;              // what the tree itself needs, besides the definition's
};

std::string format_manifest(const TemplateManifest& manifest);
Result<TemplateManifest> parse_manifest(std::string_view text, std::string_view origin);

}  // namespace hutch
