#include "sandbox/privileges.h"

#include <grp.h>
#include <linux/securebits.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace hutch::privileges {
namespace {

struct Sets {
  __user_cap_data_struct low;
  __user_cap_data_struct high;
};

int set_capabilities(const Sets& sets) {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  return static_cast<int>(::syscall(SYS_capset, &header, &sets));
}

bool all_empty() {
  __user_cap_header_struct header{.version = _LINUX_CAPABILITY_VERSION_3, .pid = 0};
  Sets sets{};
  if (::syscall(SYS_capget, &header, &sets) != 0) return false;
  return (sets.low.permitted | sets.low.effective | sets.low.inheritable | sets.high.permitted | sets.high.effective |
          sets.high.inheritable) == 0;
}

}  // namespace

int drop_bounding_set() {
  // Locked before the ids change, while we still may: being uid 0 or becoming it never gives anything back.
  constexpr unsigned long kLocked = SECBIT_NOROOT | SECBIT_NOROOT_LOCKED | SECBIT_NO_SETUID_FIXUP |
                                    SECBIT_NO_SETUID_FIXUP_LOCKED | SECBIT_KEEP_CAPS_LOCKED |
                                    SECBIT_NO_CAP_AMBIENT_RAISE | SECBIT_NO_CAP_AMBIENT_RAISE_LOCKED;
  if (::prctl(PR_SET_SECUREBITS, kLocked, 0, 0, 0) != 0) return -1;
  for (unsigned capability = 0; capability < 64; ++capability) {
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0) continue;
    return errno == EINVAL ? 0 : -1;  // EINVAL: past the last capability this kernel knows
  }
  return 0;
}

int become(uid_t uid, gid_t gid, Groups groups) {
  // Raw system calls: the library's wrappers would signal other threads, and there are none.
  if (::syscall(SYS_setgroups, 0, nullptr) != 0 && (groups == Groups::must_go || errno != EPERM)) return -1;
  if (::syscall(SYS_setresgid, gid, gid, gid) != 0) return -1;
  return static_cast<int>(::syscall(SYS_setresuid, uid, uid, uid));
}

int drop_capabilities() {
  if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) != 0) return -1;
  if (set_capabilities(Sets{}) != 0) return -1;
  if (::prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) != 0) return -1;
  if (all_empty()) return 0;
  errno = EPERM;
  return -1;
}

int keep_only(std::initializer_list<unsigned> capabilities) {
  Sets sets{};
  for (const unsigned capability : capabilities) {
    auto& half = capability < 32 ? sets.low : sets.high;
    half.permitted |= 1U << (capability % 32);
    half.effective |= 1U << (capability % 32);
  }
  return set_capabilities(sets);
}

int keep_only_across_exec(std::initializer_list<unsigned> capabilities) {
  for (unsigned capability = 0; capability < 64; ++capability) {
    if (std::ranges::find(capabilities, capability) != capabilities.end()) continue;
    if (::prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0) continue;
    if (errno != EINVAL) return -1;
    break;
  }
  Sets sets{};
  for (const unsigned capability : capabilities) {
    auto& half = capability < 32 ? sets.low : sets.high;
    half.permitted |= 1U << (capability % 32);
    half.effective |= 1U << (capability % 32);
    half.inheritable |= 1U << (capability % 32);
  }
  if (set_capabilities(sets) != 0) return -1;
  for (const unsigned capability : capabilities) {
    if (::prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, capability, 0, 0) != 0) return -1;
  }
  return 0;
}

int set_no_new_privileges() { return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); }

}  // namespace hutch::privileges
