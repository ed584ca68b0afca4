// Who did what, for the operator: keys made and revoked, sessions, refusals. The oldest entries go when there are many,
// so that nobody can fill the disk with what is noted about them. What is done with keys goes last: only the operator
// does that, and whatever tenants cause must not push it out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "session/database.h"

namespace hutch {

struct AuditEntry {
  std::int64_t sequence = 0;
  std::int64_t time_ns = 0;
  std::string key_id;  // who; empty when that is not known
  std::string action;
  std::string target;  // the id of what it was done to, or the address that was refused
  std::string detail;
};

// Its Database outlives it.
class AuditLog {
 public:
  static Result<AuditLog> open(Database& database);

  Result<void> append(std::int64_t time_ns, std::string_view key_id, std::string_view action, std::string_view target,
                      std::string_view detail = {});
  // Newest first, those before the entry of that number; 0: from the newest on.
  Result<std::vector<AuditEntry>> list(std::int64_t before, std::size_t most);
  // So many of the newest entries, and as many about keys that are older.
  Result<void> keep_newest(std::size_t most);

 private:
  AuditLog() = default;

  Statement append_;
  Statement list_;
  Statement remove_others_;
  Statement remove_keys_;
};

// What one key may have noted of its own doing in a minute; the rest is only counted.
class AuditQuota {
 public:
  explicit AuditQuota(std::size_t most) : most_(most) {}

  [[nodiscard]] bool take(const std::string& key_id) { return ++counts_[key_id] <= most_; }
  // Who had more, and how many more. A new minute begins.
  std::vector<std::pair<std::string, std::size_t>> take_rest();

 private:
  std::size_t most_;
  std::map<std::string, std::size_t> counts_;
};

}  // namespace hutch
