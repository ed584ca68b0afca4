// Sessions as they are remembered over a restart of the daemon. Labels and options are JSON that only the API
// understands.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "session/database.h"

namespace hutch {

struct StoredSession {
  std::string id;
  std::string key_id;
  std::string name;
  std::string labels;
  std::string template_name;
  std::string mode;
  std::string options;
  std::string state;
  std::int64_t created_ns = 0;
  std::int64_t last_used_ns = 0;
  std::int64_t ttl_s = 0;
  std::int64_t max_age_s = 0;
  bool persist = false;
  std::uint32_t execution_count = 0;

  [[nodiscard]] std::int64_t expires_ns() const {
    return std::min(last_used_ns + ttl_s * 1'000'000'000, created_ns + max_age_s * 1'000'000'000);
  }
};

struct SessionUse {
  std::string id;
  std::int64_t last_used_ns = 0;
};

// Its Database outlives it.
class SessionStore {
 public:
  static Result<SessionStore> open(Database& database);

  Result<void> save(const StoredSession& session);  // new or changed; a session never changes its key
  Result<std::optional<StoredSession>> get(std::string_view id, std::string_view key_id);  // never another key's
  Result<std::vector<StoredSession>> list(std::string_view key_id);                        // newest first
  Result<std::vector<StoredSession>> all();  // for the start of the daemon
  Result<void> remove(std::string_view id);
  Result<void> note_uses(std::span<const SessionUse> uses);  // of those that are stored; in one transaction

 private:
  SessionStore() = default;

  Statement save_;
  Statement get_;
  Statement list_;
  Statement all_;
  Statement remove_;
  Statement note_use_;
  Database* database_ = nullptr;
};

}  // namespace hutch
