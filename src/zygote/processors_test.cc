#include "zygote/processors.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>

namespace hutch {
namespace {

cpu_set_t ours() {
  cpu_set_t set{};
  ::sched_getaffinity(0, sizeof set, &set);
  return set;
}

// What a process has after it was given a place, which it keeps for good: one of its own for each.
cpu_set_t given(const Processors& processors, Place place) {
  int pipe[2];
  EXPECT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    processors.move(0, Place::others);  // wherever it was before
    processors.move(0, place);
    const cpu_set_t mine = ours();
    ::_exit(::write(pipe[1], &mine, sizeof mine) == sizeof mine ? 0 : 1);
  }
  ::close(pipe[1]);
  cpu_set_t set{};
  EXPECT_EQ(::read(pipe[0], &set, sizeof set), static_cast<ssize_t>(sizeof set));
  ::close(pipe[0]);
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
  return set;
}

TEST(Processors, SparesAQuarterAndLeavesTheOthers) {
  const cpu_set_t all = ours();
  if (CPU_COUNT(&all) < 2) GTEST_SKIP() << "no second processor";
  const Processors processors;
  const cpu_set_t spared = given(processors, Place::spared);
  const cpu_set_t others = given(processors, Place::others);
  EXPECT_EQ(CPU_COUNT(&spared), std::max(CPU_COUNT(&all) / 4, 1));
  cpu_set_t both{};
  CPU_AND(&both, &spared, &others);
  EXPECT_EQ(CPU_COUNT(&both), 0);
  CPU_OR(&both, &spared, &others);
  EXPECT_TRUE(CPU_EQUAL(&both, &all));
  const cpu_set_t anywhere = given(processors, Place::anywhere);
  EXPECT_TRUE(CPU_EQUAL(&anywhere, &all));
}

TEST(Processors, LeavesAProcessWhereItPutItself) {
  const cpu_set_t all = ours();
  if (CPU_COUNT(&all) < 3) GTEST_SKIP() << "no third processor";
  const Processors processors;
  const pid_t child = ::fork();
  if (child == 0) {
    cpu_set_t own{};
    int last = CPU_SETSIZE - 1;
    while (!CPU_ISSET(static_cast<std::size_t>(last), &all)) --last;
    CPU_SET(static_cast<std::size_t>(last), &own);  // one of the others only
    ::sched_setaffinity(0, sizeof own, &own);
    processors.move(0, Place::spared);
    const cpu_set_t mine = ours();
    ::_exit(CPU_EQUAL(&mine, &own) ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

TEST(Processors, AreSparedOnlyWhereThereIsASecond) {
  Processors processors;
  EXPECT_FALSE(processors.some_are_spared());
  processors.spare_some(true);
  const cpu_set_t all = ours();
  EXPECT_EQ(processors.some_are_spared(), CPU_COUNT(&all) > 1);
  processors.spare_some(false);
  EXPECT_FALSE(processors.some_are_spared());
}

}  // namespace
}  // namespace hutch
