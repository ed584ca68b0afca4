// Legacy clients that came over HTTP: who they are until they leave, or have been silent for an hour. They hold nothing
// but what the protocol wants to be remembered; interpreters have ids of their own.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "api/mcp/outbox.h"
#include "api/mcp/server.h"

namespace hutch::mcp {

struct HttpSession {
  std::string id;
  std::string key_id;
  LegacyState state;
  Watchers::Ticket ticket = 0;
  Clock::time_point last_used = Clock::now();
  std::map<std::string, std::weak_ptr<Cancellation>> under_way;  // by the id of the request, as JSON
  std::deque<std::shared_ptr<Outbox>> streams;                   // of GET; the newest is told
};

class HttpSessions {
 public:
  explicit HttpSessions(Watchers& watchers) : watchers_(watchers) {}

  std::shared_ptr<HttpSession> add(const std::string& key_id);
  // Only the key that made it finds it.
  std::shared_ptr<HttpSession> find(std::string_view id, std::string_view key_id);
  void remove(const std::string& id);

 private:
  void make_room(const std::string& key_id);

  Watchers& watchers_;
  std::map<std::string, std::shared_ptr<HttpSession>, std::less<>> sessions_;
};

}  // namespace hutch::mcp
