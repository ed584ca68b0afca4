#include "api/http_connection.h"

#include <poll.h>

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/websocket/rfc6455.hpp>

#include "api/api_error.h"
#include "api/http_text.h"
#include "api/websocket.h"
#include "base/id.h"

namespace hutch {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;

constexpr std::size_t kHeaderBytes = 64 << 10;
constexpr std::size_t kBodyPiece = 256 << 10;

Method method_of(http::verb verb) {
  switch (verb) {
    case http::verb::get:
      return Method::get;
    case http::verb::head:
      return Method::head;
    case http::verb::post:
      return Method::post;
    case http::verb::put:
      return Method::put;
    case http::verb::patch:
      return Method::patch;
    case http::verb::delete_:
      return Method::del;
    case http::verb::options:
      return Method::options;
    default:  // the many others of the library's list
      return Method::other;
  }
}

ApiError too_many_answers() {
  return {.status = 503,
          .category = "capacity",
          .code = "no_slots",
          .message = "Too many large answers are being sent.",
          .hint = "Read the answers that you have asked for before you ask for more.",
          .retry_after = std::chrono::seconds(1)};
}

class Exchange final : public HttpExchange {
 public:
  using Parser = http::request_parser<http::buffer_body>;

  Exchange(HttpStream& stream, beast::flat_buffer& buffer, Parser& parser, const HttpServerOptions& options,
           bool from_owner)
      : stream_(stream), buffer_(buffer), parser_(parser), times_(options.times), answers_(options.answers) {
    request_id = random_id("req");
    request_.from_owner = from_owner;
    keep_alive_ = parser.is_header_done();
    if (!keep_alive_) return;  // it could not be read: only a word about that follows
    const auto& head = parser.get();
    const std::string_view target{head.target().data(), head.target().size()};
    const std::size_t question = target.find('?');
    request_.method = method_of(head.method());
    request_.path = target.substr(0, question);
    if (question != std::string_view::npos) request_.query = target.substr(question + 1);
    for (const auto& field : head) {
      std::string name{field.name_string().data(), field.name_string().size()};
      for (char& letter : name) letter = static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
      std::string value{field.value().data(), field.value().size()};
      if (!request_.headers.emplace(name, std::move(value)).second) request_.repeated.push_back(std::move(name));
    }
    take_request_id();
    if (parser.content_length()) request_.length = *parser.content_length();
    request_.has_body = !parser.is_done();
    request_.wants_websocket = beast::websocket::is_upgrade(head);
    keep_alive_ = head.keep_alive();
  }

  [[nodiscard]] const HttpRequest& request() const override { return request_; }
  [[nodiscard]] bool answered() const override { return answered_; }
  // Not after an answer that has no end: what follows would be taken for the rest of it.
  [[nodiscard]] bool keep_alive() const { return keep_alive_ && !upgraded_ && promised_ == 0 && !endless_; }

  net::awaitable<std::expected<std::string_view, BodyProblem>> read_some() override {
    if (!std::exchange(continued_, true) && beast::iequals(parser_.get()[http::field::expect], "100-continue")) {
      if (!co_await send({net::buffer(std::string_view("HTTP/1.1 100 Continue\r\n\r\n"))})) {
        co_return std::unexpected(BodyProblem::broken);
      }
    }
    boost::system::error_code failed;
    while (!parser_.is_done()) {
      make_room(parser_.content_length_remaining().value_or(kBodyPiece));
      auto& body = parser_.get().body();
      body.data = chunk_.get();
      body.size = chunk_size_;
      stream_.expires_after(times_.piece);
      co_await http::async_read(stream_, buffer_, parser_, net::redirect_error(net::use_awaitable, failed));
      const std::size_t got = chunk_size_ - body.size;
      if (failed && failed != http::error::need_buffer) {
        keep_alive_ = false;
        co_return std::unexpected(failed == beast::error::timeout ? BodyProblem::too_slow : BodyProblem::broken);
      }
      if (got > 0) co_return std::string_view(chunk_.get(), got);
    }
    co_return std::string_view{};
  }

  net::awaitable<bool> answer(Answer answer) override {
    BodyBudget::Share share(answers_, key_id);  // until it has been sent, which may take its reader long
    if (!share.grow_to(answer.body.size())) answer = to_answer(too_many_answers(), request_id);
    const std::string head = head_of(answer, answer.body.size());
    if (request_.method == Method::head) co_return co_await send({net::buffer(head)});
    if (answer.body.size() < (16U << 10)) {
      const std::string all = head + answer.body;
      co_return co_await send({net::buffer(all)});
    }
    co_return co_await send({net::buffer(head), net::buffer(answer.body)});
  }

  net::awaitable<bool> begin(Answer head, std::optional<std::uint64_t> length) override {
    chunked_ = !length && parser_.get().version() >= 11;
    if (!length && !chunked_) keep_alive_ = false;
    if (request_.method != Method::head) {
      promised_ = length.value_or(0);
      endless_ = chunked_;
    }
    const std::string text = head_of(head, length);
    co_return co_await send({net::buffer(text)});
  }

  net::awaitable<bool> write(std::string_view piece) override {
    if (piece.empty() || request_.method == Method::head) co_return true;
    if (!chunked_) {
      promised_ -= std::min<std::uint64_t>(promised_, piece.size());
      co_return co_await send({net::buffer(piece)});
    }
    char size[20];
    const int digits = std::snprintf(size, sizeof(size), "%zx\r\n", piece.size());
    co_return co_await send({net::buffer(size, static_cast<std::size_t>(digits)), net::buffer(piece),
                             net::buffer(std::string_view("\r\n"))});
  }

  net::awaitable<bool> end() override {
    if (!std::exchange(endless_, false)) co_return true;
    co_return co_await send({net::buffer(std::string_view("0\r\n\r\n"))});
  }

  // What the handler did not want of a body is read if it is little; otherwise the connection ends.
  net::awaitable<void> finish() {
    const bool unsent = !continued_ && beast::iequals(parser_.get()[http::field::expect], "100-continue");
    for (int pieces = 0; !parser_.is_done() && keep_alive_ && !upgraded_ && !unsent && pieces < 4; ++pieces) {
      if (!co_await read_some()) break;
    }
    if (!upgraded_ && !parser_.is_done()) keep_alive_ = false;
  }

  [[nodiscard]] bool client_gone() const override {
    pollfd look{.fd = stream_.descriptor(), .events = POLLRDHUP, .revents = 0};
    return ::poll(&look, 1, 0) == 1;
  }

  net::awaitable<std::unique_ptr<WebSocket>> upgrade() override {
    upgraded_ = true;
    answered_ = true;
    co_return co_await accept_websocket(std::move(stream_), parser_.get());
  }

 private:
  // A client's own, by which it finds the request in its log and in ours, as long as no log can take harm from it.
  void take_request_id() {
    const auto given = request_.header("x-request-id");
    const bool once = std::ranges::find(request_.repeated, "x-request-id") == request_.repeated.end();
    if (once && is_request_id(given)) request_id = given;
  }

  std::string head_of(const Answer& answer, std::optional<std::uint64_t> length) {
    answered_ = true;
    status = answer.status;
    const auto reason = http::obsolete_reason(static_cast<http::status>(answer.status));
    std::string head = "HTTP/1.1 " + std::to_string(answer.status) + " " + std::string(reason.data(), reason.size()) +
                       "\r\nServer: hutch\r\nX-Request-Id: " + request_id +
                       "\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n";
    if (!answer.content_type.empty()) head += "Content-Type: " + answer.content_type + "\r\n";
    if (length && answer.status != 204) head += "Content-Length: " + std::to_string(*length) + "\r\n";
    if (!length && chunked_) head += "Transfer-Encoding: chunked\r\n";
    for (const auto& [name, value] : answer.headers) head += name + ": " + value + "\r\n";
    for (const auto& [name, value] : extra) head += name + ": " + value + "\r\n";
    if (!keep_alive_) head += "Connection: close\r\n";
    return head + "\r\n";
  }

  // Most bodies are small, and memory that is not touched costs nothing.
  void make_room(std::uint64_t expected) {
    const auto wanted = static_cast<std::size_t>(std::clamp<std::uint64_t>(expected, 1, kBodyPiece));
    if (chunk_size_ >= wanted) return;
    chunk_ = std::make_unique_for_overwrite<char[]>(wanted);
    chunk_size_ = wanted;
  }

  using Parts = std::array<net::const_buffer, 3>;  // one type, so that writing is compiled once

  net::awaitable<bool> send(Parts parts) {
    if (net::buffer_size(parts) <= kBodyPiece) co_return co_await send_piece(parts);
    for (auto& part : parts) {  // a deadline for each piece: who reads steadily gets all of it
      for (; part.size() > 0; part += kBodyPiece) {
        if (!co_await send_piece({net::buffer(part, kBodyPiece)})) co_return false;
      }
    }
    co_return true;
  }

  net::awaitable<bool> send_piece(Parts parts) {
    boost::system::error_code failed;
    stream_.expires_after(times_.piece);
    co_await net::async_write(stream_, parts, net::redirect_error(net::use_awaitable, failed));
    if (failed) keep_alive_ = false;
    co_return !failed;
  }

  HttpStream& stream_;
  beast::flat_buffer& buffer_;
  Parser& parser_;
  const HttpTimes& times_;
  const std::shared_ptr<BodyBudget>& answers_;
  HttpRequest request_;
  std::unique_ptr<char[]> chunk_;
  std::size_t chunk_size_ = 0;
  bool answered_ = false;
  bool continued_ = false;
  bool chunked_ = false;
  bool endless_ = false;        // the last chunk is still to come
  std::uint64_t promised_ = 0;  // bytes of the body that are still to come
  bool keep_alive_ = true;
  bool upgraded_ = false;
};

// What can be said to somebody whose request could not be read.
std::optional<ApiError> unreadable(const boost::system::error_code& failed) {
  if (failed == http::error::end_of_stream || failed == http::error::partial_message) return std::nullopt;
  if (failed == http::error::header_limit || failed == http::error::buffer_overflow) {
    return ApiError{.status = 431,
                    .category = "invalid_request",
                    .code = "headers_too_large",
                    .message = "The headers are larger than 64 KiB."};
  }
  if (failed == beast::error::timeout) {
    return ApiError{
        .status = 408, .category = "invalid_request", .code = "too_slow", .message = "The headers came too slowly."};
  }
  if (failed.category() != make_error_code(http::error::bad_method).category()) return std::nullopt;
  return bad_request("This is not HTTP as we understand it: " + failed.message());
}

}  // namespace

net::awaitable<void> serve_connection(HttpStream stream, const HttpServerOptions& options, bool from_owner,
                                      const bool& stopping) {
  beast::flat_buffer buffer(kHeaderBytes + kBodyPiece);
  boost::system::error_code failed;
  while (!stopping) {
    if (buffer.size() == 0) {
      stream.expires_after(options.times.idle);
      const std::size_t got =
          co_await stream.async_read_some(buffer.prepare(4096), net::redirect_error(net::use_awaitable, failed));
      if (failed) co_return;
      buffer.commit(got);
    }
    Exchange::Parser parser;
    parser.header_limit(kHeaderBytes);
    parser.body_limit(boost::none);
    stream.expires_after(options.times.header);
    co_await http::async_read_header(stream, buffer, parser, net::redirect_error(net::use_awaitable, failed));
    Exchange exchange(stream, buffer, parser, options, from_owner);
    exchange.bodies = options.bodies;
    if (failed) {
      if (const auto error = unreadable(failed)) {
        stream.expires_after(std::chrono::seconds(5));
        co_await exchange.answer(to_answer(*error, exchange.request_id));
      }
      co_return;
    }
    stream.expires_never();
    co_await options.handle(exchange);
    co_await exchange.finish();
    if (!exchange.keep_alive()) co_return;
  }
}

}  // namespace hutch
