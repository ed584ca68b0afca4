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

}  // namespace
}  // namespace hutch
