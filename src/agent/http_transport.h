// The way to a model server over the network: one HTTP/1.1 connection per request, TCP or TLS. A certificate must be
// valid for the host, by the system's authorities. Redirects are not followed: the key is for this server only.
#pragma once

#include <chrono>
#include <memory>

#include "agent/base_url.h"
#include "agent/model_transport.h"

namespace hutch::agent {

struct TransportTimes {
  std::chrono::milliseconds connect = std::chrono::seconds(30);  // name, connection and TLS together
  std::chrono::milliseconds idle = std::chrono::seconds(120);    // without a byte of the answer
  std::chrono::milliseconds total = std::chrono::minutes(10);
};

class HttpTransport final : public ModelTransport {
 public:
  HttpTransport(BaseUrl url, TransportTimes times);
  ~HttpTransport() override;

  net::awaitable<Result<ModelReply>> post(const ModelRequest& request, const PieceTaker& take,
                                          Cancellation& cancellation) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace hutch::agent
