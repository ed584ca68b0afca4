// The read-only root of a template, as a mount namespace that nobody lives in. Shells copy it, the zygote runs in it:
// so a path means the same before and after the fork, and nothing of the host is there to be hidden.
#pragma once

#include <sys/types.h>

#include <string>

#include "base/result.h"
#include "base/unique_fd.h"
#include "zygote/template.h"

namespace hutch {

// A root that is being built, in a child of its own. Needs CAP_SYS_ADMIN over the caller's mount namespace.
class RootBirth {
 public:
  static Result<RootBirth> begin(const Template& source);
  Result<UniqueFd> finish();  // waits; the namespace's descriptor

 private:
  RootBirth() = default;

  std::string name_;
  UniqueFd socket_;
  pid_t child_ = -1;
};

}  // namespace hutch
