// One request while it is served: who asks, what the client can take, where notifications about it go, and whether it
// was cancelled meanwhile.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "api/daemon.h"
#include "api/mcp/era.h"

namespace hutch::mcp {

// Set once, by whoever hears of it; the one who works says what is to be done then.
class Cancellation {
 public:
  explicit Cancellation(const net::any_io_executor& executor) : changed_(executor) {}
  void cancel() {
    if (cancelled_) return;
    cancelled_ = true;
    if (on_cancel_) on_cancel_();
    changed_.set();
  }
  // At once, if it has happened already.
  void on_cancel(std::function<void()> what) {
    on_cancel_ = std::move(what);
    if (cancelled_ && on_cancel_) on_cancel_();
  }
  [[nodiscard]] bool cancelled() const { return cancelled_; }
  // For one who has nothing to do until then. False when the deadline came first.
  net::awaitable<bool> wait_until(Clock::time_point deadline) { return changed_.wait_until(deadline); }

 private:
  bool cancelled_ = false;
  std::function<void()> on_cancel_;
  Event changed_;
};

using Notify = std::function<void(json::object message)>;

// Which changes a client wants to hear of.
struct Wishes {
  bool tools = false;  // that the list of them has changed
  bool prompts = false;
  bool resources = false;
  std::set<std::string> uris;
};

// What a legacy client has told us since it shook hands. Never anything about interpreters.
struct LegacyState {
  Capabilities capabilities;
  std::size_t log_level = 1;  // info
  Wishes wishes{.tools = true, .prompts = true, .resources = true};
};

struct Call {
  Daemon& daemon;
  Caller caller;
  Era era = Era::legacy;
  RequestMeta meta;
  json::value request_id;
  Notify notify;
  std::shared_ptr<Cancellation> cancellation;
  LegacyState* legacy = nullptr;       // null in the modern era
  std::function<void()> on_body_gone;  // or null; told by what lasts, once nothing is left of the request's body

  [[nodiscard]] bool modern() const { return era == Era::modern; }
  [[nodiscard]] const Capabilities& capabilities() const {
    return legacy != nullptr ? legacy->capabilities : meta.capabilities;
  }
  // Does nothing when the client does not want it.
  void log(std::string_view level, std::string text) const;
};

}  // namespace hutch::mcp
