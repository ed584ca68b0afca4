#include "session/database.h"

#include <sys/stat.h>

#include <fstream>
#include <vector>

#include "session/database_fixture.h"

namespace hutch {
namespace {

using DatabaseTest = DatabaseFixture;

std::int64_t number(Database& database, SqlText sql) {
  std::int64_t answer = -1;
  auto statement = database.prepare(sql).value();
  EXPECT_TRUE(statement.for_each([&answer](const Row& row) { answer = row.integer(0); }));
  return answer;
}
std::string text(Database& database, SqlText sql) {
  std::string answer;
  auto statement = database.prepare(sql).value();
  EXPECT_TRUE(statement.for_each([&answer](const Row& row) { answer = row.text(0); }));
  return answer;
}
void run(Database& database, SqlText sql) {
  auto statement = database.prepare(sql);
  ASSERT_TRUE(statement) << statement.error().message;
  const auto done = statement->run();
  ASSERT_TRUE(done) << done.error().message;
}

unsigned mode_of(const std::filesystem::path& path) {
  struct stat status{};
  EXPECT_EQ(::stat(path.c_str(), &status), 0) << path;
  return status.st_mode & 0777;
}

TEST_F(DatabaseTest, IsPrivateAndKeepsALog) {
  const mode_t before = ::umask(0);
  auto database = Database::open(path_);
  ::umask(before);
  ASSERT_TRUE(database) << database.error().message;
  run(*database, "INSERT INTO audit VALUES (1, 1, 'k', 'a', 't', 'd')");
  EXPECT_EQ(mode_of(path_), 0600U);
  EXPECT_EQ(mode_of(path_.string() + "-wal"), 0600U);
  EXPECT_EQ(mode_of(path_.string() + "-shm"), 0600U);
  EXPECT_EQ(text(*database, "PRAGMA journal_mode"), "wal");
  EXPECT_EQ(number(*database, "PRAGMA synchronous"), 1);
  EXPECT_EQ(number(*database, "PRAGMA foreign_keys"), 1);
  EXPECT_EQ(number(*database, "PRAGMA trusted_schema"), 0);
  EXPECT_EQ(number(*database, "PRAGMA busy_timeout"), 5000);
  EXPECT_EQ(number(*database, "PRAGMA wal_autocheckpoint"), 0);
}

TEST_F(DatabaseTest, TakesAwayWhatOthersMayDoWithIt) {
  std::ofstream(path_).close();
  ASSERT_EQ(::chmod(path_.c_str(), 0644), 0);
  ASSERT_TRUE(Database::open(path_));
  EXPECT_EQ(mode_of(path_), 0600U);
}

TEST_F(DatabaseTest, BringsAnOldFileUpToDateAndKeepsItsRows) {
  static constexpr SqlText kFirst[] = {"CREATE TABLE thing(name TEXT); PRAGMA user_version = 1;"};
  static constexpr SqlText kBoth[] = {"CREATE TABLE thing(name TEXT); PRAGMA user_version = 1;",
                                      "ALTER TABLE thing ADD COLUMN size INTEGER DEFAULT 7; PRAGMA user_version = 2;"};
  {
    auto database = Database::open(path_, kFirst);
    ASSERT_TRUE(database) << database.error().message;
    run(*database, "INSERT INTO thing VALUES ('old')");
  }
  for (int times = 0; times < 2; ++times) {
    auto database = Database::open(path_, kBoth);
    ASSERT_TRUE(database) << database.error().message;
    EXPECT_EQ(number(*database, "SELECT size FROM thing WHERE name = 'old'"), 7);
    EXPECT_EQ(number(*database, "PRAGMA user_version"), 2);
  }
}

TEST_F(DatabaseTest, AFailedMigrationChangesNothing) {
  static constexpr SqlText kFirst[] = {"CREATE TABLE thing(name TEXT); PRAGMA user_version = 1;"};
  static constexpr SqlText kBroken[] = {"CREATE TABLE thing(name TEXT); PRAGMA user_version = 1;",
                                        "DROP TABLE thing; CREATE TABEL typo(x);"};
  ASSERT_TRUE(Database::open(path_, kFirst));
  EXPECT_FALSE(Database::open(path_, kBroken));
  auto database = Database::open(path_, kFirst);
  ASSERT_TRUE(database) << database.error().message;
  EXPECT_EQ(number(*database, "SELECT count(*) FROM thing"), 0);
}

TEST_F(DatabaseTest, TheSchemaSaysItsVersion) {
  auto database = Database::open(path_);
  ASSERT_TRUE(database) << database.error().message;
  EXPECT_EQ(number(*database, "PRAGMA user_version"), 1);
  EXPECT_TRUE(Database::open(path_));
}

TEST_F(DatabaseTest, RefusesWhatANewerProgramWrote) {
  {
    auto database = Database::open(path_);
    ASSERT_TRUE(database);
    run(*database, "PRAGMA user_version = 1000");
  }
  const auto database = Database::open(path_);
  ASSERT_FALSE(database);
  EXPECT_EQ(database.error().code, ErrorCode::unsupported);
  EXPECT_NE(database.error().message.find("newer Hutch"), std::string::npos) << database.error().message;
  EXPECT_FALSE(database.error().hint.empty());
}

TEST_F(DatabaseTest, RefusesTheDatabaseOfAnotherProgram) {
  {
    auto database = Database::open(path_);
    ASSERT_TRUE(database);
    run(*database, "PRAGMA application_id = 5");
  }
  const auto database = Database::open(path_);
  ASSERT_FALSE(database);
  EXPECT_NE(database.error().message.find("another program"), std::string::npos) << database.error().message;
}

TEST_F(DatabaseTest, RefusesWhatIsNoDatabaseAndLeavesItAlone) {
  for (const std::string& content : {std::string("notes\n"), std::string(10'000, 'x')}) {
    std::ofstream(path_) << content;
    const auto database = Database::open(path_);
    ASSERT_FALSE(database);
    EXPECT_EQ(database.error().code, ErrorCode::protocol);
    EXPECT_NE(database.error().message.find("not a database"), std::string::npos) << database.error().message;
    EXPECT_NE(database.error().message.find(path_.string()), std::string::npos) << database.error().message;
    std::string kept;
    std::ifstream in(path_);
    kept.assign(std::istreambuf_iterator<char>(in), {});
    EXPECT_EQ(kept, content);
  }
}

TEST_F(DatabaseTest, RefusesADamagedFile) {
  {
    ASSERT_TRUE(Database::open(path_));
  }
  {
    std::fstream file(path_, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(100);  // after the file's header, the tree of tables begins
    file << std::string(3000, '\xff');
  }
  const auto database = Database::open(path_);
  ASSERT_FALSE(database);
  EXPECT_EQ(database.error().code, ErrorCode::protocol) << database.error().message;
  EXPECT_FALSE(database.error().hint.empty());
}

TEST_F(DatabaseTest, RefusesWhatIsNoFile) {
  EXPECT_FALSE(Database::open(directory_));
  EXPECT_FALSE(Database::open(directory_ / "missing" / "hutch.db"));
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(Database::open(path_));
}

TEST_F(DatabaseTest, ValuesComeBackAsTheyWere) {
  static constexpr SqlText kTable[] = {"CREATE TABLE v(i, d, t, b, n, o); PRAGMA user_version = 1;"};
  auto database = Database::open(path_, kTable);
  ASSERT_TRUE(database) << database.error().message;
  auto insert = database->prepare("INSERT INTO v VALUES (?1, ?2, ?3, ?4, ?5, ?6)").value();
  const std::string bytes("a\0'; DROP TABLE v; --\xff", 22);
  const auto changed = insert.run(std::int64_t{-5}, 1.5, std::string_view{}, Blob{bytes}, std::optional<int>{},
                                  std::optional<std::string>{bytes});
  ASSERT_TRUE(changed) << changed.error().message;
  EXPECT_EQ(*changed, 1);
  auto select = database->prepare("SELECT i, d, t, b, n, o FROM v").value();
  int rows = 0;
  ASSERT_TRUE(select.for_each([&](const Row& row) {
    ++rows;
    EXPECT_EQ(row.integer(0), -5);
    EXPECT_EQ(row.real(1), 1.5);
    EXPECT_FALSE(row.is_null(2));
    EXPECT_EQ(row.text(2), "");
    EXPECT_EQ(row.text(3), bytes);
    EXPECT_TRUE(row.is_null(4));
    EXPECT_EQ(row.maybe_integer<int>(4), std::nullopt);
    EXPECT_EQ(row.text(5), bytes);
  }));
  EXPECT_EQ(rows, 1);
}

TEST_F(DatabaseTest, ATransactionIsAllOrNothing) {
  auto database = Database::open(path_);
  ASSERT_TRUE(database);
  {
    const auto transaction = database->begin();
    ASSERT_TRUE(transaction);
    run(*database, "INSERT INTO audit VALUES (1, 1, 'k', 'a', 't', 'd')");
  }
  EXPECT_EQ(number(*database, "SELECT count(*) FROM audit"), 0);
  auto transaction = database->begin();
  ASSERT_TRUE(transaction);
  run(*database, "INSERT INTO audit VALUES (1, 1, 'k', 'a', 't', 'd')");
  ASSERT_TRUE(transaction->commit());
  EXPECT_EQ(number(*database, "SELECT count(*) FROM audit"), 1);
}

TEST_F(DatabaseTest, CanBeMovedWithItsStatements) {
  auto opened = Database::open(path_);
  ASSERT_TRUE(opened);
  auto statement = opened->prepare("SELECT 3").value();
  Database moved = std::move(*opened);
  std::int64_t answer = 0;
  EXPECT_TRUE(statement.for_each([&answer](const Row& row) { answer = row.integer(0); }));
  EXPECT_EQ(answer, 3);
  EXPECT_TRUE(moved.begin());
}

TEST_F(DatabaseTest, KeepsWhatWasCommittedAndForgetsTheRestWhenAProcessDies) {
  OtherProcess other([this](const std::string&) -> std::string {
    auto database = Database::open(path_).value();
    run(database, "INSERT INTO audit VALUES (1, 1, 'k', 'kept', 't', 'd')");
    const auto transaction = database.begin();
    // More than the page cache holds, so that unfinished pages are in the log too.
    run(database,
        "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM n WHERE i < 20000)"
        " INSERT INTO audit SELECT i, 1, 'k', 'lost', 't', hex(zeroblob(400)) FROM n");
    ::_exit(0);
  });
  EXPECT_EQ(other.ask("go"), "gone");
  other.end();
  ASSERT_GT(std::filesystem::file_size(path_.string() + "-wal"), 8U << 20);
  auto database = Database::open(path_);
  ASSERT_TRUE(database) << database.error().message;
  EXPECT_EQ(number(*database, "SELECT count(*) FROM audit"), 1);
  EXPECT_EQ(text(*database, "SELECT action FROM audit"), "kept");
  EXPECT_EQ(text(*database, "PRAGMA integrity_check"), "ok");
  run(*database, "INSERT INTO audit VALUES (2, 1, 'k', 'a', 't', 'd')");
}

TEST_F(DatabaseTest, NoticesThatAnotherProcessWroteButNotItself) {
  std::optional<Database> theirs;
  OtherProcess other([&](const std::string&) -> std::string {
    if (!theirs) theirs.emplace(Database::open(path_).value());
    run(*theirs, "INSERT INTO audit(time_ns, key_id, action, target, detail) VALUES (1, 'k', 'a', 't', 'd')");
    return "written";
  });
  auto database = Database::open(path_).value();
  const auto first = database.data_version().value();
  run(database, "INSERT INTO audit(time_ns, key_id, action, target, detail) VALUES (1, 'k', 'a', 't', 'd')");
  EXPECT_EQ(database.data_version().value(), first);
  EXPECT_EQ(other.ask("write"), "written");
  EXPECT_NE(database.data_version().value(), first);
  EXPECT_EQ(number(database, "SELECT count(*) FROM audit"), 2);
}

TEST_F(DatabaseTest, ManyProcessesMayMakeItAtOnce) {
  const auto work = [this](const std::string&) -> std::string {
    for (int i = 0; i < 20; ++i) {
      auto database = Database::open(path_);
      if (!database) return database.error().message;
      run(*database, "INSERT INTO audit(time_ns, key_id, action, target, detail) VALUES (1, 'k', 'a', 't', 'd')");
    }
    return "fine";
  };
  OtherProcess first(work);
  OtherProcess second(work);
  OtherProcess third(work);
  for (OtherProcess* process : {&first, &second, &third}) process->tell("go");
  for (OtherProcess* process : {&first, &second, &third}) EXPECT_EQ(process->answer(), "fine");
  auto database = Database::open(path_).value();
  EXPECT_EQ(number(database, "SELECT count(*) FROM audit"), 60);
}

TEST_F(DatabaseTest, ACheckpointMovesTheLogIntoTheFile) {
  auto database = Database::open(path_).value();
  run(database, "INSERT INTO audit VALUES (1, 1, 'k', 'a', 't', hex(zeroblob(100000)))");
  ASSERT_LT(std::filesystem::file_size(path_), 200'000U);
  const auto done = database.checkpoint();
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_GT(std::filesystem::file_size(path_), 200'000U);
}

}  // namespace
}  // namespace hutch
