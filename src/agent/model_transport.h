// Carries one request to a model server and the answer back. Real ones use HTTP (http_transport.h); tests bring theirs.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agent/cancellation.h"
#include "base/result.h"

namespace hutch::agent {

inline constexpr std::size_t kMostErrorBody = 64 << 10;

struct ModelRequest {
  std::string path;  // below the server's base
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;  // JSON
};

struct ModelReply {
  unsigned status = 0;
  std::map<std::string, std::string> headers;  // names in lower case
  bool streamed = false;                       // 200 and an event stream: all of it went to the taker
  std::string body;                            // of any other answer, as far as it fits the cap
};

// Given the stream as it comes, in any pieces. True: that was all. An error ends the exchange.
using PieceTaker = std::function<Result<bool>(std::string_view piece)>;

class ModelTransport {
 public:
  virtual ~ModelTransport() = default;

  // `request`, `take` and `cancellation` outlive the call. Errors: disconnected and timed_out may pass if it is tried
  // again; anything else will not, and nor will what the taker refused, whose error comes back as it is.
  virtual net::awaitable<Result<ModelReply>> post(const ModelRequest& request, const PieceTaker& take,
                                                  Cancellation& cancellation) = 0;
};

}  // namespace hutch::agent
