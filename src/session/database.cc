#include "session/database.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/stat.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "base/unique_fd.h"

namespace hutch {
namespace {

// Each leads from one version to the next and is never edited once released: what changes is a new one at the end.
// Rows belong to a key; there is no foreign key to api_key, because the key `local` is in no table.
constexpr SqlText kMigrations[] = {
    R"sql(
CREATE TABLE api_key(
  id TEXT PRIMARY KEY, secret_sha256 TEXT NOT NULL, name TEXT NOT NULL, owner TEXT NOT NULL,
  run INTEGER NOT NULL, files INTEGER NOT NULL, admin INTEGER NOT NULL,
  concurrent_runs INTEGER, runs_per_minute INTEGER, memory_bytes INTEGER, cpu_seconds_per_month INTEGER,
  budget_per_month REAL, cache INTEGER NOT NULL,
  created_ns INTEGER NOT NULL, revoked_ns INTEGER, rotated_from TEXT NOT NULL) STRICT, WITHOUT ROWID;

-- record and events last: a list of runs then never reads them.
CREATE TABLE run(
  sequence INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, key_id TEXT NOT NULL, session_id TEXT NOT NULL,
  status TEXT NOT NULL, template_name TEXT NOT NULL,
  created_ns INTEGER NOT NULL, started_ns INTEGER NOT NULL, finished_ns INTEGER NOT NULL,
  cpu_us INTEGER NOT NULL, wall_us INTEGER NOT NULL, execution_count INTEGER NOT NULL, cached INTEGER NOT NULL,
  record TEXT NOT NULL, events TEXT NOT NULL) STRICT;
CREATE INDEX run_by_key ON run(key_id, created_ns, id);
CREATE INDEX run_by_status ON run(key_id, status, created_ns, id);
CREATE INDEX run_by_session ON run(key_id, session_id, created_ns, id) WHERE session_id <> '';
CREATE INDEX run_unfinished ON run(id) WHERE status IN ('queued', 'running');
-- The keys that have runs, by jumping from key to key in the index: DISTINCT would read every run.
CREATE VIEW key_with_runs(key_id) AS
  WITH RECURSIVE found(key_id) AS (
    SELECT min(key_id) FROM run
    UNION ALL
    SELECT (SELECT min(run.key_id) FROM run WHERE run.key_id > found.key_id) FROM found WHERE found.key_id IS NOT NULL)
  SELECT key_id FROM found WHERE key_id IS NOT NULL;

CREATE TABLE usage(
  key_id TEXT NOT NULL, month TEXT NOT NULL, runs INTEGER NOT NULL, cpu_us INTEGER NOT NULL, cost REAL NOT NULL,
  PRIMARY KEY(key_id, month)) STRICT, WITHOUT ROWID;
CREATE TABLE audit(
  sequence INTEGER PRIMARY KEY, time_ns INTEGER NOT NULL, key_id TEXT NOT NULL, action TEXT NOT NULL,
  target TEXT NOT NULL, detail TEXT NOT NULL) STRICT;

CREATE TABLE session(
  id TEXT PRIMARY KEY, key_id TEXT NOT NULL, name TEXT NOT NULL, labels TEXT NOT NULL, template_name TEXT NOT NULL,
  mode TEXT NOT NULL, options TEXT NOT NULL, state TEXT NOT NULL,
  created_ns INTEGER NOT NULL, last_used_ns INTEGER NOT NULL, ttl_s INTEGER NOT NULL, max_age_s INTEGER NOT NULL,
  persist INTEGER NOT NULL, execution_count INTEGER NOT NULL) STRICT, WITHOUT ROWID;
CREATE INDEX session_by_key ON session(key_id, created_ns, id);

-- The bodies stand apart: noting that an entry was used then rewrites a few bytes instead of the result.
CREATE TABLE cache_entry(
  sequence INTEGER PRIMARY KEY, key_id TEXT NOT NULL, digest TEXT NOT NULL, bytes INTEGER NOT NULL,
  created_ns INTEGER NOT NULL, used INTEGER NOT NULL, UNIQUE(key_id, digest)) STRICT;
CREATE INDEX cache_by_use ON cache_entry(used);
CREATE INDEX cache_by_use_of_key ON cache_entry(key_id, used);
CREATE TABLE cache_body(
  sequence INTEGER PRIMARY KEY REFERENCES cache_entry ON DELETE CASCADE,
  record TEXT NOT NULL, events TEXT NOT NULL) STRICT;
CREATE TABLE cache_total(
  key_id TEXT PRIMARY KEY, entries INTEGER NOT NULL, bytes INTEGER NOT NULL) STRICT, WITHOUT ROWID;

PRAGMA user_version = 1;
)sql",
};

constexpr std::chrono::milliseconds kBusyTimeout{5000};
constexpr int kLongLog = 4096;                       // pages of 4 KiB
constexpr std::int64_t kApplicationId = 0x68757463;  // "hutc", as execute() writes it below

ErrorCode code_of(int sqlite_code) {
  switch (sqlite_code & 0xff) {
    case SQLITE_BUSY:
    case SQLITE_LOCKED:
      return ErrorCode::timed_out;
    case SQLITE_FULL:
    case SQLITE_TOOBIG:
      return ErrorCode::limit;
    case SQLITE_PERM:
    case SQLITE_READONLY:
    case SQLITE_AUTH:
      return ErrorCode::permission;
    case SQLITE_NOTADB:
    case SQLITE_CORRUPT:
      return ErrorCode::protocol;
    case SQLITE_CONSTRAINT:
      return ErrorCode::already_exists;
    case SQLITE_CANTOPEN:
    case SQLITE_IOERR:
      return ErrorCode::system;
    default:
      return ErrorCode::internal;
  }
}

Error database_error(sqlite3* handle, int code) {
  const std::string message = handle != nullptr ? sqlite3_errmsg(handle) : sqlite3_errstr(code);
  Error error = make_error(code_of(code), "SQLite: " + message);
  if (error.code == ErrorCode::system && handle != nullptr) error.system_errno = sqlite3_system_errno(handle);
  if (error.code == ErrorCode::protocol) {
    return std::move(error).with_hint("Restore the file from a backup, or move it away to start with an empty one.");
  }
  return error;
}

// SQLite gives its log and index the mode of the file. Never opens a file that exists: closing it again would drop the
// locks that this process may hold on it.
Result<void> make_private_file(const std::filesystem::path& path) {
  const UniqueFd created{::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
  if (created) return {};
  if (errno != EEXIST) return system_error(errno);
  struct stat status{};
  if (::stat(path.c_str(), &status) != 0) return system_error(errno);
  if (!S_ISREG(status.st_mode)) return make_error(ErrorCode::invalid_argument, "is no regular file");
  if ((status.st_mode & 077) != 0 && ::chmod(path.c_str(), 0600) != 0) return system_error(errno);
  return {};
}

}  // namespace

bool Row::is_null(int column) const { return sqlite3_column_type(statement_, column) == SQLITE_NULL; }
std::int64_t Row::integer(int column) const { return sqlite3_column_int64(statement_, column); }
double Row::real(int column) const { return sqlite3_column_double(statement_, column); }
std::string Row::text(int column) const {
  const void* bytes = sqlite3_column_blob(statement_, column);  // null when empty
  const int size = sqlite3_column_bytes(statement_, column);
  return bytes != nullptr ? std::string(static_cast<const char*>(bytes), static_cast<std::size_t>(size))
                          : std::string();
}

void Statement::Finalize::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

Statement::Execution::Execution(sqlite3_stmt* statement)
    : statement_(statement), changes_before_(sqlite3_total_changes64(sqlite3_db_handle(statement))) {}
Statement::Execution::~Execution() {
  sqlite3_reset(statement_);  // repeats the error that step() has reported
  sqlite3_clear_bindings(statement_);
}
std::int64_t Statement::Execution::changed() const {
  return sqlite3_total_changes64(sqlite3_db_handle(statement_)) - changes_before_;
}

int Statement::bind_integer(int position, std::int64_t value) {
  return sqlite3_bind_int64(statement_.get(), position, value);
}
int Statement::bind_null(int position) { return sqlite3_bind_null(statement_.get(), position); }
int Statement::bind(int position, double value) { return sqlite3_bind_double(statement_.get(), position, value); }
int Statement::bind(int position, std::string_view value) {
  // A null pointer would be NULL instead of an empty text.
  return sqlite3_bind_text64(statement_.get(), position, value.empty() ? "" : value.data(), value.size(), SQLITE_STATIC,
                             SQLITE_UTF8);
}
int Statement::bind(int position, Blob value) {
  return sqlite3_bind_blob64(statement_.get(), position, value.bytes.empty() ? "" : value.bytes.data(),
                             value.bytes.size(), SQLITE_STATIC);
}
Result<bool> Statement::step() {
  const int code = sqlite3_step(statement_.get());
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return failure(code);
}
Error Statement::failure(int code) const { return database_error(sqlite3_db_handle(statement_.get()), code); }

Transaction::~Transaction() {
  // A failure that SQLite has rolled back by itself leaves nothing to roll back.
  if (database_ != nullptr) static_cast<void>(database_->rollback_.run());
}
Result<void> Transaction::commit() {
  HUTCH_TRY(database_->commit_.run());
  database_ = nullptr;
  return {};
}

void Database::Close::operator()(sqlite3* handle) const { sqlite3_close_v2(handle); }

Result<Database> Database::open(const std::filesystem::path& path) { return open(path, kMigrations); }

Result<Database> Database::open(const std::filesystem::path& path, std::span<const SqlText> migrations) {
  const auto opening = [&path](Error error) { return std::move(error).during("open database " + path.string()); };
  if (auto made = make_private_file(path); !made) return opening(std::move(made).error());
  sqlite3* handle = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &handle,
                                   SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX | SQLITE_OPEN_EXRESCODE, nullptr);
  Database database(handle);  // also when it failed: the handle carries the message and wants to be closed
  if (code != SQLITE_OK) return opening(database_error(handle, code));
  if (auto done = database.configure_patiently(); !done) return opening(std::move(done).error());
  if (auto done = database.migrate(migrations); !done) return opening(std::move(done).error());
  return database;
}

// Two processes that both begin or end the log at the same time find each other's lock, and there SQLite fails at once
// instead of waiting.
Result<void> Database::configure_patiently() {
  const auto deadline = std::chrono::steady_clock::now() + kBusyTimeout;
  for (;;) {
    auto done = configure();
    if (done || done.error().code != ErrorCode::timed_out || std::chrono::steady_clock::now() > deadline) return done;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

Result<void> Database::configure() {
  sqlite3_busy_timeout(handle_.get(), static_cast<int>(kBusyTimeout.count()));
  sqlite3_db_config(handle_.get(), SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(handle_.get(), SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(handle_.get(), SQLITE_DBCONFIG_DQS_DML, 0, nullptr);
  sqlite3_db_config(handle_.get(), SQLITE_DBCONFIG_DQS_DDL, 0, nullptr);
  HUTCH_TRY(execute("PRAGMA foreign_keys = ON; PRAGMA temp_store = MEMORY; PRAGMA cache_size = -8192;"));
  std::string mode;
  HUTCH_TRY(auto journal, prepare("PRAGMA journal_mode = WAL"));
  HUTCH_TRY(journal.for_each([&mode](const Row& row) { mode = row.text(0); }));
  if (mode != "wal") {
    return make_error(ErrorCode::unsupported, "its file system cannot share memory between processes (no WAL)")
        .with_hint("Keep Hutch's data on a local disk.");
  }
  HUTCH_TRY(
      execute("PRAGMA synchronous = NORMAL; PRAGMA wal_autocheckpoint = 0; PRAGMA journal_size_limit = 67108864;"));
  HUTCH_TRY(begin_, prepare("BEGIN IMMEDIATE"));
  HUTCH_TRY(commit_, prepare("COMMIT"));
  HUTCH_TRY(rollback_, prepare("ROLLBACK"));
  HUTCH_TRY(data_version_, prepare("PRAGMA data_version"));
  return {};
}

Result<void> Database::migrate(std::span<const SqlText> migrations) {
  HUTCH_TRY(auto version, known_version(migrations.size()));
  if (version == std::ssize(migrations)) return {};
  HUTCH_TRY(auto transaction, begin());
  HUTCH_TRY(version, known_version(migrations.size()));  // another process may have been first
  HUTCH_TRY(execute("PRAGMA application_id = 0x68757463"));
  for (const SqlText& migration : migrations.subspan(static_cast<std::size_t>(version))) HUTCH_TRY(execute(migration));
  return transaction.commit();
}

Result<std::int64_t> Database::known_version(std::size_t newest) {
  HUTCH_TRY(const auto version, ask("PRAGMA user_version"));
  HUTCH_TRY(const auto application, ask("PRAGMA application_id"));
  HUTCH_TRY(const auto tables, ask("SELECT count(*) FROM sqlite_schema"));
  const bool is_new = version == 0 && application == 0 && tables == 0;
  if (version < 0 || (application != kApplicationId && !is_new)) {
    return make_error(ErrorCode::invalid_argument, "is a database of another program");
  }
  if (version > static_cast<std::int64_t>(newest)) {
    return make_error(ErrorCode::unsupported, "was written by a newer Hutch: its version is " +
                                                  std::to_string(version) + ", this program knows " +
                                                  std::to_string(newest))
        .with_hint("Update this Hutch, or give it another data directory.");
  }
  return version;
}

Result<void> Database::execute(SqlText sql) {
  const int code = sqlite3_exec(handle_.get(), sql.text, nullptr, nullptr, nullptr);
  if (code != SQLITE_OK) return database_error(handle_.get(), code);
  return {};
}

Result<std::int64_t> Database::ask(SqlText sql) {
  std::int64_t answer = 0;
  HUTCH_TRY(auto statement, prepare(sql));
  HUTCH_TRY(statement.for_each([&answer](const Row& row) { answer = row.integer(0); }));
  return answer;
}

Result<Statement> Database::prepare(SqlText sql) {
  sqlite3_stmt* statement = nullptr;
  const int code = sqlite3_prepare_v3(handle_.get(), sql.text, -1, SQLITE_PREPARE_PERSISTENT, &statement, nullptr);
  if (code != SQLITE_OK) return database_error(handle_.get(), code);
  return Statement(statement);
}

Result<Transaction> Database::begin() {
  HUTCH_TRY(begin_.run());
  return Transaction(*this);
}

Result<void> Database::checkpoint() {
  int pages = 0;
  int moved = 0;
  int code = sqlite3_wal_checkpoint_v2(handle_.get(), nullptr, SQLITE_CHECKPOINT_PASSIVE, &pages, &moved);
  // Under steady writing there is always something new at the end, and the log would never begin again.
  if (code == SQLITE_OK && pages > kLongLog && moved < pages) {
    code = sqlite3_wal_checkpoint_v2(handle_.get(), nullptr, SQLITE_CHECKPOINT_RESTART, nullptr, nullptr);
  }
  // Busy: somebody else is at it, or reads what would be moved; the rest is for the next time.
  if (code != SQLITE_OK && (code & 0xff) != SQLITE_BUSY) {
    return database_error(handle_.get(), code).during("checkpoint");
  }
  return {};
}

Result<std::int64_t> Database::data_version() {
  std::int64_t version = 0;
  HUTCH_TRY(data_version_.for_each([&version](const Row& row) { version = row.integer(0); }));
  return version;
}

}  // namespace hutch
