// What was run and what it cost, per key. Records and events are JSON that only the API understands.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "session/database.h"
#include "session/run_journal.h"

namespace hutch {

// Times are since 1970; 0 where there is none yet.
struct StoredRun {
  std::string id;
  std::string key_id;
  std::string session_id;  // empty: none
  std::string status;      // "queued" and "running" are the ones that have not ended
  std::string template_name;
  std::int64_t created_ns = 0;
  std::int64_t started_ns = 0;
  std::int64_t finished_ns = 0;
  std::uint64_t cpu_us = 0;
  std::uint64_t wall_us = 0;
  std::uint32_t execution_count = 0;
  bool cached = false;
  std::string record;
  std::string events;
  template <class A>
  void fields(A& a) {
    a(id), a(key_id), a(session_id), a(status), a(template_name), a(created_ns), a(started_ns), a(finished_ns);
    a(cpu_us), a(wall_us), a(execution_count), a(cached), a(record), a(events);
  }
};

// Empty: any.
struct RunFilter {
  std::string session_id;
  std::string status;
  std::string before;  // the id of the last run of the page before
  std::size_t limit = 20;
};

struct Usage {
  std::uint64_t runs = 0;
  std::uint64_t cpu_us = 0;
  double cost = 0;
};

// "2026-11", in UTC.
[[nodiscard]] std::string usage_month(std::int64_t time_ns);

// Its Database outlives it.
class RunStore {
 public:
  static constexpr std::size_t kMostRemovedAtOnce = 10;
  static constexpr std::size_t kMostFlushedAtOnce = 4;

  // Results wait in the journal, which is a file of its own, until flush() or until somebody asks.
  static Result<RunStore> open(Database& database, const std::filesystem::path& journal);

  // Runs that others shall see before they have ended; a quick one needs only finish().
  Result<void> begin(std::span<const StoredRun> runs);
  Result<void> begin(const StoredRun& run) { return begin(std::span(&run, 1)); }
  // The end of a run, and its share of the usage of the month in which it ended, both or neither. A cached run counts
  // as a run and costs nothing. Only the first end counts. Safe when it returns.
  Result<void> finish(const StoredRun& run, double price_per_cpu_second);
  // What was finished, into the database. Whoever asks for runs flushes first; what the database does not take stays in
  // the journal.
  Result<void> flush();
  // The same with kMostFlushedAtOnce at most, because everybody waits meanwhile; false: there was nothing to do.
  Result<bool> flush_some();

  // Never another key's.
  Result<std::optional<StoredRun>> get(std::string_view id, std::string_view key_id);
  // Newest first, without record and events.
  Result<std::vector<StoredRun>> list(std::string_view key_id, const RunFilter& filter);

  // For the start of the daemon: what had not ended has status "error" and the record that record_for() gives it.
  Result<std::size_t> mark_interrupted(std::int64_t now_ns,
                                       const std::function<std::string(const StoredRun&)>& record_for);
  // Forgets runs that were created before time_ns, and those of a key beyond its newest keep_most. At most
  // kMostRemovedAtOnce per call, oldest first, because the daemon waits for it: call again until nothing is left.
  Result<std::vector<std::string>> remove_older_than(std::int64_t time_ns, std::size_t keep_most);

  // Processor time that is in no run's record.
  Result<void> charge(std::string_view key_id, std::string_view month, std::uint64_t cpu_us,
                      double price_per_cpu_second);
  Result<Usage> usage(std::string_view key_id, std::string_view month);
  // The keys with runs (that are still remembered) created since then.
  Result<std::vector<std::string>> distinct_keys(std::int64_t since_ns);

 private:
  struct Finished {
    StoredRun run;
    std::uint64_t cost_bits = 0;  // of a double
    template <class A>
    void fields(A& a) {
      a(run), a(cost_bits);
    }
  };

  explicit RunStore(Database& database) : database_(&database) {}
  Result<void> write_finished(const Finished& finished);
  Result<void> flush_first(std::size_t count);
  Result<void> prepare_runs();
  Result<void> prepare_lists();
  Result<void> prepare_others();
  Result<std::vector<std::string>> remove_of_key(std::string_view key_id, std::int64_t time_ns, std::size_t keep_most,
                                                 std::size_t limit);

  Database* database_;
  std::optional<RunJournal> journal_;
  std::deque<Finished> pending_;  // what only the journal holds
  std::size_t pending_bytes_ = 0;
  Statement begin_;
  Statement finish_;
  Statement add_usage_;
  Statement charge_;
  Statement get_;
  Statement list_;
  Statement list_of_session_;
  Statement list_of_status_;
  Statement position_;
  Statement unfinished_;
  Statement interrupt_;
  Statement nth_newest_;
  Statement remove_;
  Statement usage_;
  Statement keys_;
};

}  // namespace hutch
