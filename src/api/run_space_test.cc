#include "api/run_space.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <atomic>
#include <fstream>
#include <map>
#include <string>
#include <thread>

namespace hutch {
namespace {

namespace fs = std::filesystem;

class RunSpaceTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "run-space-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  void TearDown() override { fs::remove_all(path_); }
  // Later ones are younger.
  void put(const std::string& name, std::size_t bytes) {
    fs::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name) << std::string(bytes, 'x');
    const timespec at{.tv_sec = 1'000 + count_++, .tv_nsec = 0};
    const timespec times[] = {at, at};
    ASSERT_EQ(::utimensat(AT_FDCWD, (path_ / name).c_str(), times, 0), 0);
  }
  [[nodiscard]] bool has(const std::string& name) const { return fs::exists(path_ / name); }
  void bound(std::uint64_t most) {
    bound_run_space(path_, most, [this](const std::string& run_id) {
      ++asked_[run_id];
      const auto found = owners_.find(run_id);
      return found == owners_.end() ? RunOwner{} : found->second;
    });
  }

  fs::path path_;
  std::map<std::string, RunOwner> owners_;
  std::map<std::string, int> asked_;
  int count_ = 0;
};

TEST_F(RunSpaceTest, RemovesTheOldestUntilTheRestFits) {
  put("exe_1.stdout", 64 << 10);
  put("exe_2.files/0", 64 << 10);
  put("exe_3.stdout", 64 << 10);
  bound(256 << 10);
  EXPECT_TRUE(has("exe_1.stdout"));
  bound(80 << 10);
  EXPECT_FALSE(has("exe_1.stdout"));
  EXPECT_FALSE(has("exe_2.files/0"));
  EXPECT_TRUE(has("exe_3.stdout"));
}

TEST_F(RunSpaceTest, CountsWhatIsOnTheDisk) {
  put("exe_1.stdout", 4 << 10);
  put("exe_2.files/0", 4 << 10);
  fs::resize_file(path_ / "exe_2.files/0", 1 << 30);  // a hole
  put("exe_3.files/0", 64 << 10);
  fs::create_directory(path_ / "exe_4.files");
  fs::create_hard_link(path_ / "exe_3.files/0", path_ / "exe_4.files/0");
  bound(100 << 10);
  EXPECT_TRUE(has("exe_1.stdout"));
  EXPECT_TRUE(has("exe_2.files/0"));
  EXPECT_TRUE(has("exe_4.files/0"));
}

TEST_F(RunSpaceTest, TakesFromWhoeverHasMost) {
  owners_ = {{"exe_1", {.key_id = "quiet"}}, {"exe_2", {.key_id = "loud"}}, {"exe_3", {.key_id = "loud"}}};
  put("exe_1.stdout", 64 << 10);
  put("exe_2.files/0", 64 << 10);
  put("exe_2.files/1", 64 << 10);
  put("exe_3.stdout", 64 << 10);
  bound(208 << 10);
  EXPECT_TRUE(has("exe_1.stdout"));
  EXPECT_FALSE(has("exe_2.files/0"));
  EXPECT_TRUE(has("exe_2.files/1"));
  bound(144 << 10);
  EXPECT_TRUE(has("exe_1.stdout"));
  EXPECT_FALSE(has("exe_2.files/1"));
  EXPECT_TRUE(has("exe_3.stdout"));
}

TEST_F(RunSpaceTest, LeavesWhatIsBeingWritten) {
  owners_ = {
      {"exe_1", {.key_id = "loud", .under_way = true}}, {"exe_2", {.key_id = "loud"}}, {"exe_3", {.key_id = "quiet"}}};
  put("exe_1.stdout", 256 << 10);
  put("exe_2.stdout", 64 << 10);
  put("exe_3.stdout", 64 << 10);
  bound(160 << 10);
  EXPECT_TRUE(has("exe_1.stdout"));
  EXPECT_FALSE(has("exe_2.stdout"));
  EXPECT_TRUE(has("exe_3.stdout"));  // less than an even part
}

TEST_F(RunSpaceTest, AsksForEachOwnerOnceAndOnlyWhenThereIsTooMuch) {
  put("exe_1.stdout", 64 << 10);
  put("exe_1.stderr", 64 << 10);
  put("exe_2.files/0", 64 << 10);
  bound(256 << 10);
  EXPECT_TRUE(asked_.empty());
  bound(208 << 10);
  EXPECT_TRUE(asked_.empty());
  bound(144 << 10);
  EXPECT_EQ(asked_, (std::map<std::string, int>{{"exe_1", 1}, {"exe_2", 1}}));
}

TEST_F(RunSpaceTest, BearsThatOthersRemoveMeanwhile) {
  std::atomic<bool> over = false;
  std::thread other([&] {
    while (!over) {
      for (int i = 0; i < 50; ++i) fs::create_directory(path_ / (std::to_string(i) + ".files"));
      for (int i = 0; i < 50; ++i) fs::remove_all(path_ / (std::to_string(i) + ".files"));
    }
  });
  EXPECT_NO_THROW({
    for (int i = 0; i < 2'000; ++i) bound(0);
  });
  over = true;
  other.join();
}

}  // namespace
}  // namespace hutch
