// Results of runs that may be given again to whoever asks for the same, by the digest of everything that decides a
// result. Every key has its own: a tenant never learns, from an answer or from its speed, what another has run.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"
#include "session/database.h"

namespace hutch {

struct CachedResult {
  std::string record;
  std::string events;
  std::int64_t created_ns = 0;
};

// What was not used for longest goes first: the key's own when the key has too much, anybody's when all have.
struct CacheLimits {
  Bytes total = 256_MiB;
  std::size_t entries = 10'000;
  Bytes total_of_key = 64_MiB;
  std::size_t entries_of_key = 2'500;
};

// Its Database outlives it. Only one process writes it.
class ResultCache {
 public:
  static Result<ResultCache> open(Database& database, CacheLimits limits);

  Result<std::optional<CachedResult>> lookup(std::string_view key_id, std::string_view digest);
  // Replaces what was there. A result that is larger than all may be together is not kept.
  Result<void> insert(std::string_view key_id, std::string_view digest, const CachedResult& result);
  Result<void> remove_all(std::string_view key_id);

 private:
  ResultCache(Database& database, CacheLimits limits) : database_(&database), limits_(limits) {}
  Result<void> prepare();
  Result<void> make_room(std::string_view key_id);
  // Runs a statement that deletes entries, and takes them off the totals; how many they were.
  template <class... Values>
  Result<std::size_t> remove_with(Statement& removal, const Values&... values);

  Database* database_;
  CacheLimits limits_;
  std::int64_t used_ = 0;  // a clock that ticks with every use
  Statement find_;
  Statement note_use_;
  Statement insert_entry_;
  Statement insert_body_;
  Statement remove_;
  Statement remove_oldest_;
  Statement remove_oldest_of_key_;
  Statement remove_all_;
  Statement add_;
  Statement held_;
  Statement held_by_key_;
};

}  // namespace hutch
