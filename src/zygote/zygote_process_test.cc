#include "zygote/zygote_process.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <utility>

namespace hutch {
namespace {

class ZygoteProcessTest : public testing::Test {
 protected:
  ZygoteProcess make() {
    int sockets[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    there_.reset(sockets[1]);
    return ZygoteProcess::at(UniqueFd{sockets[0]});
  }
  template <class T>
  void say(const T& message) {
    EXPECT_EQ(::send(there_.get(), &message, sizeof(message), 0), static_cast<ssize_t>(sizeof(message)));
  }
  bool was_asked() const {
    ForkRequest request;
    return ::recv(there_.get(), &request, sizeof(request), MSG_DONTWAIT) == static_cast<ssize_t>(sizeof(request));
  }

  UniqueFd there_;
};

TEST_F(ZygoteProcessTest, ForksWhenItIsReady) {
  auto zygote = make();
  say(ZygoteReady{.preload_us = 7, .heap_bytes = 4096});
  ASSERT_TRUE(zygote.receive_ready());
  EXPECT_EQ(zygote.image(), 4096U);
  ASSERT_TRUE(zygote.ask_for_runner({}, {}));
  EXPECT_TRUE(was_asked());
  say(ForkReply{.pid = 42});
  const auto forked = zygote.receive_runner();
  ASSERT_TRUE(forked) << forked.error().message;
  EXPECT_EQ(forked->pid, 42);
  EXPECT_EQ(zygote.forks(), 1U);
}

TEST_F(ZygoteProcessTest, IsNotAskedBeforeItIsReady) {
  auto zygote = make();
  EXPECT_FALSE(zygote.ask_for_runner({}, {}));
  EXPECT_FALSE(was_asked());
}

TEST_F(ZygoteProcessTest, ThatItIsReadyIsNoAnswerToARequest) {
  static_assert(sizeof(ZygoteReady) == sizeof(ForkReply));
  auto zygote = make();
  say(ZygoteReady{.preload_us = 800'000});
  EXPECT_FALSE(zygote.receive_runner());
  EXPECT_TRUE(zygote.lost());
}

TEST_F(ZygoteProcessTest, AnAnswerDoesNotMakeItReady) {
  auto zygote = make();
  say(ForkReply{.pid = 42});
  EXPECT_FALSE(zygote.receive_ready());
  EXPECT_FALSE(zygote.ready());
}

}  // namespace
}  // namespace hutch
