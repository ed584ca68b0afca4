// The birth of a shell in the real kernel.
#include "sandbox/shell.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace hutch {
namespace {

constexpr int kSoonMs = 10'000;

bool becomes_readable(int fd) {
  pollfd waiting{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&waiting, 1, kSoonMs) == 1;
}

// Whoever closes the last descriptor of a namespace has to take it apart: that must not be the init of another sandbox.
TEST(ShellBirth, HoldsNoneOfTheKeepersOtherDescriptors) {
  if (::geteuid() != 0) GTEST_SKIP() << "makes a pid namespace";
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader{ends[0]};
  UniqueFd writer{ends[1]};
  Step failed = Step::none;
  auto birth = ShellBirth::begin(ShellSource{}, IdMap{}, Limits{}, std::nullopt, Step::none, failed);
  ASSERT_TRUE(birth) << birth.error().message;

  ASSERT_TRUE(becomes_readable(birth->socket()));  // it asks for its root, and lives
  writer.reset();
  EXPECT_TRUE(becomes_readable(reader.get())) << "init still holds the other end";

  EXPECT_FALSE(birth->finish(failed));  // there is no root for it
  EXPECT_EQ(failed, Step::enter_root);
}

}  // namespace
}  // namespace hutch
