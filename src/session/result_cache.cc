#include "session/result_cache.h"

#include <algorithm>
#include <vector>

namespace hutch {
namespace {

struct Held {
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
};

template <class... Values>
Result<Held> ask(Statement& statement, const Values&... values) {
  Held held;
  const auto note = [&held](const Row& row) {
    held = {.entries = static_cast<std::uint64_t>(row.integer(0)), .bytes = static_cast<std::uint64_t>(row.integer(1))};
  };
  HUTCH_TRY(statement.for_each(note, values...));
  return held;
}

}  // namespace

Result<ResultCache> ResultCache::open(Database& database, CacheLimits limits) {
  ResultCache cache(database, limits);
  HUTCH_TRY(cache.prepare());
  HUTCH_TRY(auto newest, database.prepare("SELECT coalesce(max(used), 0) FROM cache_entry"));
  HUTCH_TRY(newest.for_each([&cache](const Row& row) { cache.used_ = row.integer(0); }));
  return cache;
}

Result<void> ResultCache::prepare() {
  HUTCH_TRY(find_, database_->prepare(R"sql(
    SELECT record, events, created_ns, sequence, used FROM cache_entry JOIN cache_body USING (sequence)
    WHERE key_id = ?1 AND digest = ?2)sql"));
  HUTCH_TRY(note_use_, database_->prepare("UPDATE cache_entry SET used = ?2 WHERE sequence = ?1"));
  HUTCH_TRY(insert_entry_, database_->prepare(R"sql(
    INSERT INTO cache_entry(key_id, digest, bytes, created_ns, used) VALUES (?1, ?2, ?3, ?4, ?5)
    RETURNING sequence)sql"));
  HUTCH_TRY(insert_body_, database_->prepare("INSERT INTO cache_body(sequence, record, events) VALUES (?1, ?2, ?3)"));
  HUTCH_TRY(remove_,
            database_->prepare("DELETE FROM cache_entry WHERE key_id = ?1 AND digest = ?2 RETURNING key_id, bytes"));
  HUTCH_TRY(remove_oldest_, database_->prepare(R"sql(
    DELETE FROM cache_entry WHERE sequence = (SELECT sequence FROM cache_entry ORDER BY used LIMIT 1)
    RETURNING key_id, bytes)sql"));
  HUTCH_TRY(remove_oldest_of_key_, database_->prepare(R"sql(
    DELETE FROM cache_entry WHERE sequence = (SELECT sequence FROM cache_entry WHERE key_id = ?1 ORDER BY used LIMIT 1)
    RETURNING key_id, bytes)sql"));
  HUTCH_TRY(remove_all_, database_->prepare("DELETE FROM cache_entry WHERE key_id = ?1 RETURNING key_id, bytes"));
  HUTCH_TRY(add_, database_->prepare(R"sql(
    INSERT INTO cache_total(key_id, entries, bytes) VALUES (?1, ?2, ?3)
    ON CONFLICT(key_id) DO UPDATE SET entries = entries + excluded.entries, bytes = bytes + excluded.bytes)sql"));
  HUTCH_TRY(held_, database_->prepare("SELECT sum(entries), sum(bytes) FROM cache_total"));
  HUTCH_TRY(held_by_key_, database_->prepare("SELECT entries, bytes FROM cache_total WHERE key_id = ?1"));
  return {};
}

Result<std::optional<CachedResult>> ResultCache::lookup(std::string_view key_id, std::string_view digest) {
  std::optional<CachedResult> found;
  std::int64_t sequence = 0;
  std::int64_t last_used = 0;
  const auto note = [&](const Row& row) {
    found = CachedResult{.record = row.text(0), .events = row.text(1), .created_ns = row.integer(2)};
    sequence = row.integer(3);
    last_used = row.integer(4);
  };
  HUTCH_TRY(find_.for_each(note, key_id, digest));
  if (found && last_used != used_) HUTCH_TRY(note_use_.run(sequence, ++used_));
  return found;
}

Result<void> ResultCache::insert(std::string_view key_id, std::string_view digest, const CachedResult& result) {
  const std::uint64_t bytes = result.record.size() + result.events.size();
  if (bytes > std::min(limits_.total, limits_.total_of_key).count) return {};
  HUTCH_TRY(auto transaction, database_->begin());
  HUTCH_TRY(remove_with(remove_, key_id, digest));
  std::int64_t sequence = 0;
  HUTCH_TRY(insert_entry_.for_each([&sequence](const Row& row) { sequence = row.integer(0); }, key_id, digest, bytes,
                                   result.created_ns, ++used_));
  HUTCH_TRY(insert_body_.run(sequence, result.record, result.events));
  HUTCH_TRY(add_.run(key_id, 1, bytes));
  HUTCH_TRY(make_room(key_id));
  return transaction.commit();
}

Result<void> ResultCache::remove_all(std::string_view key_id) {
  HUTCH_TRY(auto transaction, database_->begin());
  HUTCH_TRY(remove_with(remove_all_, key_id));
  return transaction.commit();
}

Result<void> ResultCache::make_room(std::string_view key_id) {
  for (;;) {
    HUTCH_TRY(const auto held, ask(held_by_key_, key_id));
    if (held.entries <= limits_.entries_of_key && held.bytes <= limits_.total_of_key.count) break;
    HUTCH_TRY(const auto removed, remove_with(remove_oldest_of_key_, key_id));
    if (removed == 0) break;
  }
  for (;;) {
    HUTCH_TRY(const auto held, ask(held_));
    if (held.entries <= limits_.entries && held.bytes <= limits_.total.count) break;
    HUTCH_TRY(const auto removed, remove_with(remove_oldest_));
    if (removed == 0) break;
  }
  return {};
}

template <class... Values>
Result<std::size_t> ResultCache::remove_with(Statement& removal, const Values&... values) {
  struct Removed {
    std::string key_id;
    std::int64_t bytes;
  };
  std::vector<Removed> removed;
  HUTCH_TRY(removal.for_each(
      [&removed](const Row& row) { removed.push_back({.key_id = row.text(0), .bytes = row.integer(1)}); }, values...));
  for (const Removed& entry : removed) HUTCH_TRY(add_.run(entry.key_id, -1, -entry.bytes));
  return removed.size();
}

}  // namespace hutch
