#include "api/mcp/http_sessions.h"

#include "api/json_text.h"
#include "base/id.h"

namespace hutch::mcp {
namespace {

constexpr std::size_t kMost = 1'000;
constexpr std::size_t kMostOfKey = 200;
constexpr auto kLongestIdle = std::chrono::hours(1);

}  // namespace

std::shared_ptr<HttpSession> HttpSessions::add(const std::string& key_id) {
  make_room(key_id);
  auto session = std::make_shared<HttpSession>(HttpSession{.id = random_id("mcp"), .key_id = key_id});
  const std::weak_ptr<HttpSession> told = session;
  session->ticket = watchers_.add({.key_id = key_id,
                                   .wishes = [raw = session.get()]() -> const Wishes& { return raw->state.wishes; },
                                   .notify =
                                       [told](const json::object& message) {
                                         const auto to = told.lock();
                                         if (to && !to->streams.empty()) to->streams.back()->offer(json_text(message));
                                       }});
  sessions_.emplace(session->id, session);
  return session;
}

std::shared_ptr<HttpSession> HttpSessions::find(std::string_view id, std::string_view key_id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end() || found->second->key_id != key_id) return nullptr;
  found->second->last_used = Clock::now();
  return found->second;
}

void HttpSessions::remove(const std::string& id) {
  const auto found = sessions_.find(id);
  if (found == sessions_.end()) return;
  watchers_.remove(found->second->ticket);
  for (const auto& stream : found->second->streams) stream->finish();
  for (const auto& [request, cancellation] : found->second->under_way) {
    if (const auto held = cancellation.lock()) held->cancel();
  }
  sessions_.erase(found);
}

// The silent ones first; nobody takes places from others by coming often.
void HttpSessions::make_room(const std::string& key_id) {
  const auto now = Clock::now();
  std::vector<std::string> leaving;
  const HttpSession* idlest = nullptr;
  const HttpSession* own_idlest = nullptr;
  std::size_t own = 0;
  for (const auto& [id, session] : sessions_) {
    if (session->streams.empty() && session->last_used + kLongestIdle < now) {
      leaving.push_back(id);
      continue;
    }
    if (idlest == nullptr || session->last_used < idlest->last_used) idlest = session.get();
    if (session->key_id != key_id) continue;
    ++own;
    if (own_idlest == nullptr || session->last_used < own_idlest->last_used) own_idlest = session.get();
  }
  if (own >= kMostOfKey) {
    leaving.push_back(own_idlest->id);
  } else if (sessions_.size() - leaving.size() >= kMost) {
    leaving.push_back(idlest->id);
  }
  for (const auto& id : leaving) remove(id);
}

}  // namespace hutch::mcp
