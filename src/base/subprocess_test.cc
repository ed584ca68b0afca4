#include "base/subprocess.h"

#include <fcntl.h>
#include <gtest/gtest.h>

#include "base/unique_fd.h"

namespace hutch {
namespace {

using namespace std::chrono_literals;

Command shell(std::string script) {
  return {.argv = {"/bin/sh", "-c", std::move(script)}, .environment = {"PATH=/usr/bin:/bin", "LC_ALL=C"}};
}

TEST(SubprocessTest, KeepsBothStreamsAndTheExitCode) {
  const auto done = run_command(shell("echo out; echo err >&2; exit 3"));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->output, "out\n");
  EXPECT_EQ(done->errors, "err\n");
  EXPECT_EQ(done->exit_code, 3);
}

TEST(SubprocessTest, AnExitCodeIsAnErrorWithTheLastLinesWhenChecked) {
  const auto done = run_checked(shell("echo no such thing >&2; exit 3"));
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::system);
  EXPECT_NE(done.error().message.find("exit code 3:\nno such thing"), std::string::npos) << done.error().message;
}

TEST(SubprocessTest, ArgumentsAreNotInterpreted) {
  const auto done = run_command({.argv = {"/bin/echo", "$HOME", "; rm -rf x", "a  b"}, .environment = {}});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->output, "$HOME ; rm -rf x a  b\n");
}

TEST(SubprocessTest, TheEnvironmentIsOnlyWhatWasGiven) {
  const auto done = run_command({.argv = {"/usr/bin/env"}, .environment = {"ONLY=this"}});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->output, "ONLY=this\n");
}

TEST(SubprocessTest, NoDescriptorOfOursIsInherited) {
  const UniqueFd leak{::open("/dev/null", O_RDONLY)};  // deliberately without close-on-exec
  ASSERT_TRUE(leak);
  const auto done = run_command(shell("test -e /proc/self/fd/" + std::to_string(leak.get()) + " && echo leaked; true"));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->output, "");
}

TEST(SubprocessTest, StandardInputIsEmpty) {
  const auto done = run_command({.argv = {"/bin/cat"}, .environment = {}, .timeout = 20s});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->output, "");
}

TEST(SubprocessTest, IsKilledAtItsDeadline) {
  const auto started = std::chrono::steady_clock::now();
  const auto done = run_command({.argv = {"/bin/sleep", "600"}, .environment = {}, .timeout = 50ms});
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ErrorCode::timed_out);
  EXPECT_LT(std::chrono::steady_clock::now() - started, 60s);
}

TEST(SubprocessTest, ADescendantThatHoldsThePipesDoesNotHoldUpTheResult) {
  auto command = shell("sleep 30 & echo $!");
  const auto done = run_command(command);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->exit_code, 0);
  ::kill(std::stoi(done->output), SIGKILL);
}

TEST(SubprocessTest, ASignalIsAnExitCodeAbove128) {
  const auto done = run_command(shell("kill -TERM $$"));
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->exit_code, 128 + 15);
}

TEST(SubprocessTest, LinesArriveWholeWhateverEndsThem) {
  auto command = shell("printf 'one\\ntwo\\rthr'; printf 'ee'");
  std::vector<std::string> lines;
  command.on_line = [&lines](std::string_view line) { lines.emplace_back(line); };
  ASSERT_TRUE(run_command(command));
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "two", "three"}));
}

TEST(SubprocessTest, AFloodIsCutToItsLastBytes) {
  auto command = shell("head -c 3000000 /dev/zero; printf end");
  command.capture = Bytes{1000};
  const auto done = run_command(command);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->output.size(), 1000U);
  EXPECT_TRUE(done->output.ends_with("end"));
}

TEST(SubprocessTest, AProgramThatIsNotThereIsAnErrorAndSoIsARelativePath) {
  const auto missing = run_command({.argv = {"/nonexistent/program"}, .environment = {}});
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error().system_errno, ENOENT);
  const auto relative = run_command({.argv = {"sh", "-c", "true"}, .environment = {}});
  ASSERT_FALSE(relative);
  EXPECT_EQ(relative.error().code, ErrorCode::internal);
}

TEST(SubprocessTest, RunsInTheDirectoryItIsGiven) {
  const auto done = run_command({.argv = {"/bin/pwd"}, .environment = {}, .directory = "/usr"});
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(done->output, "/usr\n");
}

}  // namespace
}  // namespace hutch
