#include "session/run.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <utility>
#include <vector>

#include "wire/codec.h"
#include "wire/fd_passing.h"
#include "wire/frame.h"

namespace hutch {
namespace {

namespace fs = std::filesystem;
using Program = Run;  // a test has a Run of its own

class SilentSink final : public RunSink {
 public:
  void on_output(wire::OutputEvent) override {}
  void on_file(CollectedFile file) override { files.push_back(std::move(file)); }
  void on_cell_done(wire::CellStatus, wire::Record) override {}

  std::vector<CollectedFile> files;
};

// A run between a keeper and a runner that say what a test has them say.
class RunTest : public testing::Test {
 protected:
  using Outcome = std::expected<wire::Record, StartFailure>;
  static constexpr auto kSoon = std::chrono::seconds(10);

  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "hutch-run-XXXXXX").string();
    workspace_ = ::mkdtemp(pattern.data());
    int sockets[2];
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
    keeper_.reset(sockets[1]);
    link_ = std::make_unique<KeeperLink>(context_.get_executor(), KeeperHandle{.socket = UniqueFd{sockets[0]}});
    pool_ = std::make_unique<ReadyPool>(context_.get_executor(), *link_, 1, PoolOptions{.most = 0});
    net::co_spawn(context_, link_->listen(), net::detached);
  }
  void TearDown() override {
    keeper_.reset();
    context_.restart();
    context_.run_for(kSoon);  // what is left of the run ends with its keeper
    fs::remove_all(workspace_);
  }

  std::shared_ptr<Program> execute(RunSpec spec) {
    int input[2];
    EXPECT_EQ(::pipe2(input, O_CLOEXEC), 0);
    spec.input.reset(input[0]);
    const UniqueFd closed{input[1]};
    auto run = std::make_shared<Program>(context_.get_executor(), *link_, *pool_, workers_, std::move(spec), sink_);
    const auto wait = [](RunTest& test, std::shared_ptr<Program> what) -> net::awaitable<void> {
      test.outcome_ = co_await what->execute();
    };
    net::co_spawn(context_, wait(*this, run), net::detached);
    context_.poll();
    return run;
  }

  // Keeps the workers from everything else of this owner until it is set.
  void occupy_workers(std::shared_future<void> until) {
    const auto work = [](RunTest& test, std::shared_future<void> end) -> net::awaitable<void> {
      co_await test.workers_.run(Workers::Owner{}, [end] {
        end.wait();
        return true;
      });
    };
    net::co_spawn(context_, work(*this, std::move(until)), net::detached);
    context_.poll();
  }

  template <class T>
  void say(KeeperReplyKind kind, const T& message, std::span<const int> fds = {}) {
    std::string packet(1, static_cast<char>(kind));
    packet += wire::encode(message);
    EXPECT_GT(wire::send_with_fds(keeper_.get(), packet, fds), 0);
  }

  // The keeper's: a workspace, three pipes and the runner's socket, whose other ends are ours.
  void start(std::span<const UniqueFd> handle = {}) {
    std::array<int, kStartedFds + kHandleFds> theirs{::open(workspace_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
    int ends[2];
    for (std::size_t stream = 1; stream <= 3; ++stream) {
      ASSERT_EQ(::pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
      const bool input = stream == 1;
      theirs[stream] = ends[input ? 1 : 0];
      streams_.emplace_back(ends[input ? 0 : 1]);
    }
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    theirs[4] = ends[0];
    runner_.reset(ends[1]);
    for (std::size_t i = 0; i < handle.size(); ++i) theirs[kStartedFds + i] = handle[i].get();
    say(KeeperReplyKind::started, StartedReply{.run = kNumber}, std::span(theirs).first(kStartedFds + handle.size()));
    for (std::size_t i = 0; i < kStartedFds; ++i) ::close(theirs[i]);
  }
  // One of its control group's.
  UniqueFd file_with(std::string_view text) const {
    UniqueFd file{::open((workspace_ / "handle").c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600)};
    fs::remove(workspace_ / "handle");
    EXPECT_EQ(::pwrite(file.get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    return file;
  }

  // Until the run has nothing left to do but to wait for the end of its program, which has no input.
  void runner_is_ready() {
    const std::string frame = wire::make_frame(wire::RunnerType::ready, wire::Ready{});
    ASSERT_EQ(::send(runner_.get(), frame.data(), frame.size(), 0), static_cast<ssize_t>(frame.size()));
    char byte = 0;
    ASSERT_TRUE(run_until([&] { return ::read(streams_[0].get(), &byte, 1) == 0; }));
  }
  // So much of what it is told, or all until the run hangs up.
  bool runner_hears(std::size_t most) {
    std::array<char, 64U << 10> piece;
    std::size_t heard = 0;
    return run_until([&] {
      const ssize_t size = ::recv(runner_.get(), piece.data(), piece.size(), MSG_DONTWAIT);
      heard += static_cast<std::size_t>(std::max<ssize_t>(size, 0));
      return size == 0 || heard >= most;
    });
  }
  bool run_hangs_up() { return runner_hears(~0UZ); }
  void runner_exits() {
    streams_.clear();
    ::shutdown(runner_.get(), SHUT_WR);
    say(KeeperReplyKind::exited, ExitedReply{.run = kNumber});
  }

  // False when it does not come to that.
  template <class Done>
  bool run_until(Done done) {
    const auto deadline = Clock::now() + kSoon;
    while (!done()) {
      if (Clock::now() > deadline) return false;
      context_.restart();
      context_.run_one_until(deadline);
    }
    return true;
  }
  bool ends() {
    return run_until([this] { return outcome_.has_value(); });
  }

  static constexpr std::uint64_t kNumber = 1;  // the first that the link gives
  net::io_context context_;
  fs::path workspace_;
  UniqueFd keeper_;
  UniqueFd runner_;
  std::vector<UniqueFd> streams_;
  std::unique_ptr<KeeperLink> link_;
  std::unique_ptr<ReadyPool> pool_;
  Workers workers_{context_.get_executor()};
  SilentSink sink_;
  std::optional<Outcome> outcome_;
};

TEST_F(RunTest, EndsWhenItsStartFailsAfterItsRunnerWasReady) {
  execute({.limits = {.wall = std::chrono::minutes(5)}});
  start();
  runner_is_ready();
  say(KeeperReplyKind::failed, FailedReply{.run = kNumber, .step = Step::join_namespaces, .message = "it died"});
  ASSERT_TRUE(ends());
  ASSERT_FALSE(*outcome_);
  EXPECT_EQ(outcome_->error().step, Step::join_namespaces);
  EXPECT_NE(outcome_->error().error.message.find("it died"), std::string::npos);
}

// The keeper has brought the group forward, so that it could die: whoever comes next says anew where it belongs.
TEST_F(RunTest, NobodyStandsBackWhenItsInterpreterIsGone) {
  const auto run = execute({.request = {.mode = wire::RunMode::shell}, .stand_back = true, .lasting = true});
  std::vector<UniqueFd> handle;
  for (const char* text : {"usage_usec 1\n", "4096\n", "0"}) handle.push_back(file_with(text));
  start(handle);
  runner_is_ready();
  const auto idle = [file = handle[2].get()] {
    char digit = 0;
    return ::pread(file, &digit, 1, 0) == 1 ? digit : '?';
  };
  EXPECT_EQ(idle(), '1');
  runner_exits();
  ASSERT_TRUE(ends());
  const CgroupHandle taken = run->take_handle();
  ASSERT_TRUE(taken);
  EXPECT_FALSE(taken.stands_back);
  EXPECT_EQ(idle(), '0');
}

TEST_F(RunTest, AFileThatIsStillHashedWhenItEndsIsNotTakenForAnother) {
  const std::string data(256U << 10, 'x');
  std::ofstream(workspace_ / "input.bin") << data;  // where the runner would put it
  std::promise<void> free;
  execute({.files = {{.path = "input.bin", .data = data}}, .limits = {.wall = std::chrono::minutes(5)}});
  occupy_workers(free.get_future().share());
  start();
  ASSERT_TRUE(runner_hears(data.size()));
  runner_is_ready();
  runner_exits();
  ASSERT_TRUE(run_hangs_up());  // from here on its files are looked at
  free.set_value();
  ASSERT_TRUE(ends());
  ASSERT_TRUE(*outcome_) << outcome_->error().error.message;
  EXPECT_TRUE(sink_.files.empty()) << "listed as changed: " << sink_.files.front().entry.path;
}

}  // namespace
}  // namespace hutch
