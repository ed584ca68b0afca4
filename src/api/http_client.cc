#include "api/http_client.h"

#include <boost/asio/connect.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/ssl.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <optional>
#include <variant>

#include "api/engine_client.h"

namespace hutch {
namespace {

namespace net = boost::asio;
namespace beast = boost::beast;
namespace http = beast::http;
using Plain = net::generic::stream_protocol::socket;
using Secure = net::ssl::stream<Plain>;

struct Address {
  bool secure = false;
  std::string unix_path;  // empty: TCP
  std::string host, port;
};

Result<Address> parse(const std::string& server) {
  Address address;
  if (server.starts_with("unix:")) {
    address.unix_path = server.substr(5);
    address.host = "localhost";
    return address;
  }
  address.secure = server.starts_with("https://");
  if (!address.secure && !server.starts_with("http://")) {
    return make_error(ErrorCode::invalid_argument, "not the address of a daemon: " + server)
        .with_hint("write it as http://127.0.0.1:8484, https://NAME or unix:/PATH");
  }
  std::string rest = server.substr(address.secure ? 8 : 7);
  rest = rest.substr(0, rest.find('/'));
  const std::size_t colon = rest.rfind(':');
  const bool has_port = colon != std::string::npos && rest.find(']', colon) == std::string::npos;
  address.host = has_port ? rest.substr(0, colon) : rest;
  address.port = has_port ? rest.substr(colon + 1) : address.secure ? "443" : "80";
  return address;
}

}  // namespace

struct HttpClient::State {
  net::io_context context;
  net::ssl::context tls{net::ssl::context::tls_client};
  std::variant<std::monostate, Plain, Secure> stream;
  beast::flat_buffer buffer;
  std::string host;
  std::string key;

  http::request<http::string_body> make(std::string_view method, const std::string& path, std::string body) const {
    http::request<http::string_body> request;
    request.method_string({method.data(), method.size()});
    request.target(path);
    request.set(http::field::host, host);
    request.set(http::field::user_agent, "hutch");
    if (!key.empty()) request.set(http::field::authorization, "Bearer " + key);
    if (!body.empty()) request.set(http::field::content_type, "application/json");
    request.body() = std::move(body);
    request.prepare_payload();
    return request;
  }

  // What is not refused is handed on as it comes.
  template <class OnPiece>
  Result<HttpReply> receive(const http::request<http::string_body>& request, const OnPiece& on_piece) {
    HttpReply reply;
    boost::system::error_code failed;
    const auto talk = [&](auto& connection) {
      if constexpr (!std::is_same_v<std::decay_t<decltype(connection)>, std::monostate>) {
        http::write(connection, request, failed);
        http::response_parser<http::buffer_body> parser;
        parser.body_limit(boost::none);
        if (!failed) http::read_header(connection, buffer, parser, failed);
        reply.status = parser.get().result_int();
        std::string chunk(64U << 10, '\0');
        while (!failed && !parser.is_done()) {
          parser.get().body().data = chunk.data();
          parser.get().body().size = chunk.size();
          http::read_some(connection, buffer, parser, failed);
          if (failed == http::error::need_buffer) failed = {};
          const std::string_view piece = std::string_view(chunk).substr(0, chunk.size() - parser.get().body().size);
          if (reply.status == 200 || reply.status == 206) {
            on_piece(piece);
          } else {
            reply.body += piece;
          }
        }
      }
    };
    std::visit(talk, stream);
    if (failed) return make_error(ErrorCode::disconnected, failed.message()).during("talk to the daemon");
    return reply;
  }
};

HttpClient::HttpClient(std::unique_ptr<State> state) : state_(std::move(state)) {}
HttpClient::HttpClient(HttpClient&&) noexcept = default;
HttpClient& HttpClient::operator=(HttpClient&&) noexcept = default;
HttpClient::~HttpClient() = default;

Result<HttpClient> HttpClient::connect(const std::string& server, const std::string& key) {
  std::string where = server;
  if (where.empty()) {
    HUTCH_TRY(const auto location, EngineLocation::find());
    where = "unix:" + (location.directory / "serve.sock").string();
  }
  HUTCH_TRY(const auto address, parse(where));
  auto state = std::make_unique<State>();
  state->key = key;
  state->host = address.host;
  boost::system::error_code failed;
  const auto refuse = [&] {
    return make_error(ErrorCode::disconnected, failed.message())
        .during("reach the daemon at " + where)
        .with_hint("start one with `hutch serve`, or name another with --server");
  };
  if (!address.unix_path.empty()) {
    net::local::stream_protocol::socket socket(state->context);
    socket.connect(net::local::stream_protocol::endpoint(address.unix_path), failed);
    if (failed) return refuse();
    state->stream.emplace<Plain>(std::move(socket));
    return HttpClient(std::move(state));
  }
  net::ip::tcp::socket socket(state->context);
  net::ip::tcp::resolver resolver(state->context);
  std::string name = address.host;
  if (name.size() > 2 && name.front() == '[') name = name.substr(1, name.size() - 2);
  const auto found = resolver.resolve(name, address.port, failed);
  if (!failed) net::connect(socket, found, failed);
  if (failed) return refuse();
  if (!address.secure) {
    state->stream.emplace<Plain>(std::move(socket));
    return HttpClient(std::move(state));
  }
  state->tls.set_default_verify_paths(failed);
  auto& secure = state->stream.emplace<Secure>(Plain(std::move(socket)), state->tls);
  secure.set_verify_mode(net::ssl::verify_peer, failed);
  secure.set_verify_callback(net::ssl::host_name_verification(name), failed);
  SSL_set_tlsext_host_name(secure.native_handle(), name.c_str());
  secure.handshake(net::ssl::stream_base::client, failed);
  if (failed) return refuse();
  return HttpClient(std::move(state));
}

Result<HttpReply> HttpClient::request(std::string_view method, const std::string& path, std::string body) {
  HttpReply reply;
  boost::system::error_code failed;
  const auto talk = [&](auto& stream) {
    if constexpr (!std::is_same_v<std::decay_t<decltype(stream)>, std::monostate>) {
      http::write(stream, state_->make(method, path, std::move(body)), failed);
      http::response_parser<http::string_body> parser;
      parser.body_limit(boost::none);
      if (!failed) http::read(stream, state_->buffer, parser, failed);
      if (failed) return;
      reply = {.status = parser.get().result_int(), .body = std::move(parser.get().body())};
    }
  };
  std::visit(talk, state_->stream);
  if (failed) return make_error(ErrorCode::disconnected, failed.message()).during("talk to the daemon");
  return reply;
}

Result<HttpReply> HttpClient::stream(std::string_view method, const std::string& path, std::string body,
                                     const std::function<void(std::string_view)>& on_line) {
  std::string pending;
  const auto take_lines = [&](std::string_view piece) {
    pending += piece;
    std::size_t begin = 0;
    for (std::size_t end = 0; (end = pending.find('\n', begin)) != std::string::npos; begin = end + 1) {
      if (end > begin) on_line(std::string_view(pending).substr(begin, end - begin));
    }
    pending.erase(0, begin);
  };
  auto request = state_->make(method, path, std::move(body));
  request.set(http::field::accept, "application/x-ndjson");
  return state_->receive(request, take_lines);
}

Result<HttpReply> HttpClient::download(const std::string& path, std::uint64_t first,
                                       const std::function<void(std::string_view)>& on_piece) {
  auto request = state_->make("GET", path, {});
  if (first > 0) request.set(http::field::range, "bytes=" + std::to_string(first) + "-");
  return state_->receive(request, on_piece);
}

}  // namespace hutch
