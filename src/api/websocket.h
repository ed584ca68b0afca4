// Messages over a connection whose client asked for that instead of HTTP.
#pragma once

#include <boost/beast/http/buffer_body.hpp>
#include <boost/beast/http/message.hpp>
#include <memory>

#include "api/http_exchange.h"
#include "api/http_stream.h"

namespace hutch {

using UpgradeRequest = boost::beast::http::request<boost::beast::http::buffer_body>;

// Null when the client asked wrongly or is gone. `request` must outlive the call, not what is returned.
net::awaitable<std::unique_ptr<WebSocket>> accept_websocket(HttpStream stream, const UpgradeRequest& request);

}  // namespace hutch
