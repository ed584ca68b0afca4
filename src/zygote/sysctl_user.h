// /proc/sys/user, where a sandbox's init forbids it namespaces of its own.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"

namespace hutch {

// The kernel remembers every file that was opened there, one of the same name for each sandbox and all in one chain
// that it searches from its beginning. A proc of our own, replaced by another now and then, keeps the chain short.
class SysctlUser {
 public:
  static Result<SysctlUser> open();

  // For one more sandbox.
  [[nodiscard]] int directory();

 private:
  UniqueFd directory_;
  unsigned used_ = 0;
};

}  // namespace hutch
