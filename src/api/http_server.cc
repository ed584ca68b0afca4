#include "api/http_server.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/detached.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <charconv>
#include <list>

#include "api/api_error.h"
#include "api/http_connection.h"
#include "base/id.h"

namespace hutch {
namespace {

using Tcp = net::ip::tcp;
using Local = net::local::stream_protocol;

Result<Tcp::endpoint> parse_address(const std::string& text) {
  const auto refuse = [&] {
    return make_error(ErrorCode::invalid_argument, "not an address to listen on: " + text)
        .with_hint("write it as 127.0.0.1:8484 or [::1]:8484");
  };
  const std::size_t colon = text.rfind(':');
  if (colon == std::string::npos) return refuse();
  std::string host = text.substr(0, colon);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  if (host == "localhost") host = "127.0.0.1";
  unsigned port = 0;
  const char* end = text.data() + text.size();
  const auto [at, problem] = std::from_chars(text.data() + colon + 1, end, port);
  boost::system::error_code failed;
  const auto address = net::ip::make_address(host, failed);
  if (failed || problem != std::errc{} || at != end || port > 65'535) return refuse();
  return Tcp::endpoint(address, static_cast<unsigned short>(port));
}

}  // namespace

struct HttpServer::State : std::enable_shared_from_this<State> {
  State(net::any_io_executor on, HttpServerOptions how)
      : executor(on), options(std::move(how)), slots(options.connections) {}

  net::any_io_executor executor;
  HttpServerOptions options;
  std::list<Tcp::acceptor> tcp;
  std::list<Local::acceptor> local;
  std::unique_ptr<net::ssl::context> tls;
  ConnectionSlots slots;
  bool stopping = false;

  template <class Acceptor>
  static net::awaitable<void> accept(std::shared_ptr<State> self, Acceptor& acceptor, bool from_owner) {
    while (!self->stopping) {
      boost::system::error_code failed;
      auto socket = co_await acceptor.async_accept(net::redirect_error(net::use_awaitable, failed));
      if (self->stopping) co_return;
      if (failed) {  // out of descriptors, most likely: others must leave first
        net::steady_timer pause(self->executor, std::chrono::milliseconds(20));
        co_await pause.async_wait(net::redirect_error(net::use_awaitable, failed));
        continue;
      }
      constexpr bool kIsTcp = std::is_same_v<Acceptor, Tcp::acceptor>;
      if constexpr (kIsTcp) socket.set_option(Tcp::no_delay(true), failed);
      bool owner = from_owner;
      if (owner) {
        ucred peer{};
        socklen_t size = sizeof(peer);
        owner =
            ::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0 && peer.uid == ::geteuid();
      }
      ConnectionSlots::Peer peer;
      if constexpr (kIsTcp) peer = ConnectionSlots::peer_of(socket.remote_endpoint(failed).address());
      if (const auto problem = self->slots.refusal(peer); !problem.empty()) {
        refuse(socket.native_handle(), problem);
        continue;
      }
      net::co_spawn(self->executor, serve(self, StreamSocket(std::move(socket)), std::move(peer), owner),
                    net::detached);
    }
  }

  // Without reading anything, and without waiting.
  static void refuse(int socket, const std::string& problem) {
    const std::string id = random_id("req");
    const Answer answer = to_answer({.status = 503,
                                     .category = "capacity",
                                     .code = "no_slots",
                                     .message = problem,
                                     .hint = "Use one connection for many requests.",
                                     .retry_after = std::chrono::seconds(1)},
                                    id);
    const std::string text = "HTTP/1.1 503 Service Unavailable\r\nServer: hutch\r\nX-Request-Id: " + id +
                             "\r\nX-Content-Type-Options: nosniff\r\nCache-Control: no-store\r\n"
                             "Content-Type: application/json\r\nRetry-After: 1\r\nConnection: close\r\n"
                             "Content-Length: " +
                             std::to_string(answer.body.size()) + "\r\n\r\n" + answer.body;
    [[maybe_unused]] const ssize_t sent = ::send(socket, text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  }

  static net::awaitable<void> serve(std::shared_ptr<State> self, StreamSocket socket, ConnectionSlots::Peer peer,
                                    bool owner) {
    const bool secure = peer && self->tls;
    const ConnectionSlots::Taken slot(self->slots, std::move(peer));
    auto transport = secure ? co_await secure_transport(std::move(socket), *self->tls, self->options.times.header)
                            : plain_transport(std::move(socket));
    if (!transport) co_return;
    co_await serve_connection(HttpStream(std::move(transport)), self->options, owner, self->stopping);
  }
};

HttpServer::HttpServer(net::any_io_executor executor, HttpServerOptions options)
    : state_(std::make_shared<State>(executor, std::move(options))) {}

HttpServer::~HttpServer() { stop(); }

std::size_t HttpServer::connections() const { return state_->slots.taken(); }

Result<void> HttpServer::use_tls(const std::string& certificate, const std::string& key) {
  auto context = std::make_unique<net::ssl::context>(net::ssl::context::tls_server);
  context->set_options(net::ssl::context::default_workarounds | net::ssl::context::no_tlsv1 |
                       net::ssl::context::no_tlsv1_1);
  boost::system::error_code failed;
  context->use_certificate_chain_file(certificate, failed);
  if (failed) return make_error(ErrorCode::invalid_argument, failed.message()).during("read " + certificate);
  context->use_private_key_file(key, net::ssl::context::pem, failed);
  if (failed) return make_error(ErrorCode::invalid_argument, failed.message()).during("read " + key);
  state_->tls = std::move(context);
  return {};
}

Result<std::string> HttpServer::listen_tcp(const std::string& address) {
  HUTCH_TRY(const auto endpoint, parse_address(address));
  boost::system::error_code failed;
  Tcp::acceptor acceptor(state_->executor);
  acceptor.open(endpoint.protocol(), failed);
  if (!failed) acceptor.set_option(net::socket_base::reuse_address(true), failed);
  if (!failed) acceptor.bind(endpoint, failed);
  if (!failed) acceptor.listen(net::socket_base::max_listen_connections, failed);
  if (failed) {
    return make_error(ErrorCode::system, failed.message())
        .during("listen on " + address)
        .with_hint("choose another port with --listen, or stop who uses it");
  }
  const auto got = acceptor.local_endpoint(failed);
  const std::string host = got.address().is_v6() ? "[" + got.address().to_string() + "]" : got.address().to_string();
  state_->tcp.push_back(std::move(acceptor));
  net::co_spawn(state_->executor, State::accept(state_, state_->tcp.back(), false), net::detached);
  return host + ":" + std::to_string(got.port());
}

Result<void> HttpServer::listen_unix(const std::string& path) {
  ::unlink(path.c_str());
  boost::system::error_code failed;
  Local::acceptor acceptor(state_->executor);
  acceptor.open(Local(), failed);
  const mode_t before = ::umask(0177);
  if (!failed) acceptor.bind(Local::endpoint(path), failed);
  ::umask(before);
  if (!failed) acceptor.listen(net::socket_base::max_listen_connections, failed);
  if (failed) return make_error(ErrorCode::system, failed.message()).during("listen on " + path);
  state_->local.push_back(std::move(acceptor));
  net::co_spawn(state_->executor, State::accept(state_, state_->local.back(), true), net::detached);
  return {};
}

void HttpServer::stop() {
  if (std::exchange(state_->stopping, true)) return;
  boost::system::error_code ignored;
  for (auto& acceptor : state_->tcp) acceptor.close(ignored);
  for (auto& acceptor : state_->local) {
    ::unlink(acceptor.local_endpoint(ignored).path().c_str());
    acceptor.close(ignored);
  }
}

}  // namespace hutch
