// How many connections there are, and who may have one more. A peer is what one client can have many connections from:
// an IPv4 address, or the /64 network of an IPv6 address. The Unix socket of the daemon's owner is no peer: nobody can
// keep the owner out.
#pragma once

#include <boost/asio/ip/address.hpp>
#include <cstddef>
#include <map>
#include <optional>
#include <string>

namespace hutch {

struct ConnectionCaps {
  std::size_t all = 2'000;
  std::size_t for_owner = 100;  // of them, on the Unix socket only
  std::size_t per_peer = 512;   // 0: as many as there are
};

class ConnectionSlots {
 public:
  using Peer = std::optional<std::string>;  // nothing: the Unix socket

  explicit ConnectionSlots(ConnectionCaps caps) : caps_(caps) {}

  static Peer peer_of(const boost::asio::ip::address& address);
  // What to say to a peer who may have no more; empty: it may.
  [[nodiscard]] std::string refusal(const Peer& peer) const;
  [[nodiscard]] std::size_t taken() const { return taken_; }

  class Taken {  // by a connection, for as long as it lasts
   public:
    Taken(ConnectionSlots& slots, Peer peer);
    ~Taken();
    Taken(const Taken&) = delete;
    Taken& operator=(const Taken&) = delete;

   private:
    ConnectionSlots& slots_;
    Peer peer_;
  };

 private:
  ConnectionCaps caps_;
  std::size_t taken_ = 0;
  std::map<std::string, std::size_t> by_peer_;
};

}  // namespace hutch
