// `--out DIR`: files of the workspace that come out. Their names are the sandbox's words: every directory is opened
// beneath DIR by descriptor, links are never followed, and a file appears under its name only when it is complete.
#pragma once

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "wire/record.h"

namespace hutch {

class OutputDirectory {
 public:
  static Result<OutputDirectory> open(const std::string& path);
  Result<void> put(const wire::FileEntry& entry, int content);
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  UniqueFd directory_;
};

}  // namespace hutch
