#include "session/audit_log.h"

#include <limits>

namespace hutch {

Result<AuditLog> AuditLog::open(Database& database) {
  AuditLog log;
  HUTCH_TRY(log.append_, database.prepare("INSERT INTO audit(time_ns, key_id, action, target, detail)"
                                          " VALUES (?1, ?2, ?3, ?4, ?5)"));
  HUTCH_TRY(log.list_, database.prepare("SELECT sequence, time_ns, key_id, action, target, detail FROM audit"
                                        " WHERE sequence < ?1 ORDER BY sequence DESC LIMIT ?2"));
  HUTCH_TRY(log.remove_others_,
            database.prepare("DELETE FROM audit WHERE sequence <= (SELECT max(sequence) FROM audit) - ?1"
                             " AND action NOT IN ('key_created', 'key_rotated', 'key_revoked')"));
  HUTCH_TRY(log.remove_keys_,
            database.prepare("DELETE FROM audit WHERE sequence <= (SELECT sequence FROM audit WHERE sequence <="
                             " (SELECT max(sequence) FROM audit) - ?1 ORDER BY sequence DESC LIMIT 1 OFFSET ?1)"));
  return log;
}

Result<void> AuditLog::append(std::int64_t time_ns, std::string_view key_id, std::string_view action,
                              std::string_view target, std::string_view detail) {
  HUTCH_TRY(append_.run(time_ns, key_id, action, target, detail));
  return {};
}

Result<std::vector<AuditEntry>> AuditLog::list(std::int64_t before, std::size_t most) {
  std::vector<AuditEntry> entries;
  const auto add = [&entries](const Row& row) {
    entries.push_back({.sequence = row.integer(0),
                       .time_ns = row.integer(1),
                       .key_id = row.text(2),
                       .action = row.text(3),
                       .target = row.text(4),
                       .detail = row.text(5)});
  };
  HUTCH_TRY(list_.for_each(add, before > 0 ? before : std::numeric_limits<std::int64_t>::max(), most));
  return entries;
}

// What the first leaves before the newest is about keys: the second need not look at what it is.
Result<void> AuditLog::keep_newest(std::size_t most) {
  HUTCH_TRY(remove_others_.run(most));
  HUTCH_TRY(remove_keys_.run(most));
  return {};
}

std::vector<std::pair<std::string, std::size_t>> AuditQuota::take_rest() {
  std::vector<std::pair<std::string, std::size_t>> rest;
  for (const auto& [key_id, count] : std::exchange(counts_, {})) {
    if (count > most_) rest.emplace_back(key_id, count - most_);
  }
  return rest;
}

}  // namespace hutch
