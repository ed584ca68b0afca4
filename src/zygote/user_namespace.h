// Who we may be. Root keeps its ids; anybody else becomes root of a user namespace of their own, with their subordinate
// ids when /etc/subuid grants some and with the one id they have otherwise.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <set>

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
  IdAllocator() = default;
  // The ids from `first` on, in pairs; the first to be handed out is `start`, counted around.
  IdAllocator(std::uint32_t first, std::uint32_t count, std::uint32_t start)
      : first_(first), count_(count), next_(start) {}
  [[nodiscard]] bool own_ids() const { return count_ >= 2; }
  Result<IdMap> next();

 private:
  std::uint32_t first_ = 0;
  std::uint32_t count_ = 0;  // usable ids from first_; below 2 every sandbox shares the keeper's own
  std::uint32_t next_ = 0;
  std::shared_ptr<std::set<std::uint32_t>> live_ = std::make_shared<std::set<std::uint32_t>>();  // pairs
};

}  // namespace hutch
