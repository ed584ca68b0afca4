// One HTTP request and its answer, as handlers see it: no library, no socket. The body is read in pieces and the answer
// may be written in pieces, so that a file of any size takes no memory.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "api/body_budget.h"
#include "session/task_group.h"

namespace hutch {

enum class Method : std::uint8_t { get, head, post, put, patch, del, options, other };

struct HttpRequest {
  Method method = Method::other;
  std::string path;  // as it came, still encoded
  std::string query;
  std::map<std::string, std::string, std::less<>> headers;  // names in lower case; the first of each
  std::vector<std::string> repeated;                        // names that came more than once
  std::optional<std::uint64_t> length;                      // of the body; nothing: chunked, or none
  bool has_body = false;
  bool from_owner = false;  // over the Unix socket, from the daemon's own user
  bool wants_websocket = false;

  [[nodiscard]] std::string_view header(std::string_view name) const {
    const auto found = headers.find(name);
    return found == headers.end() ? std::string_view{} : std::string_view(found->second);
  }
};

using Headers = std::vector<std::pair<std::string, std::string>>;

struct Answer {
  unsigned status = 200;
  std::string body;
  std::string content_type = "application/json";
  Headers headers;
};

enum class BodyProblem : std::uint8_t { broken, too_slow };

// Messages in both directions, after an upgrade.
class WebSocket {
 public:
  virtual ~WebSocket() = default;
  virtual net::awaitable<std::optional<std::string>> receive() = 0;  // nothing: it is over
  // False when it is over, as it is when nobody reads for long.
  virtual net::awaitable<bool> send(std::shared_ptr<const std::string> text) = 0;
  net::awaitable<bool> send(std::string text) { return send(std::make_shared<const std::string>(std::move(text))); }
  virtual net::awaitable<void> refuse(std::string reason) = 0;  // says that a rule ends it, and closes
  virtual void close() = 0;
};

class HttpExchange {
 public:
  virtual ~HttpExchange() = default;
  [[nodiscard]] virtual const HttpRequest& request() const = 0;

  // The next piece of the body; empty at its end. The view holds until the next call.
  virtual net::awaitable<std::expected<std::string_view, BodyProblem>> read_some() = 0;

  // Either a whole answer, or a head, pieces and an end. False when the client is gone. Without the end, or with less
  // than `length`, the connection ends, so that the client knows that it has not got all.
  virtual net::awaitable<bool> answer(Answer answer) = 0;
  virtual net::awaitable<bool> begin(Answer head, std::optional<std::uint64_t> length) = 0;  // no length: chunked
  virtual net::awaitable<bool> write(std::string_view piece) = 0;
  virtual net::awaitable<bool> end() = 0;
  [[nodiscard]] virtual bool answered() const = 0;  // something has been sent

  // Whether the client has hung up, for a handler that waits long before it answers.
  [[nodiscard]] virtual bool client_gone() const = 0;

  virtual net::awaitable<std::unique_ptr<WebSocket>> upgrade() = 0;  // null when that failed

  // For what lasts: false once the key that was let in has been revoked or rotated. Looked up, so not for every byte.
  [[nodiscard]] bool still_allowed() const { return !still_known || still_known(); }
  std::function<bool()> still_known;  // set once it is known who asks

  std::string request_id;              // the client's own, or ours
  std::string key_id;                  // of whoever asks, once that is known
  std::string session_id, run_id;      // that its address names, for the log
  std::shared_ptr<BodyBudget> bodies;  // which its body takes part in
  // What the body takes of that. Given back when the handler has returned; before, by one that needs nothing of the
  // body any more and has nothing left of it. Who keeps something of the body for longer keeps this with it.
  std::shared_ptr<BodyBudget::Share> body_share;
  unsigned status = 0;  // that was sent
  Headers extra;        // that every answer carries
};

}  // namespace hutch
