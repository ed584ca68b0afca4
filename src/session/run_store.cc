#include "session/run_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <limits>
#include <tuple>

#include "base/log.h"
#include "wire/codec.h"

namespace hutch {
namespace {

// A place in the order of a key's runs.
struct Position {
  std::int64_t created_ns = 0;
  std::string id;
  auto operator<=>(const Position&) const = default;
};
constexpr std::size_t kMostPending = 500;
constexpr std::size_t kMostPendingBytes = 16U << 20;
constexpr std::int64_t kAfterAll = std::numeric_limits<std::int64_t>::max();

StoredRun summary_of(const Row& row) {
  StoredRun run;
  run.id = row.text(0);
  run.key_id = row.text(1);
  run.session_id = row.text(2);
  run.status = row.text(3);
  run.template_name = row.text(4);
  run.created_ns = row.integer(5);
  run.started_ns = row.integer(6);
  run.finished_ns = row.integer(7);
  run.cpu_us = static_cast<std::uint64_t>(row.integer(8));
  run.wall_us = static_cast<std::uint64_t>(row.integer(9));
  run.execution_count = static_cast<std::uint32_t>(row.integer(10));
  run.cached = row.integer(11) != 0;
  return run;
}

StoredRun run_of(const Row& row) {
  StoredRun run = summary_of(row);
  run.record = row.text(12);
  run.events = row.text(13);
  return run;
}

Result<std::int64_t> write(Statement& statement, const StoredRun& run) {
  return statement.run(run.id, run.key_id, run.session_id, run.status, run.template_name, run.created_ns,
                       run.started_ns, run.finished_ns, run.cpu_us, run.wall_us, run.execution_count, run.cached,
                       run.record, run.events);
}

}  // namespace

// In the order of summary_of(), run_of() and write().
#define HUTCH_RUN_SUMMARY                                                                                 \
  "id, key_id, session_id, status, template_name, created_ns, started_ns, finished_ns, cpu_us, wall_us, " \
  "execution_count, cached"
#define HUTCH_RUN_COLUMNS HUTCH_RUN_SUMMARY ", record, events"
#define HUTCH_RUN_INSERT \
  "INSERT INTO run(" HUTCH_RUN_COLUMNS ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14)"
#define HUTCH_RUN_PAGE " AND (created_ns, id) < (?2, ?3) ORDER BY created_ns DESC, id DESC LIMIT ?4"

std::string usage_month(std::int64_t time_ns) {
  using std::chrono::floor;
  const std::chrono::sys_time<std::chrono::nanoseconds> time{std::chrono::nanoseconds(time_ns)};
  const std::chrono::year_month_day date{floor<std::chrono::days>(time)};
  return fmt::format("{:04}-{:02}", static_cast<int>(date.year()), static_cast<unsigned>(date.month()));
}

Result<RunStore> RunStore::open(Database& database, const std::filesystem::path& journal) {
  RunStore store(database);
  HUTCH_TRY(store.prepare_runs());
  HUTCH_TRY(store.prepare_lists());
  HUTCH_TRY(store.prepare_others());
  HUTCH_TRY(auto transaction, database.begin());
  HUTCH_TRY(store.journal_, RunJournal::open(journal, [&store](std::string_view entry) -> Result<void> {
              const auto finished = wire::decode<Finished>(entry);
              if (finished) return store.write_finished(*finished);
              log::error("a result in the journal is of another version, and lost", {});  // no reason not to start
              return {};
            }));
  HUTCH_TRY(transaction.commit());
  HUTCH_TRY(store.journal_->clear());
  return store;
}

Result<void> RunStore::prepare_runs() {
  HUTCH_TRY(begin_, database_->prepare(HUTCH_RUN_INSERT));
  HUTCH_TRY(finish_, database_->prepare(HUTCH_RUN_INSERT R"sql(
    ON CONFLICT(id) DO UPDATE SET status = excluded.status, started_ns = excluded.started_ns,
      finished_ns = excluded.finished_ns, cpu_us = excluded.cpu_us, wall_us = excluded.wall_us,
      execution_count = excluded.execution_count, cached = excluded.cached, record = excluded.record,
      events = excluded.events
    WHERE run.status IN ('queued', 'running') AND run.key_id = excluded.key_id)sql"));
  HUTCH_TRY(get_, database_->prepare("SELECT " HUTCH_RUN_COLUMNS " FROM run WHERE id = ?1 AND key_id = ?2"));
  HUTCH_TRY(unfinished_,
            database_->prepare("SELECT " HUTCH_RUN_COLUMNS " FROM run WHERE status IN ('queued', 'running')"));
  HUTCH_TRY(interrupt_,
            database_->prepare("UPDATE run SET status = 'error', finished_ns = ?2, record = ?3 WHERE id = ?1"));
  HUTCH_TRY(remove_, database_->prepare(R"sql(
    DELETE FROM run WHERE sequence IN (
      SELECT sequence FROM run
      WHERE key_id = ?1 AND (created_ns, id) < (?2, ?3) AND status NOT IN ('queued', 'running')
      ORDER BY created_ns, id LIMIT ?4)
    RETURNING id)sql"));
  return {};
}

// Each filter walks the index that is made for it, so that a page costs as much as it shows.
Result<void> RunStore::prepare_lists() {
  HUTCH_TRY(list_, database_->prepare("SELECT " HUTCH_RUN_SUMMARY " FROM run WHERE key_id = ?1" HUTCH_RUN_PAGE));
  HUTCH_TRY(list_of_session_, database_->prepare("SELECT " HUTCH_RUN_SUMMARY
                                                 " FROM run WHERE key_id = ?1 AND session_id = ?5 AND session_id <> ''"
                                                 " AND (?6 = '' OR status = ?6)" HUTCH_RUN_PAGE));
  HUTCH_TRY(list_of_status_, database_->prepare("SELECT " HUTCH_RUN_SUMMARY
                                                " FROM run WHERE key_id = ?1 AND status = ?5" HUTCH_RUN_PAGE));
  HUTCH_TRY(position_, database_->prepare("SELECT created_ns, id FROM run WHERE id = ?1 AND key_id = ?2"));
  HUTCH_TRY(nth_newest_, database_->prepare("SELECT created_ns, id FROM run WHERE key_id = ?1"
                                            " ORDER BY created_ns DESC, id DESC LIMIT 1 OFFSET ?2"));
  return {};
}

Result<void> RunStore::prepare_others() {
  HUTCH_TRY(add_usage_, database_->prepare(R"sql(
    INSERT INTO usage(key_id, month, runs, cpu_us, cost) VALUES (?1, ?2, 1, ?3, ?4)
    ON CONFLICT(key_id, month) DO UPDATE SET runs = runs + 1, cpu_us = cpu_us + excluded.cpu_us,
      cost = cost + excluded.cost)sql"));
  HUTCH_TRY(charge_, database_->prepare(R"sql(
    INSERT INTO usage(key_id, month, runs, cpu_us, cost) VALUES (?1, ?2, 0, ?3, ?4)
    ON CONFLICT(key_id, month) DO UPDATE SET cpu_us = cpu_us + excluded.cpu_us, cost = cost + excluded.cost)sql"));
  HUTCH_TRY(usage_, database_->prepare("SELECT runs, cpu_us, cost FROM usage WHERE key_id = ?1 AND month = ?2"));
  HUTCH_TRY(keys_, database_->prepare(R"sql(
    SELECT key_id FROM key_with_runs AS known
    WHERE EXISTS (SELECT 1 FROM run WHERE run.key_id = known.key_id AND created_ns >= ?1))sql"));
  return {};
}

Result<void> RunStore::begin(std::span<const StoredRun> runs) {
  HUTCH_TRY(auto transaction, database_->begin());
  for (const StoredRun& run : runs) HUTCH_TRY(write(begin_, run));
  return transaction.commit();
}

Result<void> RunStore::finish(const StoredRun& run, double price_per_cpu_second) {
  const double cost = run.cached ? 0 : static_cast<double>(run.cpu_us) / 1e6 * price_per_cpu_second;
  Finished finished{.run = run, .cost_bits = std::bit_cast<std::uint64_t>(cost)};
  HUTCH_TRY(journal_->append(wire::encode(finished)));
  pending_bytes_ += run.record.size() + run.events.size();
  pending_.push_back(std::move(finished));
  if (pending_.size() < kMostPending && pending_bytes_ < kMostPendingBytes) return {};
  return flush();
}

// The first end counts: another one is of a journal that was written but not cleared when its daemon was killed, or is
// not this key's to tell.
Result<void> RunStore::write_finished(const Finished& finished) {
  const StoredRun& run = finished.run;
  HUTCH_TRY(const auto changed, write(finish_, run));
  if (changed == 0) return {};
  HUTCH_TRY(add_usage_.run(run.key_id, usage_month(run.finished_ns), run.cached ? 0 : run.cpu_us,
                           std::bit_cast<double>(finished.cost_bits)));
  return {};
}

Result<void> RunStore::flush() { return pending_.empty() ? Result<void>{} : flush_first(pending_.size()); }

Result<bool> RunStore::flush_some() {
  if (pending_.empty()) return false;
  HUTCH_TRY(flush_first(std::min(pending_.size(), kMostFlushedAtOnce)));
  return true;
}

Result<void> RunStore::flush_first(std::size_t count) {
  HUTCH_TRY(auto transaction, database_->begin());
  for (std::size_t i = 0; i < count; ++i) HUTCH_TRY(write_finished(pending_[i]));
  HUTCH_TRY(transaction.commit());
  for (std::size_t i = 0; i < count; ++i) {
    pending_bytes_ -= pending_.front().run.record.size() + pending_.front().run.events.size();
    pending_.pop_front();
  }
  return pending_.empty() ? journal_->clear() : Result<void>{};
}

Result<std::optional<StoredRun>> RunStore::get(std::string_view id, std::string_view key_id) {
  std::ignore = flush();
  std::optional<StoredRun> found;
  HUTCH_TRY(get_.for_each([&found](const Row& row) { found = run_of(row); }, id, key_id));
  return found;
}

Result<std::vector<StoredRun>> RunStore::list(std::string_view key_id, const RunFilter& filter) {
  std::ignore = flush();
  Position before{.created_ns = kAfterAll, .id = {}};
  if (!filter.before.empty()) {
    bool exists = false;
    const auto note = [&](const Row& row) {
      exists = true;
      before = {.created_ns = row.integer(0), .id = row.text(1)};
    };
    HUTCH_TRY(position_.for_each(note, filter.before, key_id));
    if (!exists) return make_error(ErrorCode::invalid_argument, "before names no run");
  }
  std::vector<StoredRun> runs;
  const auto add = [&runs](const Row& row) { runs.push_back(summary_of(row)); };
  if (!filter.session_id.empty()) {
    HUTCH_TRY(list_of_session_.for_each(add, key_id, before.created_ns, before.id, filter.limit, filter.session_id,
                                        filter.status));
  } else if (!filter.status.empty()) {
    HUTCH_TRY(list_of_status_.for_each(add, key_id, before.created_ns, before.id, filter.limit, filter.status));
  } else {
    HUTCH_TRY(list_.for_each(add, key_id, before.created_ns, before.id, filter.limit));
  }
  return runs;
}

Result<std::size_t> RunStore::mark_interrupted(std::int64_t now_ns,
                                               const std::function<std::string(const StoredRun&)>& record_for) {
  HUTCH_TRY(flush());
  HUTCH_TRY(auto transaction, database_->begin());
  std::vector<StoredRun> runs;
  HUTCH_TRY(unfinished_.for_each([&runs](const Row& row) { runs.push_back(run_of(row)); }));
  for (const StoredRun& run : runs) HUTCH_TRY(interrupt_.run(run.id, now_ns, record_for(run)));
  HUTCH_TRY(transaction.commit());
  return runs.size();
}

Result<std::vector<std::string>> RunStore::remove_older_than(std::int64_t time_ns, std::size_t keep_most) {
  std::ignore = flush();
  HUTCH_TRY(const auto keys, distinct_keys(std::numeric_limits<std::int64_t>::min()));
  std::vector<std::string> removed;
  HUTCH_TRY(auto transaction, database_->begin());
  for (const std::string& key_id : keys) {
    if (removed.size() == kMostRemovedAtOnce) break;
    HUTCH_TRY(auto ids, remove_of_key(key_id, time_ns, keep_most, kMostRemovedAtOnce - removed.size()));
    std::ranges::move(ids, std::back_inserter(removed));
  }
  HUTCH_TRY(transaction.commit());
  return removed;
}

Result<std::vector<std::string>> RunStore::remove_of_key(std::string_view key_id, std::int64_t time_ns,
                                                         std::size_t keep_most, std::size_t limit) {
  Position oldest_kept{.created_ns = keep_most == 0 ? kAfterAll : time_ns, .id = {}};
  if (keep_most > 0) {
    const auto raise = [&oldest_kept](const Row& row) {
      oldest_kept = std::max(oldest_kept, Position{.created_ns = row.integer(0), .id = row.text(1)});
    };
    HUTCH_TRY(nth_newest_.for_each(raise, key_id, keep_most - 1));
  }
  std::vector<std::string> removed;
  HUTCH_TRY(remove_.for_each([&removed](const Row& row) { removed.push_back(row.text(0)); }, key_id,
                             oldest_kept.created_ns, oldest_kept.id, limit));
  return removed;
}

Result<void> RunStore::charge(std::string_view key_id, std::string_view month, std::uint64_t cpu_us,
                              double price_per_cpu_second) {
  HUTCH_TRY(charge_.run(key_id, month, cpu_us, static_cast<double>(cpu_us) / 1e6 * price_per_cpu_second));
  return {};
}

Result<Usage> RunStore::usage(std::string_view key_id, std::string_view month) {
  std::ignore = flush();
  Usage usage;
  const auto note = [&usage](const Row& row) {
    usage = {.runs = static_cast<std::uint64_t>(row.integer(0)),
             .cpu_us = static_cast<std::uint64_t>(row.integer(1)),
             .cost = row.real(2)};
  };
  HUTCH_TRY(usage_.for_each(note, key_id, month));
  return usage;
}

Result<std::vector<std::string>> RunStore::distinct_keys(std::int64_t since_ns) {
  std::ignore = flush();
  std::vector<std::string> keys;
  HUTCH_TRY(keys_.for_each([&keys](const Row& row) { keys.push_back(row.text(0)); }, since_ns));
  return keys;
}

}  // namespace hutch
