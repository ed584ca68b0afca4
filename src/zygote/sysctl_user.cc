#include "zygote/sysctl_user.h"

#include <fcntl.h>
#include <sys/mount.h>

#include <cerrno>
#include <utility>

namespace hutch {
namespace {

constexpr unsigned kMostUses = 64;

// In a proc that nobody else sees; nothing where the kernel does not allow another.
UniqueFd open_in_new_proc() {
  const UniqueFd fs{::fsopen("proc", FSOPEN_CLOEXEC)};
  if (!fs || ::fsconfig(fs.get(), FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) return {};
  const UniqueFd mount{::fsmount(fs.get(), FSMOUNT_CLOEXEC, MOUNT_ATTR_NOSUID | MOUNT_ATTR_NODEV | MOUNT_ATTR_NOEXEC)};
  if (!mount) return {};
  return UniqueFd{::openat(mount.get(), "sys/user", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
}

}  // namespace

Result<SysctlUser> SysctlUser::open() {
  SysctlUser user;
  user.directory_ = open_in_new_proc();
  if (!user.directory_) user.directory_.reset(::open("/proc/sys/user", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!user.directory_) return system_error(errno).during("open /proc/sys/user");
  return user;
}

int SysctlUser::directory() {
  if (++used_ > kMostUses) {
    if (UniqueFd other = open_in_new_proc()) directory_ = std::move(other);
    used_ = 1;
  }
  return directory_.get();
}

}  // namespace hutch
