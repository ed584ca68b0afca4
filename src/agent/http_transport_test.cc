#include "agent/http_transport.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>

namespace hutch::agent {
namespace {

using namespace std::chrono_literals;
using Tcp = net::ip::tcp;
using testing::HasSubstr;

// A server of one connection, which says its lines whatever it hears.
class HttpTransportTest : public testing::Test {
 protected:
  net::awaitable<void> serve() {
    boost::system::error_code failed;
    auto socket = co_await acceptor_.async_accept(net::redirect_error(net::use_awaitable, failed));
    if (failed) co_return;
    heard_.resize(64 << 10);
    heard_.resize(
        co_await socket.async_read_some(net::buffer(heard_), net::redirect_error(net::use_awaitable, failed)));
    for (const std::string& line : lines_) {
      co_await net::async_write(socket, net::buffer(line), net::redirect_error(net::use_awaitable, failed));
    }
    if (hold_) {
      std::string more(1, '\0');  // until the other side leaves
      co_await socket.async_read_some(net::buffer(more), net::redirect_error(net::use_awaitable, failed));
    }
  }

  Result<ModelReply> post(TransportTimes times = {}, const std::string& host = "127.0.0.1") {
    auto url = BaseUrl::parse("http://" + host + ":" + std::to_string(acceptor_.local_endpoint().port()) + "/base");
    EXPECT_TRUE(url);
    HttpTransport transport(*url, times);
    const ModelRequest request{.path = "/v1/messages", .headers = {{"x-api-key", "k"}}, .body = "{}"};
    const PieceTaker take = [this](std::string_view piece) -> Result<bool> {
      taken_ += piece;
      if (on_piece_) on_piece_();
      return taken_.ends_with("END");
    };
    Result<ModelReply> reply = make_error(ErrorCode::internal, "nothing happened");
    net::co_spawn(context_, serve(), net::detached);
    net::co_spawn(
        context_,
        [&]() -> net::awaitable<void> {
          reply = co_await transport.post(request, take, cancellation_);
          acceptor_.close();
        },
        [](const std::exception_ptr& problem) { EXPECT_EQ(problem, nullptr); });
    context_.run();
    return reply;
  }

  static std::string chunked(std::string_view text) { return fmt::format("{:x}\r\n{}\r\n", text.size(), text); }

  net::io_context context_{1};
  Tcp::acceptor acceptor_{context_, Tcp::endpoint(net::ip::address_v4::loopback(), 0)};
  std::vector<std::string> lines_;
  bool hold_ = false;
  std::string heard_;
  std::string taken_;
  std::function<void()> on_piece_;
  Cancellation cancellation_;
};

const std::string kStreaming =
    "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n";

TEST_F(HttpTransportTest, SendsTheRequestAndHandsOnTheStreamAsItComes) {
  lines_ = {kStreaming, chunked("one"), chunked("twoEND")};
  hold_ = true;  // the server need not close
  const auto reply = post();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_TRUE(reply->streamed);
  EXPECT_EQ(taken_, "onetwoEND");
  EXPECT_THAT(heard_, HasSubstr("POST /base/v1/messages HTTP/1.1\r\n"));
  EXPECT_THAT(heard_, HasSubstr("x-api-key: k\r\n"));
  EXPECT_THAT(heard_, HasSubstr("Host: 127.0.0.1:"));
  EXPECT_TRUE(heard_.ends_with("\r\n\r\n{}"));
}

TEST_F(HttpTransportTest, FindsAServerByName) {
  lines_ = {kStreaming, chunked("END")};
  const auto reply = post({}, "localhost");
  ASSERT_TRUE(reply) << reply.error().message;
}

TEST_F(HttpTransportTest, KeepsTheBodyOfARefusalUpToItsCap) {
  lines_ = {"HTTP/1.1 429 Too Many\r\nRetry-After: 3\r\nContent-Length: 100000\r\n\r\n" + std::string(100'000, 'x')};
  const auto reply = post();
  ASSERT_TRUE(reply) << reply.error().message;
  EXPECT_EQ(reply->status, 429U);
  EXPECT_FALSE(reply->streamed);
  EXPECT_EQ(reply->headers.at("retry-after"), "3");
  EXPECT_EQ(reply->body.size(), kMostErrorBody);
  EXPECT_TRUE(taken_.empty());
}

TEST_F(HttpTransportTest, DoesNotTakeAPageForAStream) {
  lines_ = {"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 5\r\n\r\n<p>hi"};
  const auto reply = post();
  ASSERT_TRUE(reply);
  EXPECT_FALSE(reply->streamed);
  EXPECT_EQ(reply->body, "<p>hi");
}

TEST_F(HttpTransportTest, SaysThatAStreamBrokeOff) {
  lines_ = {kStreaming, chunked("one")};
  const auto reply = post();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::disconnected);
  EXPECT_EQ(taken_, "one");
}

TEST_F(HttpTransportTest, WaitsNoLongerThanItsIdleTime) {
  lines_ = {kStreaming, chunked("one")};
  hold_ = true;
  const auto begin = Clock::now();
  const auto reply = post({.idle = 50ms});
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::timed_out);
  EXPECT_LT(Clock::now() - begin, 5s);
}

TEST_F(HttpTransportTest, RefusesHeadersAboveTheirCapAndWhatIsNotHttp) {
  lines_ = {"HTTP/1.1 200 OK\r\nX: " + std::string(70'000, 'x') + "\r\n\r\n"};
  const auto large = post();
  ASSERT_FALSE(large);
  EXPECT_EQ(large.error().code, ErrorCode::limit);
}

TEST_F(HttpTransportTest, RefusesWhatIsNotHttp) {
  lines_ = {"SSH-2.0-OpenSSH\r\n\r\n"};
  const auto reply = post();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::protocol);
}

TEST_F(HttpTransportTest, EndsAtOnceWhenItIsCancelled) {
  lines_ = {kStreaming, chunked("one")};
  hold_ = true;
  on_piece_ = [&] { net::post(context_, [&] { cancellation_.cancel(); }); };
  const auto begin = Clock::now();
  EXPECT_FALSE(post());
  EXPECT_LT(Clock::now() - begin, 5s);
}

TEST_F(HttpTransportTest, SaysThatNobodyListens) {
  const auto url = BaseUrl::parse("http://127.0.0.1:1");
  HttpTransport transport(*url, {});
  const ModelRequest request{.path = "/"};
  const PieceTaker take = [](std::string_view) -> Result<bool> { return true; };
  Result<ModelReply> reply = make_error(ErrorCode::internal, "nothing happened");
  net::co_spawn(
      context_, [&]() -> net::awaitable<void> { reply = co_await transport.post(request, take, cancellation_); },
      net::detached);
  context_.run();
  ASSERT_FALSE(reply);
  EXPECT_EQ(reply.error().code, ErrorCode::disconnected);
}

}  // namespace
}  // namespace hutch::agent
