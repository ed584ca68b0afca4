// The bytes of one connection, over TCP, a Unix socket or TLS. What carries them is behind virtual functions, so that
// the templates of HTTP and WebSocket are compiled once, and not once for each kind.
#pragma once

#include <array>
#include <boost/asio/any_completion_handler.hpp>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/async_result.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/beast/core/role.hpp>
#include <memory>
#include <utility>

#include "session/task_group.h"

namespace hutch {

// What carries the bytes. Handlers are never called from inside the function that takes them.
class Transport {
 public:
  using Moved = void(boost::system::error_code, std::size_t);
  using Done = void(boost::system::error_code);
  using Pieces = std::array<net::const_buffer, 4>;  // written in order; the rest may be empty

  virtual ~Transport() = default;
  [[nodiscard]] virtual net::any_io_executor executor() = 0;
  virtual void read_some(net::mutable_buffer into, net::any_completion_handler<Moved> handler) = 0;
  virtual void write_some(const Pieces& pieces, net::any_completion_handler<Moved> handler) = 0;
  virtual void say_goodbye(boost::beast::role_type role, net::any_completion_handler<Done> handler) = 0;
  virtual void expires_after(Clock::duration time) = 0;  // counts for what is begun afterwards
  virtual void expires_never() = 0;
  virtual void cancel() = 0;
  virtual void close() = 0;
  [[nodiscard]] virtual int descriptor() = 0;
};

using StreamSocket = net::generic::stream_protocol::socket;
std::unique_ptr<Transport> plain_transport(StreamSocket socket);
// Shakes hands first; null when that failed or took too long. `context` must outlive what is returned.
net::awaitable<std::unique_ptr<Transport>> secure_transport(StreamSocket socket, net::ssl::context& context,
                                                            Clock::duration time);

// A transport in the shape that Beast asks for.
class HttpStream {
 public:
  using executor_type = net::any_io_executor;

  explicit HttpStream(std::unique_ptr<Transport> transport) : transport_(std::move(transport)) {}

  [[nodiscard]] executor_type get_executor() const { return transport_->executor(); }
  void expires_after(Clock::duration time) { transport_->expires_after(time); }
  void expires_never() { transport_->expires_never(); }
  void cancel() { transport_->cancel(); }
  [[nodiscard]] int descriptor() const { return transport_->descriptor(); }

  // Fills the first of the buffers that has room.
  template <class Buffers, class Token>
  auto async_read_some(const Buffers& buffers, Token&& token) {
    net::mutable_buffer into;
    for (auto at = net::buffer_sequence_begin(buffers); at != net::buffer_sequence_end(buffers); ++at) {
      into = *at;
      if (into.size() > 0) break;
    }
    return net::async_initiate<Token, Transport::Moved>(
        [transport = transport_.get()](auto handler, net::mutable_buffer room) {
          transport->read_some(room, std::move(handler));
        },
        token, into);
  }

  template <class Buffers, class Token>
  auto async_write_some(const Buffers& buffers, Token&& token) {
    Transport::Pieces pieces;
    std::size_t count = 0;
    for (auto at = net::buffer_sequence_begin(buffers); at != net::buffer_sequence_end(buffers); ++at) {
      const net::const_buffer piece = *at;
      if (piece.size() == 0) continue;
      pieces[count] = piece;
      if (++count == pieces.size()) break;
    }
    return net::async_initiate<Token, Transport::Moved>(
        [transport = transport_.get()](auto handler, const Transport::Pieces& what) {
          transport->write_some(what, std::move(handler));
        },
        token, pieces);
  }

  // The two that WebSocket looks for by name: after the closing handshake, and when it ran out of time.
  template <class Handler>
  friend void async_teardown(boost::beast::role_type role, HttpStream& stream, Handler&& handler) {
    stream.transport_->say_goodbye(role, std::forward<Handler>(handler));
  }
  friend void beast_close_socket(HttpStream& stream) { stream.transport_->close(); }

 private:
  std::unique_ptr<Transport> transport_;
};

}  // namespace hutch
