#include "session/run_store.h"

#include <gmock/gmock.h>

#include "session/database_fixture.h"

namespace hutch {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kLastOfOctober = 1793491199 * kSecond;  // 2026-10-31T23:59:59Z

class RunStoreTest : public DatabaseFixture {
 protected:
  RunStoreTest() : database_(Database::open(path_).value()), store_(RunStore::open(database_, journal()).value()) {}

  std::filesystem::path journal() const { return path_.string() + ".runs"; }

  static StoredRun run(std::string id, std::string key_id = "key_a", std::int64_t created_ns = 100) {
    StoredRun made;
    made.id = std::move(id);
    made.key_id = std::move(key_id);
    made.status = "ok";
    made.template_name = "bare";
    made.created_ns = created_ns;
    made.finished_ns = kLastOfOctober;
    made.record = R"({"stdout": "hello"})";
    made.events = "[]";
    return made;
  }
  void finish(const StoredRun& finished, double price = 0) {
    const auto done = store_.finish(finished, price);
    ASSERT_TRUE(done) << done.error().message;
  }
  void begin(std::string id, std::string status, std::string key_id = "key_a", std::int64_t created_ns = 100) {
    StoredRun begun = run(std::move(id), std::move(key_id), created_ns);
    begun.status = std::move(status);
    const auto done = store_.begin(begun);
    ASSERT_TRUE(done) << done.error().message;
  }
  std::vector<std::string> ids(std::string_view key_id, const RunFilter& filter = {}) {
    std::vector<std::string> found;
    for (const StoredRun& listed : store_.list(key_id, filter).value()) found.push_back(listed.id);
    return found;
  }

  Database database_;
  RunStore store_;
};

TEST_F(RunStoreTest, WhatWasNotFlushedIsThereAfterARestart) {
  finish(run("exe_1"), 2.0);
  finish(run("exe_2"));
  EXPECT_GT(std::filesystem::file_size(journal()), 0U);
  auto again = RunStore::open(database_, journal()).value();  // as after kill -9
  EXPECT_TRUE(again.get("exe_1", "key_a").value());
  EXPECT_TRUE(again.get("exe_2", "key_a").value());
  EXPECT_EQ(std::filesystem::file_size(journal()), 0U);
  EXPECT_EQ(again.usage("key_a", "2026-10").value().runs, 2U);
}

TEST_F(RunStoreTest, AJournalThatWasWrittenButNotClearedCountsOnce) {
  finish(run("exe_1"), 2.0);
  const std::filesystem::path copy = journal().string() + ".copy";
  std::filesystem::copy_file(journal(), copy);
  ASSERT_TRUE(store_.flush());
  std::filesystem::copy_file(copy, journal(), std::filesystem::copy_options::overwrite_existing);
  auto again = RunStore::open(database_, journal()).value();
  EXPECT_EQ(again.usage("key_a", "2026-10").value().runs, 1U);
}

TEST_F(RunStoreTest, FlushesALittleAtATimeAndWhatWasNotIsThereAfterARestart) {
  const std::size_t most = RunStore::kMostFlushedAtOnce;
  for (std::size_t i = 0; i < 2 * most; ++i) finish(run("exe_" + std::to_string(i)), 2.0);
  EXPECT_TRUE(store_.flush_some().value());
  EXPECT_GT(std::filesystem::file_size(journal()), 0U);  // it holds the others
  {
    Database other = Database::open(path_).value();
    auto count = other.prepare("SELECT count(*) FROM run").value();
    std::int64_t written = 0;
    ASSERT_TRUE(count.for_each([&](const Row& row) { written = row.integer(0); }));
    EXPECT_EQ(written, static_cast<std::int64_t>(most));
    auto again = RunStore::open(other, journal()).value();  // as after kill -9
    EXPECT_EQ(again.usage("key_a", "2026-10").value().runs, 2 * most);
  }
  EXPECT_TRUE(store_.flush_some().value());
  EXPECT_FALSE(store_.flush_some().value());
  EXPECT_EQ(std::filesystem::file_size(journal()), 0U);
  EXPECT_EQ(store_.usage("key_a", "2026-10").value().runs, 2 * most);
}

TEST_F(RunStoreTest, AnEntryOfAnotherVersionIsNoReasonNotToStart) {
  auto other = RunJournal::open(journal(), [](std::string_view) { return Result<void>{}; }).value();
  ASSERT_TRUE(other.append("what a later version may write"));
  EXPECT_TRUE(RunStore::open(database_, journal()));
}

TEST_F(RunStoreTest, AnEntryThatWasCutShortIsLeftOut) {
  finish(run("exe_1"));
  const auto whole = std::filesystem::file_size(journal());
  finish(run("exe_2"));
  for (auto size = std::filesystem::file_size(journal()) - 1; size > whole; size -= 7) {
    std::filesystem::resize_file(journal(), size);
    const std::filesystem::path copy = journal().string() + ".cut";
    std::filesystem::copy_file(journal(), copy, std::filesystem::copy_options::overwrite_existing);
    auto again = RunStore::open(database_, copy).value();
    EXPECT_TRUE(again.get("exe_1", "key_a").value());
    EXPECT_FALSE(again.get("exe_2", "key_a").value());
    if (size < whole + 7) break;
  }
}

TEST_F(RunStoreTest, ARunComesBackAsItWasFinished) {
  StoredRun one = run("exe_1");
  one.session_id = "ses_1";
  one.started_ns = 200;
  one.cpu_us = 3'000'000'000'000;
  one.wall_us = 5;
  one.execution_count = 4'000'000'000;
  one.cached = true;
  one.record = std::string("a\0b\xff", 4);
  one.events = std::string(100'000, 'e');
  finish(one);
  const auto found = store_.get("exe_1", "key_a").value();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->id, one.id);
  EXPECT_EQ(found->key_id, one.key_id);
  EXPECT_EQ(found->session_id, one.session_id);
  EXPECT_EQ(found->status, one.status);
  EXPECT_EQ(found->template_name, one.template_name);
  EXPECT_EQ(found->created_ns, one.created_ns);
  EXPECT_EQ(found->started_ns, one.started_ns);
  EXPECT_EQ(found->finished_ns, one.finished_ns);
  EXPECT_EQ(found->cpu_us, one.cpu_us);
  EXPECT_EQ(found->wall_us, one.wall_us);
  EXPECT_EQ(found->execution_count, one.execution_count);
  EXPECT_EQ(found->cached, one.cached);
  EXPECT_EQ(found->record, one.record);
  EXPECT_EQ(found->events, one.events);
}

TEST_F(RunStoreTest, ARunThatWasBegunIsSeenAndThenFinishedOnce) {
  begin("exe_1", "queued");
  EXPECT_EQ(store_.get("exe_1", "key_a").value()->status, "queued");
  finish(run("exe_1"));
  EXPECT_EQ(store_.get("exe_1", "key_a").value()->status, "ok");
  StoredRun again = run("exe_1");
  again.status = "error";
  finish(again);
  EXPECT_EQ(store_.get("exe_1", "key_a").value()->status, "ok");
  EXPECT_EQ(store_.usage("key_a", "2026-10").value().runs, 1U);
  EXPECT_FALSE(store_.begin(run("exe_1")));
}

TEST_F(RunStoreTest, NobodySeesOrEndsTheRunsOfAnotherKey) {
  finish(run("exe_1", "key_a"));
  begin("exe_2", "running", "key_a", 200);
  EXPECT_FALSE(store_.get("exe_1", "key_b").value());
  EXPECT_THAT(ids("key_b"), IsEmpty());
  EXPECT_THAT(ids("key_b", {.status = "ok"}), IsEmpty());
  EXPECT_FALSE(store_.list("key_b", {.before = "exe_2"}));
  finish(run("exe_2", "key_b"));
  EXPECT_EQ(store_.get("exe_2", "key_a").value()->status, "running");
  EXPECT_EQ(store_.usage("key_b", "2026-10").value().runs, 0U);
}

TEST_F(RunStoreTest, NobodySeesTheSessionOfAnotherKey) {
  StoredRun one = run("exe_1");
  one.session_id = "ses_1";
  finish(one);
  EXPECT_THAT(ids("key_b", {.session_id = "ses_1"}), IsEmpty());
  EXPECT_THAT(ids("key_a", {.session_id = "ses_1"}), ElementsAre("exe_1"));
}

TEST_F(RunStoreTest, ListsNewestFirstInPagesAndWithoutRecords) {
  // The order is that of creation, not of the end; two of the same moment have an order too.
  for (const auto& [id, created] : {std::pair("exe_c", 300), {"exe_a", 100}, {"exe_b2", 200}, {"exe_b1", 200}}) {
    finish(run(id, "key_a", created));
  }
  finish(run("exe_other", "key_b", 250));
  EXPECT_THAT(ids("key_a"), ElementsAre("exe_c", "exe_b2", "exe_b1", "exe_a"));
  EXPECT_THAT(ids("key_a", {.limit = 2}), ElementsAre("exe_c", "exe_b2"));
  EXPECT_THAT(ids("key_a", {.before = "exe_b2", .limit = 1}), ElementsAre("exe_b1"));
  EXPECT_THAT(ids("key_a", {.before = "exe_b1", .limit = 5}), ElementsAre("exe_a"));
  EXPECT_THAT(ids("key_a", {.before = "exe_a"}), IsEmpty());
  const auto unknown = store_.list("key_a", {.before = "exe_unknown"});
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::invalid_argument);
  EXPECT_EQ(store_.list("key_a", {}).value()[0].record, "");
  EXPECT_EQ(store_.list("key_a", {}).value()[0].template_name, "bare");
}

TEST_F(RunStoreTest, ListsBySessionAndStatus) {
  for (int i = 0; i < 8; ++i) {
    StoredRun made = run("exe_" + std::to_string(i), "key_a", 100 + i);
    made.session_id = i % 2 == 0 ? "ses_1" : "";
    made.status = i < 4 ? "ok" : "error";
    finish(made);
  }
  EXPECT_THAT(ids("key_a", {.session_id = "ses_1"}), ElementsAre("exe_6", "exe_4", "exe_2", "exe_0"));
  EXPECT_THAT(ids("key_a", {.session_id = "ses_1", .before = "exe_4", .limit = 1}), ElementsAre("exe_2"));
  EXPECT_THAT(ids("key_a", {.status = "error"}), ElementsAre("exe_7", "exe_6", "exe_5", "exe_4"));
  EXPECT_THAT(ids("key_a", {.status = "error", .before = "exe_6"}), ElementsAre("exe_5", "exe_4"));
  EXPECT_THAT(ids("key_a", {.session_id = "ses_1", .status = "ok"}), ElementsAre("exe_2", "exe_0"));
}

TEST_F(RunStoreTest, UsageAddsUpInTheMonthInWhichARunEnded) {
  StoredRun one = run("exe_1");
  one.cpu_us = 1'500'000;
  finish(one, 0.5);
  one.id = "exe_2";
  one.finished_ns = kLastOfOctober + kSecond - 1;
  finish(one, 2);
  one.id = "exe_3";
  one.finished_ns = kLastOfOctober + kSecond;
  finish(one, 0.5);
  one.id = "exe_4";
  one.key_id = "key_b";
  finish(one, 0.5);
  const auto october = store_.usage("key_a", "2026-10").value();
  EXPECT_EQ(october.runs, 2U);
  EXPECT_EQ(october.cpu_us, 3'000'000U);
  EXPECT_DOUBLE_EQ(october.cost, 0.75 + 3);
  const auto november = store_.usage("key_a", "2026-11").value();
  EXPECT_EQ(november.runs, 1U);
  EXPECT_EQ(november.cpu_us, 1'500'000U);
  EXPECT_DOUBLE_EQ(november.cost, 0.75);
  EXPECT_EQ(store_.usage("key_a", "2026-12").value().runs, 0U);
}

TEST_F(RunStoreTest, ACachedRunCostsNothing) {
  StoredRun one = run("exe_1");
  one.cpu_us = 1'500'000;
  one.cached = true;
  finish(one, 1);
  const auto usage = store_.usage("key_a", "2026-10").value();
  EXPECT_EQ(usage.runs, 1U);
  EXPECT_EQ(usage.cpu_us, 0U);
  EXPECT_EQ(usage.cost, 0);
}

TEST_F(RunStoreTest, MonthsAreThoseOfUtc) {
  EXPECT_EQ(usage_month(0), "1970-01");
  EXPECT_EQ(usage_month(kLastOfOctober), "2026-10");
  EXPECT_EQ(usage_month(kLastOfOctober + kSecond), "2026-11");
  EXPECT_EQ(usage_month(951782400 * kSecond), "2000-02");  // the 29th
}

TEST_F(RunStoreTest, WhatHadNotEndedIsMarkedWhenTheDaemonStarts) {
  begin("exe_1", "running");
  begin("exe_2", "queued", "key_b");
  finish(run("exe_3"));
  const auto marked =
      store_.mark_interrupted(777, [](const StoredRun& stored) { return "lost " + stored.id + " " + stored.status; });
  ASSERT_TRUE(marked) << marked.error().message;
  EXPECT_EQ(*marked, 2U);
  const auto one = store_.get("exe_1", "key_a").value();
  EXPECT_EQ(one->status, "error");
  EXPECT_EQ(one->record, "lost exe_1 running");
  EXPECT_EQ(one->finished_ns, 777);
  EXPECT_EQ(store_.get("exe_2", "key_b").value()->record, "lost exe_2 queued");
  EXPECT_EQ(store_.get("exe_3", "key_a").value()->record, run("").record);
  EXPECT_EQ(store_.mark_interrupted(778, [](const StoredRun&) { return ""; }).value(), 0U);
}

TEST_F(RunStoreTest, ForgetsOldRunsButNotUnfinishedOnesAndNotTheirUsage) {
  for (int i = 0; i < 5; ++i) finish(run("exe_" + std::to_string(i), "key_a", 100 + i));
  begin("exe_running", "running", "key_a", 50);
  finish(run("exe_b", "key_b", 101));
  EXPECT_THAT(store_.remove_older_than(102, 100).value(), testing::UnorderedElementsAre("exe_0", "exe_1", "exe_b"));
  EXPECT_THAT(ids("key_a"), ElementsAre("exe_4", "exe_3", "exe_2", "exe_running"));
  EXPECT_THAT(store_.remove_older_than(102, 100).value(), IsEmpty());
  EXPECT_EQ(store_.usage("key_a", "2026-10").value().runs, 5U);
}

TEST_F(RunStoreTest, KeepsTheNewestOfEveryKey) {
  for (int i = 0; i < 5; ++i) finish(run("exe_" + std::to_string(i), "key_a", 100));  // all in one moment
  finish(run("exe_b", "key_b", 1));
  EXPECT_THAT(store_.remove_older_than(0, 2).value(), testing::UnorderedElementsAre("exe_0", "exe_1", "exe_2"));
  EXPECT_THAT(ids("key_a"), ElementsAre("exe_4", "exe_3"));
  EXPECT_THAT(ids("key_b"), ElementsAre("exe_b"));
  EXPECT_EQ(store_.remove_older_than(0, 0).value().size(), 3U);
}

TEST_F(RunStoreTest, ForgetsALittleAtATime) {
  const std::size_t most = RunStore::kMostRemovedAtOnce;
  for (std::size_t i = 0; i < most + 10; ++i) finish(run("exe_" + std::to_string(i)));
  EXPECT_EQ(store_.remove_older_than(1000, 1000).value().size(), most);
  EXPECT_EQ(store_.remove_older_than(1000, 1000).value().size(), 10U);
}

TEST_F(RunStoreTest, TellsWhichKeysWereActive) {
  EXPECT_THAT(store_.distinct_keys(0).value(), IsEmpty());
  for (int i = 0; i < 10; ++i) finish(run("exe_a" + std::to_string(i), "key_a", 100 + i));
  finish(run("exe_b", "key_b", 200));
  begin("exe_c", "running", "key_c", 300);
  EXPECT_THAT(store_.distinct_keys(0).value(), ElementsAre("key_a", "key_b", "key_c"));
  EXPECT_THAT(store_.distinct_keys(200).value(), ElementsAre("key_b", "key_c"));
  EXPECT_THAT(store_.distinct_keys(301).value(), IsEmpty());
}

TEST_F(RunStoreTest, WhatNoRunHasUsedIsChargedToo) {
  ASSERT_TRUE(store_.charge("key_a", "2026-11", 1'500'000, 2));
  ASSERT_TRUE(store_.charge("key_a", "2026-11", 500'000, 2));
  const auto used = store_.usage("key_a", "2026-11").value();
  EXPECT_EQ(used.runs, 0U);
  EXPECT_EQ(used.cpu_us, 2'000'000U);
  EXPECT_DOUBLE_EQ(used.cost, 4);
  EXPECT_EQ(store_.usage("key_a", "2026-12").value().cpu_us, 0U);
}

TEST_F(RunStoreTest, AFailureInsideFlushLeavesNothingBehind) {
  auto break_usage = database_.prepare("DROP TABLE usage").value();
  ASSERT_TRUE(break_usage.run());
  EXPECT_TRUE(store_.finish(run("exe_1"), 1));  // safe in the journal
  EXPECT_FALSE(store_.flush());
  EXPECT_FALSE(store_.get("exe_1", "key_a").value());
  EXPECT_TRUE(store_.begin(run("exe_2")));  // and nothing is locked
}

}  // namespace
}  // namespace hutch
