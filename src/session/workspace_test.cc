#include "session/workspace.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <thread>

#include "base/sha256.h"

namespace hutch {
namespace {

class WorkspaceTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "workspace-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
    directory_.reset(::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    ASSERT_TRUE(directory_);
  }
  void TearDown() override { std::filesystem::remove_all(path_); }
  void put(const std::string& name, const std::string& text) {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << text;
  }
  Collection collect(const std::map<std::string, std::string>& inputs = {}) {
    return collect_files(directory_.get(), inputs, true, most_);
  }

  std::filesystem::path path_;
  Bytes most_ = 64_MiB;
  UniqueFd directory_;
};

TEST_F(WorkspaceTest, ListsFilesWithSizeTypeAndHash) {
  put("out.csv", "a,b\n");
  put("deep/er/plot.png", "x");
  const auto found = collect();
  ASSERT_EQ(found.files.size(), 2U);
  EXPECT_EQ(found.files[0].entry.path, "deep/er/plot.png");
  EXPECT_EQ(found.files[0].entry.mime_type, "image/png");
  EXPECT_EQ(found.files[1].entry.size, 4U);
  EXPECT_EQ(found.files[1].entry.sha256, sha256_hex("a,b\n"));
  EXPECT_FALSE(found.truncated);
}

TEST_F(WorkspaceTest, NeverFollowsALink) {
  ASSERT_EQ(::symlink("/etc/passwd", (path_ / "link").c_str()), 0);
  ASSERT_EQ(::symlink("/etc", (path_ / "directory").c_str()), 0);
  EXPECT_TRUE(collect().files.empty());
}

TEST_F(WorkspaceTest, DoesNotHangOnAFifo) {
  ASSERT_EQ(::mkfifo((path_ / "pipe").c_str(), 0600), 0);
  EXPECT_TRUE(collect().files.empty());
}

TEST_F(WorkspaceTest, TellsCreatedModifiedAndDeletedApart) {
  put("same.txt", "same");
  put("changed.txt", "after");
  put("new.txt", "new");
  const auto found =
      collect({{"same.txt", sha256_hex("same")}, {"changed.txt", sha256_hex("before")}, {"gone.txt", "x"}});
  ASSERT_EQ(found.files.size(), 3U);
  EXPECT_EQ(found.files[0].entry.change, wire::Change::modified);
  EXPECT_EQ(found.files[1].entry.path, "gone.txt");
  EXPECT_EQ(found.files[1].entry.change, wire::Change::deleted);
  EXPECT_EQ(found.files[2].entry.change, wire::Change::created);
}

TEST_F(WorkspaceTest, SaysWhenThereAreTooManyFilesOrTheyAreTooDeep) {
  for (int i = 0; i < 1'100; ++i) put("f" + std::to_string(i), "");
  const auto many = collect();
  EXPECT_EQ(many.files.size(), 1'000U);
  EXPECT_TRUE(many.truncated);
}

// What collect_changes() tells, as `created a` and the like.
class CensusTest : public WorkspaceTest {
 protected:
  std::vector<std::string> changes() {
    const auto found = collect_changes(directory_.get(), known_, Look::content, most_);
    truncated_ = found.truncated;
    std::vector<std::string> told;
    for (const auto& file : found.files) {
      const auto change = file.entry.change;
      const char* word = change == wire::Change::created    ? "created "
                         : change == wire::Change::modified ? "modified "
                                                            : "deleted ";
      told.push_back(word + file.entry.path);
    }
    return told;
  }
  using Told = std::vector<std::string>;

  Census known_;
  bool truncated_ = false;
};

TEST_F(CensusTest, TellsOfOneChangeAmongMoreFilesThanAListHolds) {
  for (int i = 0; i < 2'500; ++i) put("data/f" + std::to_string(i), "");
  put("data/g", "before");
  EXPECT_EQ(changes().size(), 1'000U);
  EXPECT_TRUE(truncated_) << "there are more of them";
  EXPECT_EQ(changes(), Told{});
  EXPECT_FALSE(truncated_);
  put("data/g", "afterwards");
  put("new", "");
  std::filesystem::remove(path_ / "data/f7");
  EXPECT_EQ(changes(), (Told{"deleted data/f7", "modified data/g", "created new"}));
  EXPECT_FALSE(truncated_);
  std::filesystem::remove_all(path_ / "data");
  EXPECT_EQ(changes().size(), 1'000U);
  EXPECT_TRUE(truncated_);
  EXPECT_EQ(changes(), Told{});
  EXPECT_FALSE(truncated_);
}

TEST_F(CensusTest, InventsNothingOfWhatItCouldNotReadToItsEnd) {
  for (int i = 0; i < 20'050; ++i) put("many/" + std::to_string(i), "");
  put("top", "before");
  changes();
  EXPECT_EQ(known_.unread, (std::set<std::string, std::less<>>{"many"}));
  EXPECT_EQ(changes(), Told{});
  EXPECT_TRUE(truncated_) << "what became of the files beyond is not known";
  // Others are now within reach, and those that were may not be.
  for (int i = 0; i < 1'000; ++i) std::filesystem::remove(path_ / "many" / std::to_string(i));
  put("top", "afterwards");
  put("new", "");
  const auto told = changes();
  EXPECT_TRUE(truncated_);
  EXPECT_EQ(std::ranges::count_if(told, [](const auto& one) { return one.starts_with("created many"); }), 0);
  EXPECT_TRUE(std::ranges::count(told, "created new") == 1);
  EXPECT_TRUE(std::ranges::count(told, "modified top") == 1);
  EXPECT_EQ(changes(), Told{});
  EXPECT_FALSE(truncated_) << "all of it is known again";
}

TEST_F(CensusTest, TellsNothingWhereNothingWasKnown) {
  put("a/b/c", "x");
  known_ = nothing_known();
  EXPECT_EQ(changes(), Told{});
  EXPECT_TRUE(truncated_);
  put("a/b/d", "x");
  EXPECT_EQ(changes(), Told{"created a/b/d"});
  EXPECT_FALSE(truncated_);
}

TEST_F(WorkspaceTest, FindsWhatIsNewAmongMoreInputsThanAListHolds) {
  std::map<std::string, std::string> inputs;
  for (int i = 0; i < 1'200; ++i) {
    inputs["in" + std::to_string(i)] = sha256_hex("x");
    if (i != 5) put("in" + std::to_string(i), "x");
  }
  put("out/new", "y");
  const auto found = collect(inputs);
  ASSERT_EQ(found.files.size(), 2U);
  EXPECT_EQ(found.files[0].entry.path, "in5");
  EXPECT_EQ(found.files[0].entry.change, wire::Change::deleted);
  EXPECT_EQ(found.files[1].entry.path, "out/new");
  EXPECT_FALSE(found.truncated);
}

TEST_F(WorkspaceTest, DoesNotTakeAnInputForModifiedThatItHasNotRead) {
  put("large", std::string(1'000, 'x'));
  most_ = Bytes{999};
  const auto found = collect({{"large", sha256_hex(std::string(1'000, 'x'))}});
  EXPECT_TRUE(found.files.empty());
  EXPECT_TRUE(found.truncated);
}

TEST_F(WorkspaceTest, NeverGivesOutMoreThanTheScratchSpaceHolds) {
  put("a.bin", "");
  std::filesystem::resize_file(path_ / "a.bin", 40 << 20);  // a hole
  std::filesystem::create_hard_link(path_ / "a.bin", path_ / "b.bin");
  const auto found = collect();
  ASSERT_EQ(found.files.size(), 2U);
  EXPECT_TRUE(found.truncated);
  EXPECT_EQ(found.files[0].entry.size + found.files[1].entry.size, 80U << 20);
  EXPECT_NE(static_cast<bool>(found.files[0].content), static_cast<bool>(found.files[1].content));
}

TEST_F(WorkspaceTest, CopiesKeepHoles) {
  const auto source = path_ / "source";
  put("source", "beginning");
  std::filesystem::resize_file(source, 32 << 20);
  {
    std::fstream file(source, std::ios::in | std::ios::out);
    file.seekp(16 << 20);
    file << "middle";
  }
  const auto copy_of = [&](std::uint64_t size) {
    const UniqueFd from{::open(source.c_str(), O_RDONLY | O_CLOEXEC)};
    UniqueFd to{::open((path_ / "copy").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
    EXPECT_TRUE(copy_content(from.get(), to.get(), size));
    return to;
  };
  const UniqueFd whole = copy_of(32 << 20);
  struct stat status{};
  ASSERT_EQ(::fstat(whole.get(), &status), 0);
  EXPECT_EQ(status.st_size, 32 << 20);
  EXPECT_LT(status.st_blocks * 512, 1 << 20);
  char text[16] = {};
  ASSERT_EQ(::pread(whole.get(), text, 9, 0), 9);
  EXPECT_STREQ(text, "beginning");
  ASSERT_EQ(::pread(whole.get(), text, 9, 16 << 20), 9);
  EXPECT_STREQ(text, "middle");
  const UniqueFd part = copy_of(5);
  ASSERT_EQ(::pread(part.get(), text, sizeof(text), 0), 5);
  EXPECT_EQ(std::string_view(text, 5), "begin");
  EXPECT_FALSE(copy_content(directory_.get(), part.get(), 1));
}

TEST_F(WorkspaceTest, HashAndSizeOfAFileThatGrowsAreOfTheSameMoment) {
  constexpr std::size_t kAtFirst = 4U << 20;  // takes a while to hash
  constexpr std::size_t kAtMost = 16U << 20;
  const auto check = [&] {
    const auto found = collect();
    ASSERT_EQ(found.files.size(), 1U);
    const auto& entry = found.files[0].entry;
    if (!entry.sha256.empty()) EXPECT_EQ(entry.sha256, sha256_hex(std::string(entry.size, 'z'))) << entry.size;
  };
  for (int round = 0; round < 10; ++round) {
    put("grows", std::string(kAtFirst, 'z'));
    std::atomic<bool> over = false;
    std::jthread writer([&] {
      const std::string piece(4096, 'z');
      std::ofstream file(path_ / "grows", std::ios::app);
      for (std::size_t size = kAtFirst; size < kAtMost && !over; size += piece.size()) file << piece << std::flush;
    });
    check();
    over = true;
  }
  EXPECT_EQ(collect().files[0].entry.sha256.size(), 64U);
}

TEST_F(WorkspaceTest, NothingElseIsCopiedThanWhatWasHashed) {
  put("out", "before");
  const auto found = collect();
  ASSERT_EQ(found.files.size(), 1U);
  const auto copies = [&] {
    const UniqueFd to{::open((path_ / "copy").c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
    return copy_as_hashed(found.files[0].content.get(), to.get(), found.files[0]);
  };
  EXPECT_TRUE(copies());
  put("out", "after it");
  EXPECT_FALSE(copies());
}

// A directory that becomes a link in the middle of the walk: nothing of what is at its end may be told.
TEST_F(WorkspaceTest, TellsNothingOfWhatIsBeyondALinkThatWasADirectory) {
  const auto outside = path_ / "outside";
  const auto workspace = path_ / "workspace";
  for (int i = 0; i < 200; ++i) {
    put("outside/" + std::to_string(i), "secret");
    put("workspace/d/" + std::to_string(i), "");
  }
  ASSERT_EQ(::symlink(outside.c_str(), (workspace / "link").c_str()), 0);
  const UniqueFd inside{::open(workspace.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  std::atomic<bool> over = false;
  std::thread program([&] {
    while (!over) {
      ::renameat2(AT_FDCWD, (workspace / "d").c_str(), AT_FDCWD, (workspace / "link").c_str(), RENAME_EXCHANGE);
    }
  });
  std::size_t told = 0;
  for (int i = 0; i < 300; ++i) {
    Census known;
    for (const auto& file : collect_changes(inside.get(), known, Look::stamps, Bytes{0}).files) {
      told += file.entry.size != 0 ? 1 : 0;
    }
  }
  over = true;
  program.join();
  EXPECT_EQ(told, 0U);
}

TEST_F(WorkspaceTest, StopsAtADepth) {
  std::string name;
  for (int i = 0; i < 60; ++i) name += "d/";
  put(name + "bottom.txt", "x");
  put("top.txt", "x");
  const auto found = collect();
  ASSERT_EQ(found.files.size(), 1U);
  EXPECT_TRUE(found.truncated);
}

TEST(WorkspacePath, AcceptsOnlyPlainRelativePaths) {
  for (const char* good : {"a", "a/b.txt", "中文.csv", "...", "a b"}) EXPECT_TRUE(check_workspace_path(good)) << good;
  for (const char* bad : {"", "/a", "a/", "a//b", ".", "..", "a/../b", "a\nb", "a/./b"}) {
    EXPECT_FALSE(check_workspace_path(bad)) << bad;
  }
  EXPECT_FALSE(check_workspace_path(std::string_view("a\0b", 3)));
  EXPECT_FALSE(check_workspace_path(std::string(2000, 'a')));
}

}  // namespace
}  // namespace hutch
