// Who is told when files of a session change, or what can be listed does. A watcher is a modern subscription or a
// legacy client; it hears only of what belongs to its own key.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "api/mcp/call.h"

namespace hutch::mcp {

class Watchers {
 public:
  struct Watcher {
    std::string key_id;
    std::function<const Wishes&()> wishes;
    std::optional<json::value> subscription;  // modern: what its notifications carry
    Notify notify;
  };
  using Ticket = std::uint64_t;

  Ticket add(Watcher watcher) {
    watchers_.emplace(++last_, std::move(watcher));
    return last_;
  }
  void remove(Ticket ticket) { watchers_.erase(ticket); }
  [[nodiscard]] std::size_t count(std::string_view key_id) const;

  void tell_of_run(const LiveRun& run);
  enum class List : std::uint8_t { tools, prompts, resources };
  void tell_of_list(List list, std::string_view key_id);

 private:
  static void tell(const Watcher& watcher, std::string_view method, json::object params);

  std::map<Ticket, Watcher> watchers_;
  Ticket last_ = 0;
};

inline constexpr std::size_t kMostSubscribed = 1'000;  // addresses, of one client
inline constexpr std::size_t kMostSubscribedBytes = 256U << 10;
// With a path of 1,024 bytes, every one of them percent-encoded.
inline constexpr std::size_t kLongestUri = 3'200;

// Whether there is such a resource that is in no sandbox.
using KnowsResource = std::function<bool(std::string_view uri)>;

// Only to what could be there, sooner or later: it is kept for as long as the client is.
Rpc<void> subscribe(Wishes& wishes, const std::string& uri, const KnowsResource& knows = nullptr);
// {"toolsListChanged": true, "resourceSubscriptions": ["sandbox://..."]}, and back: what we honour of it.
Rpc<Wishes> read_wishes(const json::object& notifications, const KnowsResource& knows = nullptr);
json::object write_wishes(const Wishes& wishes);

}  // namespace hutch::mcp
