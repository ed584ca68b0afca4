#include "sandbox/landlock.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace hutch::landlock {
namespace {

// linux/landlock.h of Debian 12 stops at ABI 2, so the interface is spelled out here.
struct RulesetAttributes {
  std::uint64_t handled_files;
  std::uint64_t handled_network;  // ABI 4
  std::uint64_t scoped;           // ABI 6
};
struct [[gnu::packed]] PathBeneath {
  std::uint64_t allowed;
  std::int32_t parent;
};

constexpr std::uint64_t kExecute = 1U << 0;
constexpr std::uint64_t kWriteFile = 1U << 1;
constexpr std::uint64_t kReadFile = 1U << 2;
constexpr std::uint64_t kReadDirectory = 1U << 3;
constexpr std::uint64_t kMakeCharacter = 1U << 6;
constexpr std::uint64_t kMakeBlock = 1U << 11;
constexpr std::uint64_t kFirstThirteen = (1U << 13) - 1;
constexpr std::uint64_t kRefer = 1U << 13;        // ABI 2
constexpr std::uint64_t kTruncate = 1U << 14;     // ABI 3
constexpr std::uint64_t kIoctlDevice = 1U << 15;  // ABI 5
constexpr std::uint64_t kTcp = 0b11;              // bind and connect
constexpr std::uint64_t kScopeAll = 0b11;         // abstract sockets and signals

constexpr std::uint32_t kVersionFlag = 1;
constexpr int kRulePathBeneath = 1;

std::uint64_t handled_files(int abi) {
  std::uint64_t rights = kFirstThirteen;
  if (abi >= 2) rights |= kRefer;
  if (abi >= 3) rights |= kTruncate;
  if (abi >= 5) rights |= kIoctlDevice;
  return rights;
}

// A place that this root does not have needs no rule.
bool allow(int ruleset, const char* path, std::uint64_t rights) {
  const int parent = ::open(path, O_PATH | O_CLOEXEC);
  if (parent < 0) return errno == ENOENT;
  const PathBeneath rule{.allowed = rights, .parent = parent};
  const bool added = ::syscall(SYS_landlock_add_rule, ruleset, kRulePathBeneath, &rule, 0) == 0;
  const int reason = errno;
  ::close(parent);
  errno = reason;
  return added;
}

bool add_rules(int ruleset, int abi, const ReadablePaths& readable) {
  const std::uint64_t handled = handled_files(abi);
  constexpr std::uint64_t kReadOnly = kExecute | kReadFile | kReadDirectory;
  // Scratch is never executable and never holds device nodes.
  const std::uint64_t scratch = handled & ~(kExecute | kMakeCharacter | kMakeBlock | kIoctlDevice);
  const std::uint64_t device = (kReadFile | kWriteFile | kTruncate) & handled;

  for (std::size_t i = 0; i < readable.count; ++i) {
    if (!allow(ruleset, readable.paths[i], kReadOnly)) return false;
  }
  for (const char* path : {"/workspace", "/tmp", "/dev/shm"}) {
    if (!allow(ruleset, path, scratch)) return false;
  }
  for (const char* path : {"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"}) {
    if (!allow(ruleset, path, device)) return false;
  }
  if (!allow(ruleset, "/proc", kReadFile | kReadDirectory)) return false;
  return allow(ruleset, "/", kReadDirectory);  // or os.listdir("/") fails
}

}  // namespace

int abi_version() {
  const long version = ::syscall(SYS_landlock_create_ruleset, nullptr, 0, kVersionFlag);
  return version < 0 ? 0 : static_cast<int>(version);
}

int build_ruleset(int abi, const ReadablePaths& readable) {
  const RulesetAttributes attributes{
      .handled_files = handled_files(abi),
      .handled_network = abi >= 4 ? kTcp : 0,
      .scoped = abi >= 6 ? kScopeAll : 0,
  };
  const std::size_t size = abi >= 6 ? sizeof(attributes) : abi >= 4 ? 16 : 8;
  const int ruleset = static_cast<int>(::syscall(SYS_landlock_create_ruleset, &attributes, size, 0));
  if (ruleset < 0) return -1;
  if (!add_rules(ruleset, abi, readable)) {
    const int reason = errno;
    ::close(ruleset);
    errno = reason;
    return -1;
  }
  return ruleset;
}

int restrict_self(int ruleset) { return static_cast<int>(::syscall(SYS_landlock_restrict_self, ruleset, 0)); }

}  // namespace hutch::landlock
