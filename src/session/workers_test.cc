#include "session/workers.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <iterator>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace hutch {
namespace {

class WorkersTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(workers_.start()); }

  template <class Work>
  void ask(Workers::Owner owner, Work work) {
    const auto task = [](WorkersTest& test, Workers::Owner whose, Work what) -> net::awaitable<void> {
      test.done_.push_back(co_await test.workers_.run(whose, std::move(what)));
      test.came_back_on_ = std::this_thread::get_id();
    };
    net::co_spawn(context_, task(*this, owner, std::move(work)), [](const std::exception_ptr& thrown) {
      if (thrown) std::rethrow_exception(thrown);
    });
    context_.poll();
  }

  net::io_context context_;
  Workers workers_{context_.get_executor()};
  std::vector<std::string> done_;
  std::thread::id came_back_on_;
};

TEST_F(WorkersTest, WorksElsewhereAndComesHome) {
  std::thread::id there;
  ask(1, [&there] {
    there = std::this_thread::get_id();
    return std::string("done");
  });
  context_.run();
  EXPECT_EQ(done_, (std::vector<std::string>{"done"}));
  EXPECT_NE(there, std::this_thread::get_id());
  EXPECT_EQ(came_back_on_, std::this_thread::get_id());
}

TEST_F(WorkersTest, ThreadsAreThereBeforeAnybodyNeedsThem) {
  const auto threads = [] {
    const std::filesystem::directory_iterator all("/proc/self/task");
    return std::distance(begin(all), end(all));
  };
  const auto before = threads();
  EXPECT_GE(before, 3);
  ask(1, [] { return std::string("done"); });
  context_.run();
  EXPECT_EQ(threads(), before);
}

TEST(Workers, SayThatThereAreNoThreads) {
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "a sanitizer's shadow does not fit into a limit of address space";
#endif
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);  // it is not to wait for ever
    pthread_attr_t wide;
    ::pthread_attr_init(&wide);
    ::pthread_attr_setstacksize(&wide, 8UL << 30);
    ::pthread_setattr_default_np(&wide);
    const rlimit room_for_one{12UL << 30, 12UL << 30};
    ::setrlimit(RLIMIT_AS, &room_for_one);
    net::io_context context;
    Workers workers(context.get_executor());
    ::_exit(workers.start() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST_F(WorkersTest, WhoHasMuchToDoKeepsNobodyElseWaiting) {
  std::latch others_done(1);
  for (const char* name : {"a1", "a2", "a3"}) {
    ask(1, [name, &others_done] {
      others_done.wait();  // as long as it takes
      return std::string(name);
    });
  }
  ask(2, [] { return std::string("b1"); });
  ask(2, [&others_done] {
    others_done.count_down();
    return std::string("b2");
  });
  context_.run();
  ASSERT_EQ(done_.size(), 5U);
  EXPECT_EQ(done_.front(), "b1");
}

// With the other thread taken up until the end, there is one order only, however the machine schedules.
TEST_F(WorkersTest, OwnersTakeTurns) {
  std::latch all_asked(1);
  std::latch all_done(1);
  const auto hold = [](std::latch& until) {
    return [&until] {
      until.wait();
      return std::string("held");
    };
  };
  ask(1, hold(all_asked));
  ask(2, hold(all_done));
  for (const char* name : {"a1", "a2"}) {
    ask(1, [name] { return std::string(name); });
  }
  ask(3, [] { return std::string("c1"); });
  ask(3, [] { return std::string("c2"); });
  ask(1, [&all_done] {
    all_done.count_down();  // from here on there are two at work
    return std::string("a3");
  });
  all_asked.count_down();
  context_.run();
  ASSERT_EQ(done_.size(), 7U);
  done_.resize(5);
  EXPECT_EQ(done_, (std::vector<std::string>{"held", "c1", "a1", "c2", "a2"}));
}

TEST_F(WorkersTest, WhatIsThrownArrivesAtHomeAndEndsNothing) {
  std::string caught;
  std::thread::id caught_on;
  const auto task = [](Workers& workers, std::string& said, std::thread::id& on) -> net::awaitable<void> {
    try {
      co_await workers.run(1, []() -> int { throw std::runtime_error("no memory"); });
    } catch (const std::runtime_error& thrown) {
      said = thrown.what();
      on = std::this_thread::get_id();
    }
  };
  net::co_spawn(context_, task(workers_, caught, caught_on), net::detached);
  context_.run();
  EXPECT_EQ(caught, "no memory");
  EXPECT_EQ(caught_on, std::this_thread::get_id());
  context_.restart();
  ask(1, [] { return std::string("next"); });
  context_.run();
  EXPECT_EQ(done_, (std::vector<std::string>{"next"}));
}

}  // namespace
}  // namespace hutch
