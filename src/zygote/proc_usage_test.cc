#include "zygote/proc_usage.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/unique_fd.h"

namespace hutch {
namespace {

// A proc with one process in it.
class ProcUsageTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/hutch-proc-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    std::filesystem::create_directory(root_ / "42");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }

  UsageNumbers usage(const std::string& name, std::uint64_t image) {
    std::ofstream(root_ / "42/status") << "Name:\t" << name << "\nState:\tS (sleeping)\nVmRSS:\t    1500 kB\n"
                                       << "RssAnon:\t    1000 kB\nRssFile:\t     400 kB\nRssShmem:\t     100 kB\n";
    std::ofstream(root_ / "42/stat") << "42 (" << name << ") S 1 42 42 0 -1 0 0 0 0 0 7 3 0 0 20 0 5 0 100";
    const UniqueFd directory{::open(root_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    return usage_from_proc(directory.get(), image);
  }

 private:
  std::filesystem::path root_;
};

TEST_F(ProcUsageTest, AddsUpWhatAProcessUses) {
  const UsageNumbers used = usage("python3", 40 << 10);
  EXPECT_EQ(used.memory_now, 1060U << 10);
  EXPECT_EQ(used.processes, 5U);
  EXPECT_EQ(used.cpu_us, 10U * 1'000'000U / static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK)));
}

TEST_F(ProcUsageTest, IsNotDeceivedByTheNameOfAProcess) {
  const UsageNumbers honest = usage("python3", 0);
  for (const char* name : {"RssAnon:0", "RssAnon: 1", "RssShmem:0", "\\nRssAnon:0", ") S 1 (", "a) S 0 0"}) {
    const UsageNumbers used = usage(name, 0);
    EXPECT_EQ(used.memory_now, honest.memory_now) << name;
    EXPECT_EQ(used.processes, honest.processes) << name;
    EXPECT_EQ(used.cpu_us, honest.cpu_us) << name;
  }
}

}  // namespace
}  // namespace hutch
