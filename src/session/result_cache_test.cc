#include "session/result_cache.h"

#include "session/database_fixture.h"

namespace hutch {
namespace {

class ResultCacheTest : public DatabaseFixture {
 protected:
  ResultCacheTest() : database_(Database::open(path_).value()) {}

  ResultCache cache(CacheLimits limits = {}) { return ResultCache::open(database_, limits).value(); }
  static void insert(ResultCache& cache, std::string_view key_id, std::string_view digest, std::size_t size = 100) {
    const auto done = cache.insert(key_id, digest, {.record = std::string(size, 'r'), .events = {}, .created_ns = 5});
    ASSERT_TRUE(done) << done.error().message;
  }
  static bool has(ResultCache& cache, std::string_view key_id, std::string_view digest) {
    const auto found = cache.lookup(key_id, digest);
    EXPECT_TRUE(found) << found.error().message;
    return found && found->has_value();
  }
  std::int64_t number(SqlText sql) {
    std::int64_t answer = -1;
    EXPECT_TRUE(database_.prepare(sql).value().for_each([&answer](const Row& row) { answer = row.integer(0); }));
    return answer;
  }

  Database database_;
};

TEST_F(ResultCacheTest, GivesBackWhatWasPutIn) {
  auto results = cache();
  EXPECT_FALSE(has(results, "key_a", "d1"));
  ASSERT_TRUE(results.insert("key_a", "d1", {.record = "{}", .events = "[1]", .created_ns = 7}));
  const auto found = results.lookup("key_a", "d1").value();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->record, "{}");
  EXPECT_EQ(found->events, "[1]");
  EXPECT_EQ(found->created_ns, 7);
}

TEST_F(ResultCacheTest, KeysShareNothing) {
  auto results = cache();
  insert(results, "key_a", "d1", 10);
  EXPECT_FALSE(has(results, "key_b", "d1"));
  insert(results, "key_b", "d1", 20);
  EXPECT_EQ(results.lookup("key_a", "d1").value()->record.size(), 10U);
  EXPECT_EQ(results.lookup("key_b", "d1").value()->record.size(), 20U);
  ASSERT_TRUE(results.remove_all("key_a"));
  EXPECT_FALSE(has(results, "key_a", "d1"));
  EXPECT_TRUE(has(results, "key_b", "d1"));
}

TEST_F(ResultCacheTest, WhatWasNotUsedForLongestGoesFirst) {
  auto results = cache({.entries = 3});
  for (const char* digest : {"d1", "d2", "d3"}) insert(results, "key_a", digest);
  EXPECT_TRUE(has(results, "key_a", "d1"));
  insert(results, "key_a", "d4");
  EXPECT_FALSE(has(results, "key_a", "d2"));
  for (const char* digest : {"d1", "d3", "d4"}) EXPECT_TRUE(has(results, "key_a", digest)) << digest;
}

TEST_F(ResultCacheTest, IsBoundedByBytes) {
  auto results = cache({.total = Bytes{1000}});
  for (const char* digest : {"d1", "d2", "d3"}) insert(results, "key_a", digest, 300);
  insert(results, "key_a", "d4", 700);
  for (const char* digest : {"d1", "d2"}) EXPECT_FALSE(has(results, "key_a", digest)) << digest;
  for (const char* digest : {"d3", "d4"}) EXPECT_TRUE(has(results, "key_a", digest)) << digest;
  insert(results, "key_a", "d5", 1001);
  EXPECT_FALSE(has(results, "key_a", "d5"));
  EXPECT_TRUE(has(results, "key_a", "d4"));
}

TEST_F(ResultCacheTest, AGreedyKeyPushesOutItsOwnFirst) {
  auto results = cache({.total_of_key = Bytes{1000}, .entries_of_key = 3});
  insert(results, "key_b", "d0");
  for (const char* digest : {"d1", "d2", "d3", "d4"}) insert(results, "key_a", digest);
  EXPECT_TRUE(has(results, "key_b", "d0"));
  EXPECT_FALSE(has(results, "key_a", "d1"));
  insert(results, "key_a", "d5", 900);
  EXPECT_TRUE(has(results, "key_b", "d0"));
  EXPECT_FALSE(has(results, "key_a", "d2"));
  EXPECT_FALSE(has(results, "key_a", "d3"));
  EXPECT_TRUE(has(results, "key_a", "d4"));
}

TEST_F(ResultCacheTest, InsertingAgainReplacesAndCountsOnce) {
  auto results = cache({.total = Bytes{1000}});
  for (int i = 0; i < 10; ++i) insert(results, "key_a", "d1", 400);
  insert(results, "key_a", "d2", 600);
  EXPECT_TRUE(has(results, "key_a", "d1"));
  EXPECT_TRUE(has(results, "key_a", "d2"));
}

TEST_F(ResultCacheTest, RemembersUseAndSizeWhenOpenedAgain) {
  {
    auto results = cache({.entries = 2});
    insert(results, "key_a", "d1");
    insert(results, "key_a", "d2");
    EXPECT_TRUE(has(results, "key_a", "d1"));
  }
  auto results = cache({.entries = 2});
  insert(results, "key_a", "d3");
  EXPECT_FALSE(has(results, "key_a", "d2"));
  EXPECT_TRUE(has(results, "key_a", "d1"));
}

TEST_F(ResultCacheTest, WhatIsRemovedLeavesNothingBehind) {
  auto results = cache({.entries = 2});
  for (const char* digest : {"d1", "d2", "d3"}) insert(results, "key_a", digest);
  EXPECT_EQ(number("SELECT count(*) FROM cache_body"), 2);
  EXPECT_EQ(number("SELECT entries FROM cache_total"), 2);
  EXPECT_EQ(number("SELECT bytes FROM cache_total"), 200);
  ASSERT_TRUE(results.remove_all("key_a"));
  EXPECT_EQ(number("SELECT count(*) FROM cache_body"), 0);
  EXPECT_EQ(number("SELECT bytes FROM cache_total"), 0);
}

}  // namespace
}  // namespace hutch
