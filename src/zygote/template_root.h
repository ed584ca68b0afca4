// The read-only root of a template, as a mount namespace that nobody lives in. Shells copy it, the zygote runs in it:
// so a path means the same before and after the fork, and nothing of the host is there to be hidden.
#pragma once

#include "base/result.h"
#include "base/unique_fd.h"
#include "zygote/template.h"

namespace hutch {

// Needs CAP_SYS_ADMIN over the caller's mount namespace. Returns the namespace's descriptor.
Result<UniqueFd> build_template_root(const Template& source);

}  // namespace hutch
