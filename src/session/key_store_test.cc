#include "session/key_store.h"

#include <gmock/gmock.h>

#include <fstream>
#include <limits>
#include <sstream>
#include <type_traits>

#include "session/database_fixture.h"

namespace hutch {
namespace {

template <class T>
concept Printable = requires(std::ostream& out, const T& value) { out << value; };
static_assert(!Printable<Secret> && !std::is_convertible_v<Secret, std::string> &&
              !std::is_copy_constructible_v<Secret>);

class KeyStoreTest : public DatabaseFixture {
 protected:
  // Not in SetUp(): a test with another process forks first.
  KeyStore& store() {
    if (!database_) database_.emplace(Database::open(path_).value());
    if (!store_) store_.emplace(KeyStore::open(*database_).value());
    return *store_;
  }
  NewKey create(std::string_view name = "ci") { return store().create(name, {.run = true}, {}).value(); }
  bool opens(std::string_view presented) {
    const auto found = store().find(presented);
    EXPECT_TRUE(found) << found.error().message;
    return found && found->has_value();
  }

  std::optional<Database> database_;
  std::optional<KeyStore> store_;
};

TEST_F(KeyStoreTest, AKeyOpensWhatItWasMadeFor) {
  const KeyLimits limits{.concurrent_runs = 3,
                         .runs_per_minute = {},
                         .memory_bytes = std::numeric_limits<std::uint64_t>::max(),
                         .cpu_seconds_per_month = 0,
                         .budget_per_month = 12.5,
                         .cache = true};
  const auto made = store().create("ci", {.run = true, .files = true}, limits, "team a");
  ASSERT_TRUE(made) << made.error().message;
  EXPECT_THAT(made->key.id, testing::MatchesRegex("key_[0-9a-f]{24}"));
  EXPECT_THAT(made->secret.reveal(), testing::MatchesRegex("hutch_[0-9a-f]{24}_[A-Za-z0-9_-]{43}"));
  EXPECT_EQ(made->secret.reveal().substr(6, 24), made->key.id.substr(4));
  const auto found = store().find(made->secret.reveal());
  ASSERT_TRUE(found && *found);
  const Key& key = **found;
  EXPECT_EQ(key.id, made->key.id);
  EXPECT_EQ(key.name, "ci");
  EXPECT_EQ(key.owner, "team a");
  EXPECT_TRUE(key.scopes.run && key.scopes.files && !key.scopes.admin);
  EXPECT_EQ(key.limits.concurrent_runs, 3U);
  EXPECT_EQ(key.limits.runs_per_minute, std::nullopt);
  EXPECT_EQ(key.limits.memory_bytes, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(key.limits.cpu_seconds_per_month, 0U);
  EXPECT_EQ(key.limits.budget_per_month, 12.5);
  EXPECT_TRUE(key.limits.cache);
  EXPECT_GT(key.created_ns, 0);
  EXPECT_EQ(key.revoked_ns, std::nullopt);
}

TEST_F(KeyStoreTest, TheSecretIsNotOnDisk) {
  const auto made = create();
  const std::string secret = made.secret.reveal().substr(31);
  ASSERT_EQ(secret.size(), 43U);
  for (const auto& entry : std::filesystem::directory_iterator(directory_)) {
    std::stringstream content;
    content << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    EXPECT_EQ(content.str().find(secret), std::string::npos) << entry.path();
  }
}

TEST_F(KeyStoreTest, EverySecretIsAnother) {
  EXPECT_NE(create().secret.reveal().substr(31), create().secret.reveal().substr(31));
}

TEST_F(KeyStoreTest, RefusesWhatIsNotExactlyTheKey) {
  const auto made = create();
  const std::string good = made.secret.reveal();
  ASSERT_TRUE(opens(good));
  for (std::size_t i = 0; i < good.size(); ++i) {
    for (const char other : {'A', '0', '_', ' ', '\0', '\xff', '%', static_cast<char>(good[i] ^ 32)}) {
      std::string garbled = good;
      garbled[i] = other;
      EXPECT_EQ(opens(garbled), garbled == good) << i;
    }
  }
  for (const std::string& bad :
       {std::string(), std::string("hutch_"), good.substr(0, 73), good + "=", good + std::string(1, '\0'), " " + good,
        made.key.id, "Bearer " + good, std::string(1 << 20, 'a'), std::string("' OR 1=1 --")}) {
    EXPECT_FALSE(opens(bad)) << bad.substr(0, 100);
  }
}

TEST_F(KeyStoreTest, TheSecretOfAnotherKeyDoesNotFit) {
  const std::string one = create("one").secret.reveal();
  const std::string two = create("two").secret.reveal();
  EXPECT_FALSE(opens(one.substr(0, 31) + two.substr(31)));
}

TEST_F(KeyStoreTest, ARevokedKeyOpensNothingAndIsStillListed) {
  const auto made = create();
  const auto other = create("other");
  ASSERT_TRUE(opens(made.secret.reveal()));
  EXPECT_EQ(store().count().value(), 2U);
  ASSERT_TRUE(store().revoke(made.key.id));
  EXPECT_FALSE(opens(made.secret.reveal()));
  EXPECT_TRUE(opens(other.secret.reveal()));
  EXPECT_EQ(store().count().value(), 1U);
  const auto keys = store().list().value();
  ASSERT_EQ(keys.size(), 2U);
  EXPECT_TRUE(keys[0].revoked_ns);
  ASSERT_TRUE(store().revoke(made.key.id));  // again: it stays as it was
  EXPECT_EQ(store().list().value()[0].revoked_ns, keys[0].revoked_ns);
  const auto missing = store().revoke("key_000000000000000000000000");
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().code, ErrorCode::not_found);
}

TEST_F(KeyStoreTest, RotatingGivesTheSameKeyAnotherSecretAndEndsTheOldOne) {
  const auto old = store().create("ci", {.files = true}, {.concurrent_runs = 2}, "team").value();
  const auto next = store().rotate(old.key.id);
  ASSERT_TRUE(next) << next.error().message;
  EXPECT_EQ(next->key.id, old.key.id);
  EXPECT_EQ(next->key.created_ns, old.key.created_ns);
  EXPECT_NE(next->secret.reveal(), old.secret.reveal());
  EXPECT_NE(next->key.secret_sha256, old.key.secret_sha256);
  EXPECT_FALSE(opens(old.secret.reveal()));
  const auto found = store().find(next->secret.reveal()).value();
  ASSERT_TRUE(found);
  EXPECT_EQ(found->id, old.key.id);
  EXPECT_EQ(found->secret_sha256, next->key.secret_sha256);
  EXPECT_EQ(found->name, "ci");
  EXPECT_EQ(found->owner, "team");
  EXPECT_TRUE(found->scopes.files && !found->scopes.run);
  EXPECT_EQ(found->limits.concurrent_runs, 2U);
  EXPECT_EQ(found->revoked_ns, std::nullopt);
  EXPECT_EQ(store().list().value().size(), 1U);
}

TEST_F(KeyStoreTest, RotatesOnlyALivingKey) {
  const auto made = create();
  ASSERT_TRUE(store().revoke(made.key.id));
  EXPECT_FALSE(store().rotate(made.key.id));
  EXPECT_FALSE(store().rotate("key_000000000000000000000000"));
  EXPECT_EQ(store().list().value().size(), 1U);
  EXPECT_TRUE(store().create("works again", {}, {}));
}

TEST_F(KeyStoreTest, RefusesNamesAndBudgetsThatMakeNoSense) {
  for (const std::string& name : {std::string(), std::string(101, 'x'), std::string("a\nb"), std::string("a\0b", 3)}) {
    EXPECT_FALSE(store().create(name, {}, {}));
  }
  for (const double budget :
       {-1.0, 0.0, std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    EXPECT_FALSE(store().create("x", {}, {.budget_per_month = budget}));
  }
  EXPECT_EQ(store().count().value(), 0U);
}

TEST_F(KeyStoreTest, SeesWhatAnotherProcessCreatesRotatesAndRevokes) {
  std::string id;
  OtherProcess other([&](const std::string& command) -> std::string {
    if (command == "create") {
      auto made = create();
      id = made.key.id;
      return made.secret.reveal();
    }
    if (command == "rotate") {
      return store().rotate(id).value().secret.reveal();
    }
    return store().revoke(id) ? "revoked" : "failed";
  });
  EXPECT_EQ(store().count().value(), 0U);
  const std::string first = other.ask("create");
  EXPECT_TRUE(opens(first));
  const std::string second = other.ask("rotate");
  EXPECT_FALSE(opens(first));
  EXPECT_TRUE(opens(second));
  EXPECT_EQ(other.ask("revoke"), "revoked");
  EXPECT_FALSE(opens(second));
  EXPECT_EQ(store().count().value(), 0U);
}

TEST_F(KeyStoreTest, KeysSurviveAProcessThatDies) {
  std::string presented;
  {
    OtherProcess other([&](const std::string&) { return create().secret.reveal(); });
    presented = other.ask("create");
  }
  EXPECT_TRUE(opens(presented));
}

}  // namespace
}  // namespace hutch
