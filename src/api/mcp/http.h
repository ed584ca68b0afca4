// Streamable HTTP: one address for both eras, kept by the daemon for as long as it lives.
#pragma once

#include "api/mcp/http_sessions.h"
#include "api/routes.h"

namespace hutch::mcp {

class HttpEndpoint {
 public:
  explicit HttpEndpoint(Daemon& daemon);

  net::awaitable<Handled> post(Request& request);
  net::awaitable<Handled> get(Request& request);
  net::awaitable<Handled> del(Request& request);

 private:
  net::awaitable<void> take_notification(Request& request, const RpcNotification& message);
  net::awaitable<void> serve_modern(Request& request, RpcRequest message);
  net::awaitable<void> serve_legacy(Request& request, RpcRequest message);
  net::awaitable<void> begin_session(Request& request, const RpcRequest& message);
  net::awaitable<void> serve(Request& request, RpcRequest message, Call call);

  Server server_;
  HttpSessions sessions_;
};

}  // namespace hutch::mcp
