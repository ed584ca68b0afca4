// Who we may be. Root keeps its ids; anybody else becomes root of a user namespace of their own, with their subordinate
// ids when /etc/subuid grants some and with the one id they have otherwise.
#pragma once

#include <sys/types.h>

#include <cstdint>

#include "base/result.h"
#include "sandbox/shell.h"

namespace hutch {

// What we are called inside such a namespace when it has one id. Not 0: the kernel gives the memory files in /proc of a
// process that cannot be traced to the namespace's root, and where there is none, to nobody inside.
inline constexpr uid_t kOnlyId = 1;

// Needs a single-threaded process. Does nothing when it already has the rights it needs.
Result<void> become_namespace_root();

// Hands out ids that no other live sandbox has. Reads /proc/self/uid_map once.
class IdAllocator {
 public:
  static Result<IdAllocator> open();
  [[nodiscard]] bool own_ids() const { return count_ >= 2; }
  IdMap next();

 private:
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;  // usable ids from first_; below 2 every sandbox shares the keeper's own
  std::uint32_t next_ = 0;
};

}  // namespace hutch
