#include "sandbox/privileges.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <string>

namespace hutch::privileges {
namespace {

constexpr int kNoNamespace = 255;

bool write_text(const char* path, const std::string& text) {
  const int file = ::open(path, O_WRONLY | O_CLOEXEC);
  const bool written = file >= 0 && ::write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  if (file >= 0) ::close(file);
  return written;
}

// What become() says in a user namespace with one id, where the kernel has turned setgroups(2) off: 0 or the errno.
int outcome_with_one_id(Groups groups) {
  const std::string uid = "1 " + std::to_string(::geteuid()) + " 1\n";
  const std::string gid = "1 " + std::to_string(::getegid()) + " 1\n";
  const pid_t child = ::fork();
  if (child == 0) {
    const bool inside = ::unshare(CLONE_NEWUSER) == 0 && write_text("/proc/self/setgroups", "deny") &&
                        write_text("/proc/self/uid_map", uid) && write_text("/proc/self/gid_map", gid);
    if (!inside) ::_exit(kNoNamespace);
    ::_exit(become(1, 1, groups) == 0 ? 0 : errno);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << status;
  return WEXITSTATUS(status);
}

TEST(Privileges, GroupsThatCannotBeGivenUpAreAnErrorUnlessThereIsOneId) {
  const int with_one = outcome_with_one_id(Groups::may_stay);
  if (with_one == kNoNamespace) GTEST_SKIP() << "no user namespaces";
  EXPECT_EQ(with_one, 0);
  EXPECT_EQ(outcome_with_one_id(Groups::must_go), EPERM);
}

}  // namespace
}  // namespace hutch::privileges
