#include "api/connection_slots.h"

#include <gtest/gtest.h>

#include <list>

namespace hutch {
namespace {

ConnectionSlots::Peer peer(const char* address) {
  return ConnectionSlots::peer_of(boost::asio::ip::make_address(address));
}

TEST(ConnectionSlots, APeerIsAnAddressOrTheNetworkOfALongOne) {
  EXPECT_EQ(peer("192.0.2.1"), peer("192.0.2.1"));
  EXPECT_NE(peer("192.0.2.1"), peer("192.0.2.2"));
  EXPECT_EQ(peer("192.0.2.1"), peer("::ffff:192.0.2.1"));
  EXPECT_EQ(peer("2001:db8::1"), peer("2001:db8::ffff:1"));
  EXPECT_NE(peer("2001:db8::1"), peer("2001:db8:0:1::1"));
}

TEST(ConnectionSlots, APeerHasOnlySoManyAndOthersTheirOwn) {
  ConnectionSlots slots({.all = 10, .for_owner = 1, .per_peer = 2});
  std::list<ConnectionSlots::Taken> taken;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(slots.refusal(peer("192.0.2.1")), "");
    taken.emplace_back(slots, peer("192.0.2.1"));
  }
  EXPECT_EQ(slots.refusal(peer("192.0.2.1")), "Too many connections from this address.");
  EXPECT_EQ(slots.refusal(peer("192.0.2.2")), "");
  taken.pop_back();
  EXPECT_EQ(slots.refusal(peer("192.0.2.1")), "");
}

TEST(ConnectionSlots, TheOwnersSocketHasSlotsThatNobodyElseCanTake) {
  ConnectionSlots slots({.all = 3, .for_owner = 1, .per_peer = 0});
  std::list<ConnectionSlots::Taken> taken;
  for (int i = 0; i < 2; ++i) taken.emplace_back(slots, peer("192.0.2.1"));
  EXPECT_EQ(slots.refusal(peer("192.0.2.2")), "Too many connections.");
  EXPECT_EQ(slots.refusal(std::nullopt), "");
  taken.emplace_back(slots, std::nullopt);
  EXPECT_EQ(slots.refusal(std::nullopt), "Too many connections.");
  taken.clear();
  EXPECT_EQ(slots.taken(), 0U);
}

}  // namespace
}  // namespace hutch
