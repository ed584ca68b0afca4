#include "session/admission.h"

#include <gtest/gtest.h>

#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <string>
#include <thread>
#include <vector>

namespace hutch {
namespace {

using std::chrono::milliseconds;

class AdmissionTest : public testing::Test {
 protected:
  void ask(Admission& admission, Admission::Owner owner, const std::string& name) {
    const auto task = [](Admission& where, Admission::Owner whose, std::string what,
                         std::vector<std::string>& log) -> net::awaitable<void> {
      Admission::Turn turn(co_await net::this_coro::executor);
      log.push_back(co_await where.enter(whose, turn) ? what : "no " + what);
    };
    net::co_spawn(context_, task(admission, owner, name, log_), net::detached);
    settle();
  }
  void leave(Admission& admission, milliseconds took = milliseconds(10), Admission::Owner owner = 1) {
    admission.leave(owner, took);
    settle();
  }
  void settle() {
    context_.restart();
    context_.poll();
  }
  using Names = std::vector<std::string>;

  net::io_context context_;
  Names log_;
};

TEST_F(AdmissionTest, AdmitsUpToItsLimitAndThenInOrder) {
  Admission admission(context_.get_executor(), {.most_running = 2, .most_waiting = 10, .backlog = 0});
  for (const char* name : {"a", "b", "c", "d"}) ask(admission, 1, name);
  EXPECT_EQ(log_, (Names{"a", "b"}));
  EXPECT_EQ(admission.running(), 2U);
  EXPECT_EQ(admission.waiting(), 2U);
  leave(admission);
  EXPECT_EQ(log_, (Names{"a", "b", "c"}));
  leave(admission);
  leave(admission);
  leave(admission);
  EXPECT_EQ(log_, (Names{"a", "b", "c", "d"}));
  EXPECT_EQ(admission.running(), 0U);
  EXPECT_EQ(admission.waiting(), 0U);
}

TEST_F(AdmissionTest, OwnersTakeTurns) {
  Admission admission(context_.get_executor(), {.most_running = 1, .most_waiting = 10, .backlog = 0});
  for (const char* name : {"a1", "a2", "a3", "a4"}) ask(admission, 1, name);
  ask(admission, 2, "b1");
  ask(admission, 2, "b2");
  ask(admission, 3, "c1");
  for (int i = 0; i < 6; ++i) leave(admission);
  EXPECT_EQ(log_, (Names{"a1", "a2", "b1", "c1", "a3", "b2", "a4"}));
}

TEST_F(AdmissionTest, AnOwnerWithNothingRunningHasTheReserve) {
  Admission admission(context_.get_executor(), {.most_running = 2, .most_waiting = 10, .backlog = 0, .reserve = 1});
  for (const char* name : {"a1", "a2", "a3"}) ask(admission, 1, name);
  EXPECT_EQ(log_, (Names{"a1", "a2"}));
  ask(admission, 2, "b1");
  ask(admission, 2, "b2");
  ask(admission, 3, "c1");
  EXPECT_EQ(log_, (Names{"a1", "a2", "b1"}));
  leave(admission, milliseconds(10), 2);  // c1 has nothing running; a3 and b2 wait for an ordinary place
  EXPECT_EQ(log_, (Names{"a1", "a2", "b1", "b2"}));
  leave(admission, milliseconds(10), 2);
  EXPECT_EQ(log_, (Names{"a1", "a2", "b1", "b2", "c1"}));
  leave(admission, milliseconds(10), 1);
  EXPECT_EQ(admission.running(), 2U);
}

TEST_F(AdmissionTest, WhoeverHadManyPlacesOfLateHasNoReserve) {
  constexpr milliseconds kLately{100};
  Admission admission(context_.get_executor(),
                      {.most_running = 1, .most_waiting = 10, .backlog = 0, .reserve = 2, .lately = kLately});
  ask(admission, 1, "a1");
  std::this_thread::sleep_for(2 * kLately);
  ask(admission, 2, "b1");
  leave(admission, milliseconds(1), 2);
  leave(admission, milliseconds(60), 1);
  ask(admission, 3, "c1");  // all ordinary places are taken
  ask(admission, 1, "a2");  // one who filled them until now
  ask(admission, 2, "b2");  // one who hardly did
  EXPECT_EQ(log_, (Names{"a1", "b1", "c1", "b2"}));
  EXPECT_EQ(admission.waiting(), 1U);
  std::this_thread::sleep_for(6 * kLately);  // it is forgotten
  leave(admission, milliseconds(1), 2);
  EXPECT_EQ(log_, (Names{"a1", "b1", "c1", "b2", "a2"}));
}

TEST_F(AdmissionTest, RefusesWhenTooManyWait) {
  Admission admission(context_.get_executor(), {.most_running = 1, .most_waiting = 1, .backlog = 0});
  for (const char* name : {"a", "b", "c"}) ask(admission, 1, name);
  EXPECT_EQ(log_, (Names{"a", "no c"}));
  leave(admission);
  ask(admission, 1, "d");
  EXPECT_EQ(log_, (Names{"a", "no c", "b"}));
  EXPECT_EQ(admission.waiting(), 1U);
}

TEST_F(AdmissionTest, WhoeverIsServedAlreadyWaitsInsteadOfBeingRefused) {
  Admission admission(context_.get_executor(), {.most_running = 1, .most_waiting = 0, .backlog = 0});
  EXPECT_TRUE(admission.try_enter(1));
  EXPECT_FALSE(admission.try_enter(1));
  bool in = false;
  const auto task = [](Admission& where, bool& done) -> net::awaitable<void> {
    Admission::Turn turn(co_await net::this_coro::executor);
    done = co_await where.enter_again(1, turn);
  };
  net::co_spawn(context_, task(admission, in), net::detached);
  settle();
  EXPECT_FALSE(in);
  leave(admission);
  EXPECT_TRUE(in);
}

TEST_F(AdmissionTest, ItIsKnownThatSomebodyWhoAsksForLittlePassesThoseWhoWait) {
  Admission admission(context_.get_executor(), {.most_running = 1, .most_waiting = 10, .backlog = 0, .reserve = 1});
  ask(admission, 1, "a");
  EXPECT_FALSE(admission.some_ask_for_little()) << "nobody waits";
  ask(admission, 1, "b");
  EXPECT_FALSE(admission.some_ask_for_little()) << "only the many are here";
  ask(admission, 2, "c");
  EXPECT_EQ(log_, (Names{"a", "c"}));
  EXPECT_TRUE(admission.some_ask_for_little());
}

TEST_F(AdmissionTest, WhoeverGivesUpWaitsNoLonger) {
  Admission admission(context_.get_executor(), {.most_running = 1, .most_waiting = 10, .backlog = 0});
  Admission::Turn turn(context_.get_executor());
  const auto task = [](Admission& where, Admission::Turn& mine, Names& log) -> net::awaitable<void> {
    log.push_back(co_await where.enter(1, mine) ? "in" : "gave up");
  };
  ask(admission, 1, "a");
  net::co_spawn(context_, task(admission, turn, log_), net::detached);
  ask(admission, 1, "b");
  admission.give_up(turn);
  settle();
  EXPECT_EQ(log_, (Names{"a", "gave up"}));
  EXPECT_EQ(admission.waiting(), 1U);
  leave(admission);
  admission.give_up(turn);  // too late, and harmless
  EXPECT_EQ(log_, (Names{"a", "gave up", "b"}));
  EXPECT_EQ(admission.running(), 1U);
}

TEST_F(AdmissionTest, ManyDyingSandboxesTakePlaces) {
  Admission admission(context_.get_executor(), {.most_running = 2, .most_waiting = 10, .backlog = 4});
  admission.note_dying(4);
  ask(admission, 1, "a");
  admission.note_dying(5);
  ask(admission, 1, "b");
  EXPECT_EQ(log_, (Names{"a"}));
  admission.note_dying(4);
  settle();
  EXPECT_EQ(log_, (Names{"a", "b"}));
}

TEST_F(AdmissionTest, TellsWhenToComeBackFromHowLongRunsTook) {
  Admission admission(context_.get_executor(), {.most_running = 1, .most_waiting = 100, .backlog = 0});
  for (int i = 0; i < 100; ++i) {
    ask(admission, 1, "long");
    leave(admission, milliseconds(2000));
  }
  const auto alone = admission.retry_after();
  EXPECT_GT(alone, milliseconds(1500));
  EXPECT_LE(alone, milliseconds(2000));
  for (int i = 0; i < 4; ++i) ask(admission, 1, "waits");
  EXPECT_GT(admission.retry_after(), 3 * alone);
  for (int i = 0; i < 90; ++i) ask(admission, 1, "waits");
  EXPECT_LE(admission.retry_after(), milliseconds(30'000));
}

}  // namespace
}  // namespace hutch
