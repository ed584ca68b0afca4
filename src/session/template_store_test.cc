#include "session/template_store.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/unique_fd.h"

namespace hutch {
namespace {

namespace fs = std::filesystem;

class TemplateStoreTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "hutch-store-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    fs::create_directories(root_ / "data/templates");
    fs::create_directories(root_ / "user");
    if (auto bare = store().resolve("bare"); !bare) {
      if (std::getenv("HUTCH_TESTS_MUST_RUN") != nullptr) FAIL() << bare.error().message;
      GTEST_SKIP() << "no Python 3.10 or newer at /usr/bin/python3";
    }
  }
  void TearDown() override { fs::remove_all(root_); }

  TemplateStore store() { return TemplateStore::open({.data = root_ / "data", .user = root_ / "user"}).value(); }
  void define(const std::string& name, std::string_view text) { write(root_ / "user" / (name + ".toml"), text); }
  static void write(const fs::path& path, std::string_view text) { std::ofstream(path) << text; }

  // What a build leaves, without a build.
  void pretend_built(std::string_view name) {
    const auto plan = store().plan(name);
    ASSERT_TRUE(plan) << plan.error().message;
    fs::create_directories(plan->tree);
    write(plan->tree / "manifest.toml", format_manifest({.fingerprint = plan->fingerprint,
                                                         .built_at = "2025-01-31T12:00:00Z",
                                                         .size = 5_MiB,
                                                         .packages = {"six==1.0"},
                                                         .environment = {{"PATH", "/x"}, {"A", "tree"}}}));
  }

  fs::path root_;
};

TEST_F(TemplateStoreTest, BareIsAlwaysReadyAndIsTheRealInterpreter) {
  const auto bare = store().resolve("bare");
  ASSERT_TRUE(bare) << bare.error().message;
  EXPECT_THAT(bare->interpreter, testing::MatchesRegex("/usr/bin/python3\\.[0-9]+"));
  EXPECT_TRUE(bare->binds.empty());
  EXPECT_TRUE(bare->skeleton.empty());
  EXPECT_EQ(bare->fingerprint.size(), 16U);
  EXPECT_THAT(bare->preload, testing::Contains("json"));
}

TEST_F(TemplateStoreTest, DefaultThatIsNotBuiltSaysHowToBuildIt) {
  const auto usual = store().resolve("default");
  ASSERT_FALSE(usual);
  EXPECT_EQ(usual.error().code, ErrorCode::unsupported);
  EXPECT_EQ(usual.error().hint, "run: hutch template build default");
}

TEST_F(TemplateStoreTest, WithoutANameBareStandsInForDefaultAndSaysSo) {
  const auto choice = store().choose("");
  ASSERT_TRUE(choice) << choice.error().message;
  EXPECT_EQ(choice->chosen.name, "bare");
  EXPECT_THAT(choice->notice, testing::HasSubstr("using bare"));
  EXPECT_THAT(choice->notice, testing::HasSubstr("hutch template build default"));
  EXPECT_FALSE(store().choose("default"));  // a name that was given is not replaced
  pretend_built("default");
  EXPECT_EQ(store().choose("")->chosen.name, "default");
  EXPECT_EQ(store().choose("")->notice, "");
}

TEST_F(TemplateStoreTest, DefaultKeepsNumericalLibrariesToOneThread) {
  pretend_built("default");
  const auto usual = store().resolve("default");
  ASSERT_TRUE(usual) << usual.error().message;
  EXPECT_THAT(usual->environment, testing::Contains(testing::Pair("OPENBLAS_NUM_THREADS", "1")));
  EXPECT_THAT(usual->environment, testing::Contains(testing::Pair("OMP_NUM_THREADS", "1")));
}

TEST_F(TemplateStoreTest, AnUnknownNameListsTheKnownAndTheNearest) {
  const auto unknown = store().resolve("defualt");
  ASSERT_FALSE(unknown);
  EXPECT_EQ(unknown.error().code, ErrorCode::not_found);
  EXPECT_EQ(unknown.error().message, "there is no template 'defualt'; known templates: bare, default, viz");
  EXPECT_EQ(unknown.error().hint, "Did you mean default?");
  EXPECT_EQ(store().resolve("something-else").error().hint, "");
}

TEST_F(TemplateStoreTest, ANameIsNeverAPath) {
  write(root_ / "outside.toml", "");
  for (const auto* name : {"../outside", "/etc/passwd", "", ".", "a/b"}) {
    const auto result = store().resolve(name);
    ASSERT_FALSE(result) << name;
    EXPECT_EQ(result.error().code, ErrorCode::invalid_argument) << name;
  }
}

TEST_F(TemplateStoreTest, ABuiltTreeBringsItsMountsAndItsEnvironment) {
  define("mine", "packages = ['six']\npreload = ['six']\n[environment]\nA = 'definition'\n");
  pretend_built("mine");
  const auto mine = store().resolve("mine");
  ASSERT_TRUE(mine) << mine.error().message;
  const auto tree = store().plan("mine")->tree;
  EXPECT_EQ(mine->interpreter, "/opt/hutch/env/bin/python");
  EXPECT_EQ(mine->skeleton, "/opt/hutch/skel");
  ASSERT_EQ(mine->binds.size(), 2U);
  EXPECT_EQ(mine->binds[0].source, tree / "env");
  EXPECT_EQ(mine->binds[0].target, "/opt/hutch/env");
  EXPECT_EQ(mine->binds[1].source, tree / "skel");
  EXPECT_EQ(mine->environment, (Variables{{"A", "definition"}, {"PATH", "/x"}}));
}

TEST_F(TemplateStoreTest, AUsersDefinitionWinsOverABuiltInOne) {
  define("default", "description = 'Mine'\n");
  const auto usual = store().resolve("default");
  ASSERT_TRUE(usual) << usual.error().message;  // no packages: nothing to build
  EXPECT_EQ(store().show("default")->description, "Mine");
}

TEST_F(TemplateStoreTest, TheTreeDependsOnPackagesAndTheTemplateOnEverything) {
  const auto tree = [this] { return store().plan("mine")->fingerprint; };
  const auto whole = [this] { return store().resolve("mine")->fingerprint; };
  define("mine", "packages = ['six']");
  const auto first_tree = tree();
  pretend_built("mine");
  const auto first = whole();
  EXPECT_EQ(whole(), first);
  define("mine", "packages = ['six']\npreload = ['six']");
  EXPECT_EQ(tree(), first_tree);  // no build is needed
  EXPECT_NE(whole(), first);
  define("mine", "packages = ['six', 'rich']");
  EXPECT_NE(tree(), first_tree);
  EXPECT_FALSE(store().resolve("mine"));
}

TEST_F(TemplateStoreTest, ListShowsEveryState) {
  define("broken", "nonsense = 1\n");
  define("failed", "packages = ['six']");
  define("made", "packages = ['six']");
  define("running", "packages = ['six']");
  write(root_ / "user" / "not a name.toml", "");
  write(store().plan("failed")->tree.string() + ".error", "it failed");
  pretend_built("made");
  const UniqueFd lock{::open(store().lock_file("running").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  struct flock whole{};
  whole.l_type = F_WRLCK;
  ASSERT_EQ(::fcntl(lock.get(), F_OFD_SETLK, &whole), 0);

  std::vector<std::string> seen;
  for (const auto& info : store().list()) seen.push_back(info.name + ": " + std::string(to_string(info.state)));
  EXPECT_THAT(seen, testing::ElementsAre("bare: ready", "broken: error", "default: not built", "failed: error",
                                         "made: ready", "running: creating", "viz: not built"));
  EXPECT_EQ(store().show("failed")->error, "it failed");
  EXPECT_EQ(store().show("made")->size, 5_MiB);
  EXPECT_THAT(store().show("broken")->error, testing::HasSubstr("unknown key 'nonsense'"));
}

TEST_F(TemplateStoreTest, ReadyLeavesOutWhatCannotRun) {
  define("failed", "packages = ['six']");
  define("mine", "");
  const auto ready = store().ready();
  ASSERT_TRUE(ready) << ready.error().message;
  std::vector<std::string> seen;
  for (const auto& one : *ready) seen.push_back(one.name);
  EXPECT_THAT(seen, testing::ElementsAre("bare", "mine"));
}

TEST_F(TemplateStoreTest, AShimScriptIsNotAnInterpreter) {
  const auto shim = root_ / "python3.11";
  write(shim, "#!/bin/sh\nexec /usr/bin/python3 \"$@\"\n");
  fs::permissions(shim, fs::perms::owner_all);
  define("mine", "interpreter = '" + shim.string() + "'");
  const auto mine = store().resolve("mine");
  ASSERT_FALSE(mine);
  EXPECT_EQ(mine.error().code, ErrorCode::unsupported);
  EXPECT_FALSE(find_interpreter("/usr/bin/env"));
  EXPECT_FALSE(find_interpreter("no-such-python"));
  EXPECT_EQ(find_interpreter("python3")->path, find_interpreter("/usr/bin/python3")->path);
}

TEST_F(TemplateStoreTest, AnInterpreterOutsideUsrBringsItsInstallation) {
  fs::create_directories(root_ / "python/bin");
  fs::create_directories(root_ / "python/lib/python3.99");
  fs::copy_file("/bin/true", root_ / "python/bin/python3.99");
  write(root_ / "python/lib/python3.99/os.py", "");
  define("mine", "interpreter = '" + (root_ / "python/bin/python3.99").string() + "'");
  const auto mine = store().resolve("mine");
  ASSERT_TRUE(mine) << mine.error().message;
  ASSERT_EQ(mine->binds.size(), 1U);
  EXPECT_EQ(mine->binds[0].source, fs::canonical(root_ / "python"));
  EXPECT_EQ(mine->binds[0].target, mine->binds[0].source);
  define("mine", "python = '<3.99'\ninterpreter = '" + (root_ / "python/bin/python3.99").string() + "'");
  EXPECT_EQ(store().resolve("mine").error().code, ErrorCode::unsupported);
}

TEST_F(TemplateStoreTest, TheDataDirectoryMustBeAbsolute) {
  EXPECT_FALSE(TemplateStore::open({.data = "relative", .user = {}}));
}

}  // namespace
}  // namespace hutch
