#include "session/run_owners.h"

#include "session/database_fixture.h"
#include "session/run_store.h"

namespace hutch {
namespace {

class RunOwnersTest : public DatabaseFixture {};

TEST_F(RunOwnersTest, KnowsWhatIsStoredWhileSomebodyElseWrites) {
  auto database = Database::open(path_).value();
  auto store = RunStore::open(database, path_.string() + ".runs").value();
  auto beside = Database::open(path_).value();
  auto owners = RunOwners::open(beside).value();
  EXPECT_EQ(owners.key_of("exe_1").value(), "");
  StoredRun run;
  run.id = "exe_1";
  run.key_id = "key_a";
  run.status = "running";
  ASSERT_TRUE(store.begin(run));
  EXPECT_EQ(owners.key_of("exe_1").value(), "key_a");
  EXPECT_EQ(owners.key_of("exe_2").value(), "");
}

}  // namespace
}  // namespace hutch
