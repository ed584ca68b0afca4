#include "session/audit_log.h"

#include <gmock/gmock.h>

#include "session/database_fixture.h"

namespace hutch {
namespace {

using testing::ElementsAre;
using testing::Field;

class AuditLogTest : public DatabaseFixture {
 protected:
  void SetUp() override {
    for (int i = 0; i < 5; ++i) {
      ASSERT_TRUE(log_.append(i, "key_a", "session_created", "ses_" + std::to_string(i), "why"));
    }
  }

  Database database_ = Database::open(path_).value();
  AuditLog log_ = AuditLog::open(database_).value();
};

TEST_F(AuditLogTest, TheNewestComesFirstAndPagesFollow) {
  const auto page = log_.list(0, 2).value();
  ASSERT_THAT(page, ElementsAre(Field(&AuditEntry::target, "ses_4"), Field(&AuditEntry::target, "ses_3")));
  EXPECT_EQ(page[0].time_ns, 4);
  EXPECT_EQ(page[0].key_id, "key_a");
  EXPECT_EQ(page[0].action, "session_created");
  EXPECT_EQ(page[0].detail, "why");
  EXPECT_THAT(log_.list(page[1].sequence, 2).value(),
              ElementsAre(Field(&AuditEntry::target, "ses_2"), Field(&AuditEntry::target, "ses_1")));
}

TEST_F(AuditLogTest, OnlyTheNewestAreKept) {
  ASSERT_TRUE(log_.keep_newest(3));
  EXPECT_THAT(log_.list(0, 10).value(),
              ElementsAre(Field(&AuditEntry::target, "ses_4"), Field(&AuditEntry::target, "ses_3"),
                          Field(&AuditEntry::target, "ses_2")));
  ASSERT_TRUE(log_.keep_newest(10));
  EXPECT_EQ(log_.list(0, 10).value().size(), 3U);
}

TEST_F(AuditLogTest, WhatTenantsCauseDoesNotPushOutWhatIsDoneWithKeys) {
  for (const char* action : {"key_created", "key_rotated", "key_revoked"}) {
    ASSERT_TRUE(log_.append(10, "local", action, action));
  }
  for (const char* action : {"request_refused", "more_refused", "calls_denied", "more_denied", "session_ended"}) {
    ASSERT_TRUE(log_.append(20, "key_a", action, action));
  }
  ASSERT_TRUE(log_.keep_newest(3));
  EXPECT_THAT(log_.list(0, 20).value(),
              ElementsAre(Field(&AuditEntry::target, "session_ended"), Field(&AuditEntry::target, "more_denied"),
                          Field(&AuditEntry::target, "calls_denied"), Field(&AuditEntry::target, "key_revoked"),
                          Field(&AuditEntry::target, "key_rotated"), Field(&AuditEntry::target, "key_created")));
}

TEST_F(AuditLogTest, WhatIsDoneWithKeysIsBoundedToo) {
  for (int i = 0; i < 7; ++i) ASSERT_TRUE(log_.append(10, "local", "key_created", "key_" + std::to_string(i)));
  ASSERT_TRUE(log_.keep_newest(2));
  EXPECT_THAT(log_.list(0, 20).value(),
              ElementsAre(Field(&AuditEntry::target, "key_6"), Field(&AuditEntry::target, "key_5"),
                          Field(&AuditEntry::target, "key_4"), Field(&AuditEntry::target, "key_3")));
}

TEST(AuditQuota, CountsWhatIsMoreThanAKeyMayHaveNoted) {
  AuditQuota quota(2);
  for (int i = 0; i < 5; ++i) EXPECT_EQ(quota.take("key_a"), i < 2);
  EXPECT_TRUE(quota.take("key_b"));  // which the other does not concern
  EXPECT_THAT(quota.take_rest(), ElementsAre(testing::Pair("key_a", 3U)));
  EXPECT_TRUE(quota.take("key_a"));
  EXPECT_TRUE(quota.take_rest().empty());
}

}  // namespace
}  // namespace hutch
