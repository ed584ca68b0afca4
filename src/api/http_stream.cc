#include "api/http_stream.h"

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/basic_stream.hpp>
#include <boost/beast/core/stream_traits.hpp>
#include <boost/beast/ssl/ssl_stream.hpp>
#include <boost/beast/websocket/ssl.hpp>
#include <boost/beast/websocket/teardown.hpp>

namespace hutch {
namespace {

namespace beast = boost::beast;
using Plain = beast::basic_stream<net::generic::stream_protocol, net::any_io_executor>;
using Secure = beast::ssl_stream<Plain>;

template <class Stream>
class TransportOn final : public Transport {
 public:
  explicit TransportOn(Stream stream) : stream_(std::move(stream)) {}

  net::any_io_executor executor() override { return stream_.get_executor(); }
  void read_some(net::mutable_buffer into, net::any_completion_handler<Moved> handler) override {
    stream_.async_read_some(into, on_executor(std::move(handler)));
  }
  void write_some(const Pieces& pieces, net::any_completion_handler<Moved> handler) override {
    stream_.async_write_some(pieces, on_executor(std::move(handler)));
  }
  void say_goodbye(beast::role_type role, net::any_completion_handler<Done> handler) override {
    using beast::websocket::async_teardown;
    async_teardown(role, stream_, on_executor(std::move(handler)));
  }
  void expires_after(Clock::duration time) override { beast::get_lowest_layer(stream_).expires_after(time); }
  void expires_never() override { beast::get_lowest_layer(stream_).expires_never(); }
  void cancel() override { beast::get_lowest_layer(stream_).cancel(); }
  void close() override { beast::close_socket(beast::get_lowest_layer(stream_)); }
  int descriptor() override { return beast::get_lowest_layer(stream_).socket().native_handle(); }

 private:
  // Beast asks more of an executor than the handler's own, which is hidden, can do; both are the daemon's one loop.
  template <class Handler>
  auto on_executor(Handler handler) {
    return net::bind_executor(stream_.get_executor(), std::move(handler));
  }

  Stream stream_;
};

}  // namespace

std::unique_ptr<Transport> plain_transport(StreamSocket socket) {
  return std::make_unique<TransportOn<Plain>>(Plain(std::move(socket)));
}

net::awaitable<std::unique_ptr<Transport>> secure_transport(StreamSocket socket, net::ssl::context& context,
                                                            Clock::duration time) {
  Secure stream(Plain(std::move(socket)), context);
  beast::get_lowest_layer(stream).expires_after(time);
  boost::system::error_code failed;
  co_await stream.async_handshake(net::ssl::stream_base::server, net::redirect_error(net::use_awaitable, failed));
  if (failed) co_return nullptr;
  co_return std::make_unique<TransportOn<Secure>>(std::move(stream));
}

}  // namespace hutch
