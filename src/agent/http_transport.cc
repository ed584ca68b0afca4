#include "agent/http_transport.h"

#include <sys/stat.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <boost/beast/ssl.hpp>
#include <cctype>
#include <memory>
#include <optional>

namespace hutch::agent {
namespace {

namespace beast = boost::beast;
namespace http = beast::http;
using Tcp = net::ip::tcp;
using Plain = beast::tcp_stream;
using Secure = beast::ssl_stream<Plain>;
using Failed = boost::system::error_code;

constexpr std::uint32_t kMostHeaderBytes = 64 << 10;
constexpr std::uint64_t kMostReplyBytes = 64 << 20;
constexpr int kMostInterimReplies = 8;

// Where other systems than the one that OpenSSL was built for keep their authorities.
constexpr const char* kAuthorities[] = {"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt",
                                        "/etc/ssl/cert.pem"};

struct Deadlines {
  Clock::time_point connect;
  std::chrono::milliseconds idle;
  Clock::time_point end;
  [[nodiscard]] Clock::time_point next() const { return std::min(end, Clock::now() + idle); }
};

Error failure(const Failed& failed, std::string_view doing) {
  if (failed == beast::error::timeout || failed == net::error::timed_out) {
    return make_error(ErrorCode::timed_out, "no answer in time").during(doing);
  }
  if (failed == http::error::body_limit || failed == http::error::header_limit) {
    return make_error(ErrorCode::limit, "the answer is larger than we accept").during(doing);
  }
  const bool broken_off = failed == http::error::end_of_stream || failed == http::error::partial_message;
  if (failed.category() == http::make_error_code(http::error::bad_version).category() && !broken_off) {
    return make_error(ErrorCode::protocol, failed.message()).during(doing);
  }
  return make_error(ErrorCode::disconnected, broken_off ? "the connection ended too early" : failed.message())
      .during(doing);
}

// A look-up that is under way cannot be stopped: it is left behind, with what it needs, when time is up.
net::awaitable<Result<std::vector<Tcp::endpoint>>> resolve(const BaseUrl& url, Clock::time_point deadline,
                                                           Cancellation& cancellation) {
  Failed failed;
  const auto address = net::ip::make_address(url.host, failed);
  if (!failed) {
    co_return std::vector{Tcp::endpoint(address, url.port)};
  }
  struct Lookup {
    explicit Lookup(const net::any_io_executor& executor) : resolver(executor), done(executor) {}
    Tcp::resolver resolver;
    Event done;
    Failed failed;
    std::vector<Tcp::endpoint> found;
  };
  const auto lookup = std::make_shared<Lookup>(co_await net::this_coro::executor);
  const Cancellation::Watch watch(cancellation, [&lookup] { lookup->done.set(); });
  lookup->resolver.async_resolve(url.host, std::to_string(url.port),
                                 [lookup](const Failed& error, const auto& results) {
                                   lookup->failed = error;
                                   for (const auto& entry : results) lookup->found.push_back(entry.endpoint());
                                   lookup->done.set();
                                 });
  if (!co_await lookup->done.wait_until(deadline)) failed = beast::error::timeout;
  if (lookup->done.is_set()) failed = lookup->failed;
  if (!failed && lookup->found.empty()) failed = net::error::host_not_found;
  if (failed) co_return failure(failed, "look up " + url.host);
  co_return lookup->found;
}

// Closed and not only cancelled: what is not waiting at that moment must not start to wait.
class CloseOnCancel : Cancellation::Watch {
 public:
  CloseOnCancel(Cancellation& cancellation, Plain& stream) : Watch(cancellation, [&stream] { stream.close(); }) {}
};

net::awaitable<Result<void>> connect(Plain& stream, const std::vector<Tcp::endpoint>& endpoints, const BaseUrl& url,
                                     const Deadlines& deadlines) {
  Failed failed;
  stream.expires_at(deadlines.connect);
  co_await stream.async_connect(endpoints, net::redirect_error(net::use_awaitable, failed));
  if (failed) co_return failure(failed, "connect to " + url.authority);
  stream.socket().set_option(Tcp::no_delay(true), failed);
  co_return Result<void>{};
}

net::awaitable<Result<void>> shake_hands(Secure& stream, const BaseUrl& url, const Deadlines& deadlines) {
  Failed failed;
  net::ip::make_address(url.host, failed);
  const bool is_name = static_cast<bool>(failed);  // an address must not be announced
  if (is_name && ::SSL_set_tlsext_host_name(stream.native_handle(), url.host.c_str()) != 1) {
    co_return make_error(ErrorCode::invalid_argument, "not a host name that TLS can use");
  }
  stream.set_verify_callback(net::ssl::host_name_verification(url.host), failed);
  if (failed) co_return make_error(ErrorCode::internal, failed.message()).during("prepare TLS");
  beast::get_lowest_layer(stream).expires_at(deadlines.connect);
  co_await stream.async_handshake(net::ssl::stream_base::client, net::redirect_error(net::use_awaitable, failed));
  if (failed && failed.category() == net::error::get_ssl_category()) {
    co_return make_error(ErrorCode::permission, failed.message())
        .during("make a secure connection to " + url.host)
        .with_hint("check that this is the right server and that its certificate is signed by a known authority");
  }
  if (failed) co_return failure(failed, "make a secure connection to " + url.host);
  co_return Result<void>{};
}

http::request<http::span_body<const char>> make_request(const BaseUrl& url, const ModelRequest& request) {
  http::request<http::span_body<const char>> message;
  message.method(http::verb::post);
  message.target(url.target(request.path));
  message.set(http::field::host, url.authority);
  message.set(http::field::user_agent, "hutch");
  message.set(http::field::accept, "text/event-stream");
  message.set(http::field::accept_encoding, "identity");
  message.set(http::field::connection, "close");
  message.set(http::field::content_type, "application/json");
  for (const auto& [name, value] : request.headers) message.set(name, value);
  message.body() = {request.body.data(), request.body.size()};
  message.prepare_payload();
  return message;
}

ModelReply head_of(const http::response_header<>& header) {
  ModelReply reply{.status = header.result_int()};
  for (const auto& field : header) {
    std::string name(field.name_string());
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    reply.headers.emplace(std::move(name), std::string(field.value()));
  }
  const auto type = reply.headers.find("content-type");
  reply.streamed = reply.status == 200 && type != reply.headers.end() &&
                   beast::iequals(std::string_view(type->second).substr(0, 17), "text/event-stream");
  return reply;
}

template <class Stream>
net::awaitable<Result<ModelReply>> exchange(Stream& stream, const BaseUrl& url, const ModelRequest& request,
                                            const PieceTaker& take, const Deadlines& deadlines) {
  using Parser = http::response_parser<http::buffer_body>;
  Failed failed;
  auto& lowest = beast::get_lowest_layer(stream);
  lowest.expires_at(deadlines.end);
  auto message = make_request(url, request);
  co_await http::async_write(stream, message, net::redirect_error(net::use_awaitable, failed));
  if (failed) co_return failure(failed, "send to the model server");

  beast::flat_buffer buffer(kMostHeaderBytes + (64 << 10));
  std::optional<Parser> parser;
  for (int interim = 0;; ++interim) {
    parser.emplace();
    parser->header_limit(kMostHeaderBytes);
    parser->body_limit(kMostReplyBytes);
    lowest.expires_at(deadlines.next());
    co_await http::async_read_header(stream, buffer, *parser, net::redirect_error(net::use_awaitable, failed));
    if (failed) co_return failure(failed, "read the model server's answer");
    if (parser->get().result_int() >= 200 || interim == kMostInterimReplies) break;
  }
  ModelReply reply = head_of(parser->get());
  std::string chunk(64 << 10, '\0');
  std::uint64_t received = 0;
  while (!parser->is_done()) {
    parser->get().body().data = chunk.data();
    parser->get().body().size = chunk.size();
    lowest.expires_at(deadlines.next());
    co_await http::async_read_some(stream, buffer, *parser, net::redirect_error(net::use_awaitable, failed));
    if (failed == http::error::need_buffer) failed = {};
    const auto piece = std::string_view(chunk).substr(0, chunk.size() - parser->get().body().size);
    received += piece.size();
    if (received > kMostReplyBytes) co_return failure(http::error::body_limit, "read the model server's answer");
    if (reply.streamed) {
      auto enough = take(piece);
      if (!enough) co_return std::move(enough).error();
      if (*enough) co_return reply;
    } else {
      reply.body += piece.substr(0, kMostErrorBody - reply.body.size());
      if (reply.body.size() == kMostErrorBody) co_return reply;
    }
    if (failed) co_return failure(failed, "read the model server's answer");
  }
  co_return reply;
}

}  // namespace

struct HttpTransport::State {
  State(BaseUrl where, TransportTimes allowed) : url(std::move(where)), times(allowed) {
    Failed ignored;
    tls.set_options(
        net::ssl::context::default_workarounds | net::ssl::context::no_tlsv1 | net::ssl::context::no_tlsv1_1, ignored);
    tls.set_verify_mode(net::ssl::verify_peer, ignored);
    if (!url.secure) return;
    tls.set_default_verify_paths(ignored);  // also what SSL_CERT_FILE and SSL_CERT_DIR say
    for (const char* file : kAuthorities) {
      struct stat found{};
      if (::stat(file, &found) == 0) tls.load_verify_file(file, ignored);
    }
  }

  BaseUrl url;
  TransportTimes times;
  net::ssl::context tls{net::ssl::context::tls_client};
};

HttpTransport::HttpTransport(BaseUrl url, TransportTimes times)
    : state_(std::make_unique<State>(std::move(url), times)) {}
HttpTransport::~HttpTransport() = default;

net::awaitable<Result<ModelReply>> HttpTransport::post(const ModelRequest& request, const PieceTaker& take,
                                                       Cancellation& cancellation) {
  const BaseUrl& url = state_->url;
  const auto now = Clock::now();
  const Deadlines deadlines{.connect = now + std::min(state_->times.connect, state_->times.total),
                            .idle = state_->times.idle,
                            .end = now + state_->times.total};
  HUTCH_CO_TRY(const auto endpoints, co_await resolve(url, deadlines.connect, cancellation));
  if (cancellation.is_cancelled()) co_return make_error(ErrorCode::disconnected, "cancelled");
  const auto executor = co_await net::this_coro::executor;
  if (url.secure) {
    Secure stream(executor, state_->tls);
    const CloseOnCancel closing(cancellation, beast::get_lowest_layer(stream));
    HUTCH_CO_TRY(co_await connect(beast::get_lowest_layer(stream), endpoints, url, deadlines));
    HUTCH_CO_TRY(co_await shake_hands(stream, url, deadlines));
    co_return co_await exchange(stream, url, request, take, deadlines);
  }
  Plain stream(executor);
  const CloseOnCancel closing(cancellation, stream);
  HUTCH_CO_TRY(co_await connect(stream, endpoints, url, deadlines));
  co_return co_await exchange(stream, url, request, take, deadlines);
}

}  // namespace hutch::agent
