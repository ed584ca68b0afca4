#include "session/live_run.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>

namespace hutch {
namespace {

namespace fs = std::filesystem;

class LiveRunTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "hutch-live-run-XXXXXX").string();
    directory_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { fs::remove_all(directory_); }

  std::shared_ptr<LiveRun> make(Bytes cap, Bytes log = 1_MiB, std::size_t events = 100) {
    return std::make_shared<LiveRun>(context_.get_executor(), RunIdentity{.id = "exe_1", .key_id = "key_1"},
                                     RunCaps{.of_stream = cap, .log = log, .events = events, .directory = directory_});
  }
  static void print(LiveRun& run, std::string text, wire::Stream stream = wire::Stream::out) {
    run.add_output({.stream = stream, .data = std::move(text)});
  }
  static std::string read(const fs::path& path) {
    std::stringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }

  net::io_context context_;
  fs::path directory_;
};

TEST_F(LiveRunTest, KeepsOutputUpToTheCapAndPutsAllOfItIntoTheLog) {
  auto run = make(Bytes{10});
  print(*run, "0123456");
  EXPECT_FALSE(fs::exists(run->log_path(wire::Stream::out)));
  print(*run, "789abcdef");
  print(*run, "more");
  run->finish({});
  ASSERT_EQ(run->output().size(), 1U);
  EXPECT_EQ(run->output()[0].data, "0123456789");
  EXPECT_TRUE(run->record()->stdout_truncated);
  EXPECT_FALSE(run->record()->stderr_truncated);
  EXPECT_EQ(run->written(wire::Stream::out), 20U);
  EXPECT_EQ(read(run->log_path(wire::Stream::out)), "0123456789abcdefmore");
}

TEST_F(LiveRunTest, BoundsTheLogToo) {
  auto run = make(Bytes{4}, Bytes{8});
  print(*run, "0123456789");
  print(*run, "more");
  print(*run, "0123456", wire::Stream::err);  // all of it fits
  run->finish({});
  EXPECT_EQ(read(run->log_path(wire::Stream::out)), "01234567");
  EXPECT_EQ(run->written(wire::Stream::out), 14U);
  EXPECT_EQ(run->record()->notices,
            std::vector<std::string>{"the log of stdout is cut: it has the first 8 bytes of 14"});
}

TEST_F(LiveRunTest, BoundsTheNumberOfEvents) {
  auto run = make(1_MiB, 1_MiB, 3);
  for (int i = 0; i < 10; ++i) print(*run, "x");
  run->finish({});
  EXPECT_LE(run->events().last(), 6U);
  EXPECT_TRUE(run->record()->stdout_truncated);
  EXPECT_EQ(read(run->log_path(wire::Stream::out)), "xxxxxxxxxx");
}

TEST_F(LiveRunTest, NeverCutsACharacterBetweenTwoEvents) {
  auto run = make(1_MiB);
  print(*run, "a\xc3");
  print(*run,
        "\xa9"
        "b");
  run->finish({});
  std::string told;
  for (std::uint64_t i = run->events().first(); i <= run->events().last(); ++i) told += run->events().at(i).text;
  EXPECT_EQ(told,
            "a\xc3\xa9"
            "b");
}

TEST_F(LiveRunTest, StoresTheResultBeforeAnybodyHearsOfTheEnd) {
  auto run = make(1_MiB);
  std::uint64_t told_when_stored = 0;
  run->on_finished = [&](LiveRun& live) {
    EXPECT_EQ(live.stage(), RunStage::finished);
    told_when_stored = live.events().last();
  };
  run->queue(nullptr);
  run->start();
  run->finish({});
  EXPECT_EQ(run->events().last(), told_when_stored + 1);
  EXPECT_EQ(run->last_event, run->events().last());
  EXPECT_EQ(run->events().at(run->events().last()).type, EventType::finished);
  EXPECT_TRUE(run->events().closed());
}

TEST_F(LiveRunTest, TellsTheSessionsStreamTheSame) {
  EventStream session(context_.get_executor(), 1U << 20);
  auto run = make(1_MiB);
  run->queue(&session);
  run->start();
  print(*run, "hello");
  run->finish({});
  ASSERT_EQ(session.last(), run->events().last());
  EXPECT_EQ(session.at(3).text, "hello");
  EXPECT_FALSE(session.closed());
}

TEST_F(LiveRunTest, ASessionGoesOnBehindTheNumbersOfAnotherDaemon) {
  EventStream session(context_.get_executor(), 1U << 20);
  session.begin_after(100);
  EXPECT_EQ(session.last(), 100U);
  EXPECT_EQ(session.first(), 101U);
  auto run = make(1_MiB);
  run->queue(&session);
  EXPECT_EQ(session.at(101).type, EventType::queued);
  EXPECT_EQ(run->events().last(), 1U);
}

TEST_F(LiveRunTest, ListsCallsUntilTheyAreOverAndWakesWhoWaitsForOne) {
  auto run = make(1_MiB);
  run->queue(nullptr);
  run->start();
  bool woken = false;
  net::co_spawn(
      context_,
      [&]() -> net::awaitable<void> {
        woken = co_await run->wait_finished_or_called(Clock::now() + std::chrono::seconds(10));
      },
      net::detached);
  context_.poll();
  print(*run, "no call");
  context_.poll();
  EXPECT_FALSE(woken);
  for (const char* id : {"call_1", "call_2"}) {
    run->add_tool_call(std::make_shared<const PendingToolCall>(PendingToolCall{.call_id = id, .name = "search"}));
  }
  context_.poll();
  EXPECT_TRUE(woken);
  EXPECT_FALSE(run->answer_tool_call("call_1", true, "nobody takes it"));
  run->end_tool_call("call_1", ToolCallEnd::ok);
  run->end_tool_call("call_1", ToolCallEnd::ok);
  ASSERT_EQ(run->pending_tool_calls().size(), 1U);
  EXPECT_EQ(run->pending_tool_calls()[0]->call_id, "call_2");
  run->finish({});
  EXPECT_TRUE(run->pending_tool_calls().empty());
  const auto& last = run->events().at(run->events().last() - 1);
  EXPECT_EQ(last.type, EventType::tool_call_done);
  EXPECT_EQ(last.call_end, ToolCallEnd::cancelled);
}

TEST(EventStreamTest, DropsTheOldestWhenThereIsTooMuch) {
  net::io_context context;
  EventStream stream(context.get_executor(), 10 * sizeof(StreamEvent));
  for (int i = 0; i < 100; ++i) stream.append({.text = std::to_string(i)});
  EXPECT_EQ(stream.last(), 100U);
  EXPECT_GT(stream.first(), 80U);
  EXPECT_EQ(stream.at(100).text, "99");
}

TEST(EventStreamTest, WakesEveryReader) {
  net::io_context context;
  EventStream stream(context.get_executor(), 1U << 20);
  int woken = 0;
  for (int i = 0; i < 3; ++i) {
    net::co_spawn(
        context,
        [&]() -> net::awaitable<void> {
          co_await stream.wait_beyond(0, Clock::now() + std::chrono::seconds(10));
          ++woken;
        },
        net::detached);
  }
  context.poll();
  EXPECT_EQ(woken, 0);
  stream.append({});
  context.poll();
  EXPECT_EQ(woken, 3);
}

}  // namespace
}  // namespace hutch
