#include "session/workspace.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <fstream>

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
