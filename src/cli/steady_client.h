// A connection to a daemon that is made again when it breaks: for what may be asked twice.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "api/http_client.h"
#include "cli/remote.h"

namespace hutch {

class SteadyClient {
 public:
  static Result<SteadyClient> connect(const RemoteOptions& options);

  // Once: it may have been heard although no answer came.
  Result<HttpReply> post(const std::string& path, std::string body) {
    return client_.request("POST", path, std::move(body));
  }
  Result<HttpReply> post_stream(const std::string& path, std::string body,
                                const std::function<void(std::string_view line)>& on_line) {
    return client_.stream("POST", path, std::move(body), on_line);
  }
  Result<HttpReply> get(const std::string& path);
  // Goes on where it broke off.
  Result<HttpReply> download(const std::string& path, std::uint64_t first,
                             const std::function<void(std::string_view piece)>& on_piece);

  // For what has a way of its own to go on. After a pause, and false when it has been tried for long enough.
  bool reconnect();
  void went_well() { broken_since_.reset(); }
  Result<HttpReply> get_stream(const std::string& path, const std::function<void(std::string_view line)>& on_line) {
    return client_.stream("GET", path, {}, on_line);
  }

 private:
  using Clock = std::chrono::steady_clock;
  SteadyClient(HttpClient client, RemoteOptions options) : client_(std::move(client)), options_(std::move(options)) {}

  HttpClient client_;
  RemoteOptions options_;
  std::optional<Clock::time_point> broken_since_;
  std::chrono::milliseconds pause_{};
};

}  // namespace hutch
