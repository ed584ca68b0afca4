// HTTP/1.1 and WebSocket on TCP, TLS and Unix sockets. Every byte that comes in is hostile: headers are capped, every
// wait has a deadline, connections are counted, and nothing is buffered beyond one piece.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "api/connection_slots.h"
#include "api/http_exchange.h"
#include "base/result.h"

namespace hutch {

struct HttpTimes {
  Clock::duration header = std::chrono::seconds(10);  // from the first byte to the last of the headers
  Clock::duration piece = std::chrono::seconds(30);   // of a body, read or written
  Clock::duration idle = std::chrono::seconds(75);    // between requests
};

struct HttpServerOptions {
  HttpTimes times;
  ConnectionCaps connections;
  std::shared_ptr<BodyBudget> bodies = std::make_shared<BodyBudget>();
  std::shared_ptr<BodyBudget> answers = std::make_shared<BodyBudget>(BodyCaps{.all = 512U << 20});
  std::function<net::awaitable<void>(HttpExchange&)> handle;
};

class HttpServer {
 public:
  HttpServer(net::any_io_executor executor, HttpServerOptions options);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // Certificate chain and key, PEM. For TCP listeners that are opened afterwards.
  Result<void> use_tls(const std::string& certificate, const std::string& key);
  Result<std::string> listen_tcp(const std::string& address);  // "127.0.0.1:8484"; gives the address it got
  Result<void> listen_unix(const std::string& path);           // mode 0600; its owner needs no key
  void stop();                                                 // no new connections; idle ones are closed
  [[nodiscard]] std::size_t connections() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace hutch
