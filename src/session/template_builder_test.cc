#include "session/template_builder.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "base/subprocess.h"
#include "base/unique_fd.h"
#include "session/template_installer.h"
#include "session/template_tree.h"

namespace hutch {
namespace {

namespace fs = std::filesystem;

// A wheel small enough to write here: the package index of these tests is a directory.
constexpr std::string_view kMakeWheel = R"(
import sys, zipfile
with zipfile.ZipFile(sys.argv[1] + '/hutch_probe-1.0-py3-none-any.whl', 'w') as wheel:
    info = 'hutch_probe-1.0.dist-info/'
    wheel.writestr('hutch_probe.py', 'def main(): print(__file__)\n')
    wheel.writestr(info + 'METADATA', 'Metadata-Version: 2.1\nName: hutch-probe\nVersion: 1.0\n')
    wheel.writestr(info + 'WHEEL', 'Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n')
    wheel.writestr(info + 'entry_points.txt', '[console_scripts]\nhutch-probe = hutch_probe:main\n')
    wheel.writestr(info + 'RECORD', '')
)";

class TemplateBuilderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "hutch-builder-XXXXXX").string();
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    fs::create_directories(root_ / "user");
    fs::create_directories(root_ / "wheels");
  }
  void TearDown() override { fs::remove_all(root_); }

  TemplateStore store() { return TemplateStore::open({.data = root_ / "data", .user = root_ / "user"}).value(); }
  void define(const std::string& name, std::string_view text) {
    std::ofstream(root_ / "user" / (name + ".toml")) << text;
  }
  // No index, no uv: pip of the host's ensurepip and the directory of wheels.
  BuildOptions offline() {
    return {.progress = [this](const BuildProgress& progress) { told_ += progress.text + "\n"; },
            .environment = {"PATH=/nonexistent", "HOME=" + root_.string(), "PIP_NO_INDEX=1",
                            "PIP_FIND_LINKS=" + (root_ / "wheels").string(), "PIP_CONFIG_FILE=/dev/null"}};
  }
  void need_python_with_venv() {
    const auto done = run_command({.argv = {"/usr/bin/python3", "-c", "import ensurepip, venv"}, .environment = {}});
    if (done && done->exit_code == 0) return;
    if (std::getenv("HUTCH_TESTS_MUST_RUN") != nullptr) FAIL() << "python3-venv is missing";
    GTEST_SKIP() << "no /usr/bin/python3 with venv and ensurepip (Debian: python3-venv)";
  }

  fs::path root_;
  std::string told_;
};

TEST_F(TemplateBuilderTest, BuildsFromWheelsWithoutANetwork) {
  need_python_with_venv();
  if (IsSkipped() || HasFatalFailure()) return;
  ASSERT_TRUE(run_checked(
      {.argv = {"/usr/bin/python3", "-c", std::string(kMakeWheel), (root_ / "wheels").string()}, .environment = {}}));
  define("probe", "packages = ['hutch-probe>=1']\npreload = ['hutch_probe']\n");
  const auto built = build_template(store(), "probe", offline());
  ASSERT_TRUE(built) << built.error().message;
  EXPECT_THAT(told_, testing::HasSubstr("with pip"));

  const auto info = store().show("probe");
  ASSERT_TRUE(info);
  EXPECT_EQ(info->state, TemplateState::ready) << info->error;
  EXPECT_THAT(info->installed, testing::Contains("hutch-probe==1.0"));
  std::ifstream script(info->path / "env/bin/hutch-probe");
  std::string first;
  std::getline(script, first);
  EXPECT_EQ(first, "#!/opt/hutch/env/bin/python");
  // Everybody may read it, and nothing names the directory in which it was built.
  EXPECT_EQ(fs::status(info->path / "manifest.toml").permissions() & fs::perms::others_read, fs::perms::others_read);
  const auto traces = run_command(
      {.argv = {"/bin/grep", "-rl", ".partial-", (info->path / "env/bin").string(), (info->path / "env/lib").string()},
       .environment = {}});
  ASSERT_TRUE(traces);
  EXPECT_EQ(traces->output, "");
  for (const auto& entry : tree_entries(store().directory(), "probe")) EXPECT_EQ(entry.kind, TreeEntry::Kind::tree);

  ASSERT_TRUE(remove_template(store(), "probe"));
  EXPECT_EQ(store().show("probe")->state, TemplateState::not_built);
  EXPECT_FALSE(fs::exists(info->path));
}

TEST_F(TemplateBuilderTest, AFailedBuildLeavesOnlyItsReason) {
  need_python_with_venv();
  if (IsSkipped() || HasFatalFailure()) return;
  define("probe", "packages = ['hutch-no-such-package']");
  const auto built = build_template(store(), "probe", offline());
  ASSERT_FALSE(built);
  EXPECT_THAT(built.error().message, testing::HasSubstr("hutch-no-such-package"));
  const auto info = store().show("probe");
  EXPECT_EQ(info->state, TemplateState::error);
  EXPECT_THAT(info->error, testing::HasSubstr("hutch-no-such-package"));
  const auto entries = tree_entries(store().directory(), "probe");
  ASSERT_EQ(entries.size(), 1U);
  EXPECT_EQ(entries[0].kind, TreeEntry::Kind::failure);
  ASSERT_TRUE(remove_template(store(), "probe"));
  EXPECT_EQ(store().show("probe")->state, TemplateState::not_built);
}

TEST_F(TemplateBuilderTest, TwoBuildsOfOneTemplateDoNotMeet) {
  define("probe", "packages = ['six']");
  fs::create_directories(store().directory());
  const UniqueFd lock{::open(store().lock_file("probe").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  struct flock whole{};
  whole.l_type = F_WRLCK;
  ASSERT_EQ(::fcntl(lock.get(), F_OFD_SETLK, &whole), 0);
  const auto second = build_template(store(), "probe", offline());
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, ErrorCode::already_exists);
}

TEST_F(TemplateBuilderTest, ATemplateWithoutPackagesNeedsNoBuild) {
  ASSERT_TRUE(build_template(store(), "bare", offline()));
  EXPECT_THAT(told_, testing::HasSubstr("nothing to build"));
  EXPECT_EQ(remove_template(store(), "bare").error().code, ErrorCode::not_found);
  EXPECT_EQ(remove_template(store(), "nope").error().code, ErrorCode::not_found);
  EXPECT_EQ(remove_template(store(), "../x").error().code, ErrorCode::invalid_argument);
}

TEST_F(TemplateBuilderTest, RemovingStaysInsideTheTree) {
  const auto outside = root_ / "outside";
  fs::create_directories(outside);
  std::ofstream(outside / "precious") << "x";
  const auto trees = store().directory();
  fs::create_directories(trees / "my-0123456789abcdef/env");
  fs::create_directories(trees / "my-tools-0123456789abcdef");
  fs::create_directory_symlink(outside, trees / "my-0123456789abcdef/env/link");
  fs::create_directory_symlink(outside, trees / "my-fedcba9876543210");
  ASSERT_TRUE(remove_template(store(), "my"));
  EXPECT_TRUE(fs::exists(outside / "precious"));
  EXPECT_FALSE(fs::exists(trees / "my-0123456789abcdef"));
  EXPECT_FALSE(fs::is_symlink(trees / "my-fedcba9876543210"));
  EXPECT_TRUE(fs::exists(trees / "my-tools-0123456789abcdef"));  // of another template
}

TEST(TemplateInstallerTest, WhatPipWasToldIsAlsoSaidToUv) {
  const auto environment = installer_environment(
      {"PATH=/bin", "PYTHONPATH=/x", "VIRTUAL_ENV=/y", "PIP_TARGET=/z", "HTTPS_PROXY=p", "PIP_CERT=/cert"},
      "global.index-url='https://index.invalid/simple'\n"
      "global.extra-index-url='\\nhttps://a.invalid\\nhttps://b.invalid'\n"
      "global.find-links='/nonexistent https://links.invalid /tmp'\nnonsense\n=\n");
  EXPECT_THAT(environment, testing::IsSupersetOf({"UV_DEFAULT_INDEX=https://index.invalid/simple",
                                                  "UV_INDEX=https://a.invalid https://b.invalid",
                                                  "UV_FIND_LINKS=https://links.invalid,/tmp", "SSL_CERT_FILE=/cert",
                                                  "HTTPS_PROXY=p", "PATH=/bin", "UV_PYTHON_DOWNLOADS=never"}));
  for (const auto& entry : environment) {
    EXPECT_FALSE(entry.starts_with("PYTHONPATH=") || entry.starts_with("VIRTUAL_ENV=") ||
                 entry.starts_with("PIP_TARGET="))
        << entry;
  }
}

TEST(TemplateInstallerTest, SettingsOfUvStay) {
  const auto environment = installer_environment({"UV_INDEX_URL=https://uv.invalid", "SSL_CERT_FILE=/mine"},
                                                 "global.index-url='https://pip.invalid'\nglobal.cert='/cert'\n");
  EXPECT_THAT(environment, testing::IsSupersetOf({"UV_INDEX_URL=https://uv.invalid", "SSL_CERT_FILE=/mine"}));
  EXPECT_THAT(environment, testing::Not(testing::Contains(testing::StartsWith("UV_DEFAULT_INDEX="))));
}

TEST(TemplateInstallerTest, KnowsTheSoundOfAMissingNetwork) {
  EXPECT_TRUE(tells_of_no_network("error: …\n  cause: dns error\n"));
  EXPECT_TRUE(tells_of_no_network("NewConnectionError: [Errno -3] Temporary failure in name resolution"));
  EXPECT_FALSE(tells_of_no_network("error: No solution found when resolving dependencies"));
}

}  // namespace
}  // namespace hutch
