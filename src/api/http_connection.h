// One connection: request after request, each an exchange.
#pragma once

#include "api/http_server.h"
#include "api/http_stream.h"

namespace hutch {

// Until the client leaves, misbehaves, or asks for nothing for too long. `options` and `stopping` must outlive it.
net::awaitable<void> serve_connection(HttpStream stream, const HttpServerOptions& options, bool from_owner,
                                      const bool& stopping);

}  // namespace hutch
