// What the daemon remembers when it ends: one SQLite file, shared with `hutch key` and whoever else runs beside it.
//
// Committed is kept when a process dies at any moment; when the machine loses power, the last moments before the last
// checkpoint() may go, never the file. One thread at a time per Database. A process that was forked while a Database
// was open may not open the same file: SQLite would believe that it holds its parent's locks.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"

struct sqlite3;
struct sqlite3_stmt;

namespace hutch {

// SQL that was there when the program was compiled: data goes in by position only.
struct SqlText {
  consteval SqlText(const char* literal) : text(literal) {}
  const char* text;
};

struct Blob {
  std::string_view bytes;
};

// One row of an answer, while for_each() shows it. Columns count from 0.
class Row {
 public:
  explicit Row(sqlite3_stmt* statement) : statement_(statement) {}
  [[nodiscard]] bool is_null(int column) const;
  [[nodiscard]] std::int64_t integer(int column) const;
  [[nodiscard]] double real(int column) const;
  [[nodiscard]] std::string text(int column) const;  // also the bytes of a blob

  template <std::integral Number>
  [[nodiscard]] std::optional<Number> maybe_integer(int column) const {
    if (is_null(column)) return std::nullopt;
    return static_cast<Number>(integer(column));
  }

 private:
  sqlite3_stmt* statement_;
};

// Prepared once, run often. Its Database outlives it. Not to be run again from inside its own for_each().
class Statement {
 public:
  Statement() = default;
  explicit Statement(sqlite3_stmt* statement) : statement_(statement) {}

  // Binds the values to ?1, ?2, … and returns how many rows were changed.
  template <class... Values>
  Result<std::int64_t> run(const Values&... values) {
    return for_each([](const Row&) {}, values...);
  }
  template <std::invocable<const Row&> Visit, class... Values>
  Result<std::int64_t> for_each(Visit&& visit, const Values&... values) {
    const Execution execution(statement_.get());
    int code = 0;
    int position = 0;
    ((code = code != 0 ? code : bind(++position, values)), ...);
    if (code != 0) return failure(code);
    for (;;) {
      HUTCH_TRY(const bool has_row, step());
      if (!has_row) return execution.changed();
      visit(Row(statement_.get()));
    }
  }

 private:
  struct Finalize {
    void operator()(sqlite3_stmt* statement) const;
  };
  // From the first value bound to the last row seen; forgets the values, which are borrowed, on every way out.
  class Execution {
   public:
    explicit Execution(sqlite3_stmt* statement);
    Execution(const Execution&) = delete;
    Execution& operator=(const Execution&) = delete;
    ~Execution();
    [[nodiscard]] std::int64_t changed() const;

   private:
    sqlite3_stmt* statement_;
    std::int64_t changes_before_;
  };

  int bind_integer(int position, std::int64_t value);
  int bind_null(int position);
  int bind(int position, double value);
  int bind(int position, std::string_view value);
  int bind(int position, Blob value);
  template <std::integral Number>
  int bind(int position, Number value) {
    return bind_integer(position, static_cast<std::int64_t>(value));
  }
  template <class Value>
  int bind(int position, const std::optional<Value>& value) {
    return value ? bind(position, *value) : bind_null(position);
  }
  Result<bool> step();
  [[nodiscard]] Error failure(int code) const;

  std::unique_ptr<sqlite3_stmt, Finalize> statement_;
};

class Database;

// All or nothing: what was not committed is rolled back when it goes out of scope.
class Transaction {
 public:
  explicit Transaction(Database& database) : database_(&database) {}
  Transaction(Transaction&& other) noexcept : database_(std::exchange(other.database_, nullptr)) {}
  Transaction& operator=(Transaction&&) = delete;
  ~Transaction();

  Result<void> commit();

 private:
  Database* database_;
};

class Database {
 public:
  // Opens or makes the file, readable by this user only, and brings it up to date. Refused: what is no database of
  // ours, and what a newer program has written.
  static Result<Database> open(const std::filesystem::path& path);
  // The same with another history: migrations[n] leads to user_version n + 1, which it sets itself.
  static Result<Database> open(const std::filesystem::path& path, std::span<const SqlText> migrations);

  Result<Statement> prepare(SqlText sql);

  // Takes the write lock at once, so that nothing inside can find it taken; waits up to five seconds for it.
  Result<Transaction> begin();

  // Moves what was committed from the log into the file and syncs it; nobody else does. It waits for the disk, so a
  // daemon calls it every second or so, on a Database of its own in another thread. Writers go on meanwhile; only when
  // the log has grown long do they wait for the last part.
  Result<void> checkpoint();

  // Another number than last time: somebody else (not this Database) has written.
  Result<std::int64_t> data_version();

 private:
  friend class Transaction;
  struct Close {
    void operator()(sqlite3* handle) const;
  };

  explicit Database(sqlite3* handle) : handle_(handle) {}
  Result<void> configure_patiently();
  Result<void> configure();
  Result<void> migrate(std::span<const SqlText> migrations);
  Result<std::int64_t> known_version(std::size_t newest);
  Result<void> execute(SqlText sql);
  Result<std::int64_t> ask(SqlText sql);

  std::unique_ptr<sqlite3, Close> handle_;  // closed after the statements below are gone
  Statement begin_;
  Statement commit_;
  Statement rollback_;
  Statement data_version_;
};

}  // namespace hutch
