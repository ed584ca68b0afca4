#include "api/websocket.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core/buffers_to_string.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/websocket.hpp>
#include <deque>

namespace hutch {
namespace {

namespace beast = boost::beast;
namespace websocket = beast::websocket;

constexpr std::size_t kWebSocketMessage = 1 << 20;
// A message that takes longer has no reader: so much, and what a slow line takes for its bytes.
constexpr auto kLongestWrite = std::chrono::seconds(30);
constexpr std::size_t kSlowestLine = 64U << 10;  // bytes a second
constexpr bool kCompress = false;                // it is not offered, so that the code for it need not be there either

class WebSocketOn final : public WebSocket {
 public:
  explicit WebSocketOn(HttpStream stream) : socket_(std::move(stream)) {}

  net::awaitable<bool> accept(const UpgradeRequest& request) {
    beast::get_lowest_layer(socket_).expires_never();
    auto timeout = websocket::stream_base::timeout::suggested(beast::role_type::server);
    timeout.keep_alive_pings = true;
    socket_.set_option(timeout);
    socket_.read_message_max(kWebSocketMessage);
    boost::system::error_code failed;
    co_await socket_.async_accept(request, net::redirect_error(net::use_awaitable, failed));
    co_return !failed;
  }

  net::awaitable<std::optional<std::string>> receive() override {
    boost::system::error_code failed;
    beast::flat_buffer buffer;
    co_await socket_.async_read(buffer, net::redirect_error(net::use_awaitable, failed));
    if (failed || !socket_.got_text()) co_return std::nullopt;
    co_return beast::buffers_to_string(buffer.data());
  }

  using WebSocket::send;
  net::awaitable<bool> send(std::shared_ptr<const std::string> text) override {
    if (!co_await take_turn()) co_return false;
    socket_.text(true);
    net::steady_timer limit(socket_.get_executor(), kLongestWrite + std::chrono::seconds(text->size() / kSlowestLine));
    limit.async_wait([this, life = std::weak_ptr(life_)](const boost::system::error_code& in_time) {
      if (!in_time && !life.expired()) close();
    });
    boost::system::error_code failed;
    co_await socket_.async_write(net::buffer(*text), net::redirect_error(net::use_awaitable, failed));
    closed_ = closed_ || failed;
    end_turn();
    co_return !failed;
  }

  // Who is being told something and does not read would not read that either.
  net::awaitable<void> refuse(std::string reason) override {
    if (writing_) co_return close();
    if (!co_await take_turn()) co_return;
    boost::system::error_code ignored;
    closed_ = true;
    co_await socket_.async_close({websocket::close_code::policy_error, reason},
                                 net::redirect_error(net::use_awaitable, ignored));
    end_turn();
  }

  void close() override {
    closed_ = true;
    beast::get_lowest_layer(socket_).cancel();
  }

 private:
  // One writes at a time: whoever comes second waits for the first. False when it is closed.
  net::awaitable<bool> take_turn() {
    while (writing_) {
      net::steady_timer turn(socket_.get_executor(), Clock::time_point::max());
      waiting_.push_back(&turn);
      boost::system::error_code ignored;
      co_await turn.async_wait(net::redirect_error(net::use_awaitable, ignored));
    }
    if (closed_) co_return false;
    writing_ = true;
    co_return true;
  }
  void end_turn() {
    writing_ = false;
    if (waiting_.empty()) return;
    waiting_.front()->cancel();
    waiting_.pop_front();
  }

  websocket::stream<HttpStream, kCompress> socket_;
  std::deque<net::steady_timer*> waiting_;
  bool writing_ = false;
  bool closed_ = false;
  std::shared_ptr<const void> life_ = std::make_shared<const char>();
};

}  // namespace

net::awaitable<std::unique_ptr<WebSocket>> accept_websocket(HttpStream stream, const UpgradeRequest& request) {
  auto socket = std::make_unique<WebSocketOn>(std::move(stream));
  if (!co_await socket->accept(request)) co_return nullptr;
  co_return socket;
}

}  // namespace hutch
