#include "session/porter.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <memory>
#include <tuple>
#include <vector>

namespace hutch {
namespace {

class PorterTest : public testing::Test {
 protected:
  PorterTest() {
    int sockets[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    keeper_.reset(sockets[1]);
    link_ = std::make_unique<KeeperLink>(context_.get_executor(), KeeperHandle{.socket = UniqueFd{sockets[0]}});
  }

  // One that has asked to be started, and waits.
  std::shared_ptr<Porter> waiting() {
    auto porter = std::make_shared<Porter>(context_.get_executor(), *link_);
    const auto start = [](Porter& whom) -> net::awaitable<void> { std::ignore = co_await whom.start({.into = 1}); };
    net::co_spawn(context_, start(*porter), net::detached);
    context_.poll();
    return porter;
  }
  // The kinds of the requests that the keeper has got.
  std::vector<KeeperRequestKind> asked() const {
    std::vector<KeeperRequestKind> kinds;
    char packet[kMostKeeperBytes];
    while (::recv(keeper_.get(), packet, sizeof(packet), MSG_DONTWAIT) > 0) {
      kinds.push_back(static_cast<KeeperRequestKind>(packet[0]));
    }
    return kinds;
  }

  net::io_context context_;
  UniqueFd keeper_;
  std::unique_ptr<KeeperLink> link_;
};

TEST_F(PorterTest, IsReleasedWhenNobodyHoldsIt) {
  auto porter = waiting();
  EXPECT_EQ(asked(), std::vector{KeeperRequestKind::start});
  porter.reset();
  EXPECT_EQ(asked(), std::vector{KeeperRequestKind::release});
}

TEST_F(PorterTest, MayOutliveTheLinkToTheKeeper) {
  auto porter = waiting();
  const auto life = link_->life();
  link_.reset();
  EXPECT_TRUE(life.expired());
  porter.reset();  // a sanitizer sees whether it touches the link
}

}  // namespace
}  // namespace hutch
