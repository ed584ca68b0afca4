// Events to somebody who reads them as they come, as server-sent events or one JSON object a line.
#pragma once

#include <memory>

#include "api/http_exchange.h"
#include "api/http_text.h"
#include "api/routes.h"
#include "session/event_stream.h"

namespace hutch {

// Until the stream is closed, the reader is gone or its key is revoked. `owner` keeps the stream alive.
net::awaitable<void> write_events(HttpExchange& exchange, std::shared_ptr<void> owner, EventStream& stream,
                                  std::uint64_t after, Accepts format);
// Where a reader wants to go on: `after`, or Last-Event-ID.
Api<std::uint64_t> resume_point(const Request& request);
// What a reader that was too slow, or came too late, did not get.
std::string gap_text(std::uint64_t from, std::uint64_t to);

}  // namespace hutch
