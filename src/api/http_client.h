// A blocking HTTP client for the command line: one request at a time, over TCP, TLS or the daemon's Unix socket.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hutch {

struct HttpReply {
  unsigned status = 0;
  std::string body;
};

class HttpClient {
 public:
  // `server`: http://HOST:PORT, https://HOST:PORT, unix:/PATH, or empty for the user's own daemon.
  static Result<HttpClient> connect(const std::string& server, const std::string& key);
  HttpClient(HttpClient&&) noexcept;
  HttpClient& operator=(HttpClient&&) noexcept;
  ~HttpClient();

  // `body` is JSON, or empty.
  Result<HttpReply> request(std::string_view method, const std::string& path, std::string body = {});
  // Asks for events, and shows each line as it comes. A refusal is the reply; otherwise its body is empty.
  Result<HttpReply> stream(std::string_view method, const std::string& path, std::string body,
                           const std::function<void(std::string_view line)>& on_line);
  // A file from byte `first` on, piece by piece. A refusal is the reply; otherwise its body is empty.
  Result<HttpReply> download(const std::string& path, std::uint64_t first,
                             const std::function<void(std::string_view piece)>& on_piece);

 private:
  struct State;
  explicit HttpClient(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hutch
