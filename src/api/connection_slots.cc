#include "api/connection_slots.h"

#include <boost/asio/ip/address_v4.hpp>
#include <boost/asio/ip/address_v6.hpp>

namespace hutch {

namespace ip = boost::asio::ip;

ConnectionSlots::Peer ConnectionSlots::peer_of(const ip::address& address) {
  constexpr std::size_t kNetwork = 8;  // bytes of a /64
  if (address.is_v6() && !address.to_v6().is_v4_mapped()) {
    const auto bytes = address.to_v6().to_bytes();
    return std::string(bytes.begin(), bytes.begin() + kNetwork);
  }
  const auto bytes =
      (address.is_v4() ? address.to_v4() : ip::make_address_v4(ip::v4_mapped, address.to_v6())).to_bytes();
  return std::string(bytes.begin(), bytes.end());
}

std::string ConnectionSlots::refusal(const Peer& peer) const {
  const std::size_t kept = peer ? caps_.for_owner : 0;
  if (taken_ + kept >= caps_.all) return "Too many connections.";
  if (!peer || caps_.per_peer == 0) return {};
  const auto found = by_peer_.find(*peer);
  if (found == by_peer_.end() || found->second < caps_.per_peer) return {};
  return "Too many connections from this address.";
}

ConnectionSlots::Taken::Taken(ConnectionSlots& slots, Peer peer) : slots_(slots), peer_(std::move(peer)) {
  ++slots_.taken_;
  if (peer_) ++slots_.by_peer_[*peer_];
}

ConnectionSlots::Taken::~Taken() {
  --slots_.taken_;
  if (!peer_) return;
  const auto found = slots_.by_peer_.find(*peer_);
  if (--found->second == 0) slots_.by_peer_.erase(found);
}

}  // namespace hutch
