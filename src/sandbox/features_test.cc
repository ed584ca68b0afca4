#include "sandbox/features.h"

#include <gtest/gtest.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <set>

#include "sandbox/feature_probes.h"

namespace hutch {
namespace {

namespace fs = std::filesystem;

// A /proc and a /sys of our own making.
class FeaturesTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = fs::temp_directory_path() / "hutch-features-XXXXXX";
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    root_ = name;
  }
  void TearDown() override { fs::remove_all(root_); }

  void put(const std::string& path, const std::string& text) const {
    fs::create_directories((root_ + path).substr(0, (root_ + path).rfind('/')));
    std::ofstream(root_ + path) << text << '\n';
  }
  [[nodiscard]] Check check(const std::string& id) const {
    for (auto& entry : check_host_settings(root_)) {
      if (entry.id == id) return entry;
    }
    ADD_FAILURE() << "no check is called " << id;
    return {};
  }

  std::string root_;
};

TEST_F(FeaturesTest, ASettingIsOkWeakOrMissing) {
  EXPECT_EQ(check("kernel.io_uring_disabled").status, CheckStatus::missing);
  put("/proc/sys/kernel/io_uring_disabled", "0");
  EXPECT_EQ(check("kernel.io_uring_disabled").status, CheckStatus::weak);
  EXPECT_EQ(check("kernel.io_uring_disabled").how_to_fix, "sudo sysctl -w kernel.io_uring_disabled=2");
  put("/proc/sys/kernel/io_uring_disabled", "2");
  EXPECT_EQ(check("kernel.io_uring_disabled").status, CheckStatus::ok);
}

TEST_F(FeaturesTest, ASettingThatMustBeOffIsWeakWhenOn) {
  put("/proc/sys/dev/tty/legacy_tiocsti", "1");
  EXPECT_EQ(check("dev.tty.legacy_tiocsti").status, CheckStatus::weak);
  put("/proc/sys/dev/tty/legacy_tiocsti", "0");
  EXPECT_EQ(check("dev.tty.legacy_tiocsti").status, CheckStatus::ok);
}

TEST_F(FeaturesTest, AFeatureThatTheKernelLacksNeedsNoSwitch) {
  EXPECT_EQ(check("vm.unprivileged_userfaultfd").status, CheckStatus::ok);
}

TEST_F(FeaturesTest, APipedCorePatternIsWeak) {
  put("/proc/sys/kernel/core_pattern", "|/usr/share/apport/apport %p");
  EXPECT_EQ(check("kernel.core_pattern").status, CheckStatus::weak);
  put("/proc/sys/kernel/core_pattern", "core");
  EXPECT_EQ(check("kernel.core_pattern").status, CheckStatus::ok);
}

TEST_F(FeaturesTest, ReadsTheChosenHugePageMode) {
  put("/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never");
  EXPECT_EQ(check("transparent_huge_pages").status, CheckStatus::weak);
  put("/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never");
  EXPECT_EQ(check("transparent_huge_pages").value, "madvise");
  EXPECT_EQ(check("transparent_huge_pages").status, CheckStatus::ok);
}

TEST_F(FeaturesTest, NamesTheOpenProcessorVulnerabilities) {
  put("/sys/devices/system/cpu/vulnerabilities/meltdown", "Mitigation: PTI");
  EXPECT_EQ(check("cpu_vulnerabilities").status, CheckStatus::ok);
  put("/sys/devices/system/cpu/vulnerabilities/mds", "Vulnerable; SMT vulnerable");
  EXPECT_EQ(check("cpu_vulnerabilities").value, "1 of 2 open: mds");
}

TEST(Features, EveryCheckSaysWhatItIsForAndHasItsOwnId) {
  auto checks = check_features("");
  std::ranges::move(check_host_settings(""), std::back_inserter(checks));
  std::set<std::string> ids;
  for (const auto& check : checks) {
    EXPECT_TRUE(ids.insert(check.id).second) << check.id;
    EXPECT_FALSE(check.title.empty() || check.value.empty() || check.protects.empty() || check.without_it.empty())
        << check.id;
    if (check.status != CheckStatus::ok) EXPECT_FALSE(check.how_to_fix.empty()) << check.id;
  }
}

TEST(Features, ProbingLeavesThisProcessAsItWas) {
  const auto namespaces = [] {
    std::string all;
    for (const char* name : {"user", "mnt", "pid_for_children", "net", "ipc", "uts", "cgroup"}) {
      all += fs::read_symlink(std::string("/proc/self/ns/") + name).string();
    }
    return all;
  };
  const std::string before = namespaces();
  utsname name_before{};
  ::uname(&name_before);
  check_features("");
  utsname name_after{};
  ::uname(&name_after);
  EXPECT_EQ(namespaces(), before);
  EXPECT_STREQ(name_after.nodename, name_before.nodename);
}

TEST(Features, AnAttemptThatDiesIsAnError) {
  const auto killed = probe::in_child([]() -> Result<std::string> { ::_exit(0); });
  ASSERT_FALSE(killed);
  EXPECT_EQ(killed.error().message, "the attempt was killed");
}

TEST(Features, AnAttemptBringsBackMessageAndHint) {
  const auto refused =
      probe::in_child([]() -> Result<std::string> { return make_error(ErrorCode::permission, "no").with_hint("ask"); });
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "no");
  EXPECT_EQ(refused.error().hint, "ask");
}

}  // namespace
}  // namespace hutch
