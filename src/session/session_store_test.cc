#include "session/session_store.h"

#include "session/database_fixture.h"

namespace hutch {
namespace {

class SessionStoreTest : public DatabaseFixture {
 protected:
  SessionStoreTest() : database_(Database::open(path_).value()), store_(SessionStore::open(database_).value()) {}

  static StoredSession session(std::string id, std::string key_id = "key_a", std::int64_t created_ns = 100) {
    return {.id = std::move(id),
            .key_id = std::move(key_id),
            .name = "work",
            .labels = R"({"team": "a"})",
            .template_name = "bare",
            .mode = "plain",
            .options = R"({"limits": {}})",
            .state = "ready",
            .created_ns = created_ns,
            .last_used_ns = created_ns,
            .ttl_s = 3600,
            .max_age_s = 86400,
            .persist = true,
            .execution_count = 3};
  }

  Database database_;
  SessionStore store_;
};

TEST_F(SessionStoreTest, ASessionComesBackAsItWasSaved) {
  const auto saved = store_.save(session("ses_1"));
  ASSERT_TRUE(saved) << saved.error().message;
  const auto found = store_.get("ses_1", "key_a").value();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->id, "ses_1");
  EXPECT_EQ(found->key_id, "key_a");
  EXPECT_EQ(found->name, "work");
  EXPECT_EQ(found->labels, R"({"team": "a"})");
  EXPECT_EQ(found->template_name, "bare");
  EXPECT_EQ(found->mode, "plain");
  EXPECT_EQ(found->options, R"({"limits": {}})");
  EXPECT_EQ(found->state, "ready");
  EXPECT_EQ(found->created_ns, 100);
  EXPECT_EQ(found->last_used_ns, 100);
  EXPECT_EQ(found->ttl_s, 3600);
  EXPECT_EQ(found->max_age_s, 86400);
  EXPECT_TRUE(found->persist);
  EXPECT_EQ(found->execution_count, 3U);
}

TEST_F(SessionStoreTest, SavingAgainChangesIt) {
  ASSERT_TRUE(store_.save(session("ses_1")));
  StoredSession changed = session("ses_1");
  changed.name = "renamed";
  changed.labels = "{}";
  changed.ttl_s = 10;
  changed.persist = false;
  ASSERT_TRUE(store_.save(changed));
  const auto found = store_.get("ses_1", "key_a").value();
  EXPECT_EQ(found->name, "renamed");
  EXPECT_EQ(found->labels, "{}");
  EXPECT_EQ(found->ttl_s, 10);
  EXPECT_FALSE(found->persist);
  EXPECT_EQ(store_.all().value().size(), 1U);
}

TEST_F(SessionStoreTest, NobodySeesOrChangesTheSessionsOfAnotherKey) {
  ASSERT_TRUE(store_.save(session("ses_1", "key_a")));
  EXPECT_FALSE(store_.get("ses_1", "key_b").value());
  EXPECT_TRUE(store_.list("key_b").value().empty());
  StoredSession stolen = session("ses_1", "key_b");
  stolen.name = "mine now";
  EXPECT_FALSE(store_.save(stolen));
  EXPECT_EQ(store_.get("ses_1", "key_a").value()->name, "work");
}

TEST_F(SessionStoreTest, ListsNewestFirst) {
  ASSERT_TRUE(store_.save(session("ses_1", "key_a", 100)));
  ASSERT_TRUE(store_.save(session("ses_3", "key_a", 300)));
  ASSERT_TRUE(store_.save(session("ses_2", "key_a", 200)));
  ASSERT_TRUE(store_.save(session("ses_b", "key_b", 250)));
  const auto listed = store_.list("key_a").value();
  ASSERT_EQ(listed.size(), 3U);
  EXPECT_EQ(listed[0].id, "ses_3");
  EXPECT_EQ(listed[1].id, "ses_2");
  EXPECT_EQ(listed[2].id, "ses_1");
  EXPECT_EQ(store_.all().value().size(), 4U);
}

TEST_F(SessionStoreTest, AUseChangesOnlyWhenItWasUsed) {
  for (const char* id : {"ses_1", "ses_2", "ses_3"}) ASSERT_TRUE(store_.save(session(id)));
  const SessionUse uses[] = {
      {.id = "ses_1", .last_used_ns = 900}, {.id = "ses_0"}, {.id = "ses_3", .last_used_ns = 800}};
  ASSERT_TRUE(store_.note_uses(uses)) << "one that is not stored is left alone";
  const auto found = store_.get("ses_1", "key_a").value();
  EXPECT_EQ(found->last_used_ns, 900);
  EXPECT_EQ(found->execution_count, 3U);
  EXPECT_EQ(found->state, "ready");
  EXPECT_EQ(found->name, "work");
  EXPECT_EQ(store_.get("ses_2", "key_a").value()->last_used_ns, 100);
  EXPECT_EQ(store_.get("ses_3", "key_a").value()->last_used_ns, 800);
  EXPECT_EQ(store_.all().value().size(), 3U);
}

TEST_F(SessionStoreTest, ExpiresAfterItsLastUseOrItsLongestAge) {
  StoredSession stored = session("ses_1");
  EXPECT_EQ(stored.expires_ns(), 100 + 3'600'000'000'000);
  stored.last_used_ns += stored.max_age_s * 1'000'000'000;
  EXPECT_EQ(stored.expires_ns(), 100 + 86'400'000'000'000);
}

TEST_F(SessionStoreTest, WhatIsRemovedIsGone) {
  ASSERT_TRUE(store_.save(session("ses_1")));
  ASSERT_TRUE(store_.save(session("ses_2")));
  ASSERT_TRUE(store_.remove("ses_1"));
  EXPECT_FALSE(store_.get("ses_1", "key_a").value());
  EXPECT_TRUE(store_.get("ses_2", "key_a").value());
  EXPECT_TRUE(store_.remove("ses_1"));
}

}  // namespace
}  // namespace hutch
