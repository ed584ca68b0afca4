// Control groups as the kernel of this machine has them, of whichever version. Each test works in a place of its own
// that is gone afterwards.
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "sandbox/cgroup.h"
#include "sandbox/cgroup_files.h"
#include "sandbox/kernel.h"

// Skips, or fails where the tests must run, naming what the host lacks.
#define HUTCH_LACKING(what)                                                                \
  do {                                                                                     \
    if (::getenv("HUTCH_TESTS_MUST_RUN") != nullptr) FAIL() << "this host lacks " << what; \
    GTEST_SKIP() << "this host lacks " << what;                                            \
  } while (false)

namespace hutch {
namespace {

namespace fs = std::filesystem;
namespace internal = cgroup_internal;

std::string read_line(const fs::path& path) {
  std::string line;
  std::getline(std::ifstream(path) >> std::ws, line);
  return line;
}

// A pipe on which one side waits for the other: a byte, or the end.
struct Signal {
  UniqueFd read_end, write_end;
  Signal() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) ::abort();
    read_end.reset(ends[0]);
    write_end.reset(ends[1]);
  }
  void give() const { (void)!::write(write_end.get(), "x", 1); }
  void wait() {
    char byte = 0;
    (void)!::read(read_end.get(), &byte, 1);
  }
};

template <class Body>
pid_t start_child(Body body) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  body();
  ::_exit(0);
}

int wait_for(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  return status;
}

// In a child: goes into the group by the descriptors it was given, as a runner does.
bool enter(const Cgroup& group, CgroupVersion version) {
  for (const UniqueFd& fd : group.attach_fds()) {
    if (version == CgroupVersion::v1) {
      if (::write(fd.get(), "0", 1) != 1) return false;
    } else if (!internal::write_file(fd.get(), "cgroup.procs", "0")) {
      return false;
    }
  }
  return true;
}

void touch(std::size_t bytes) {
  void* memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) ::_exit(9);
  for (std::size_t i = 0; i < bytes; i += 4096) static_cast<volatile char*>(memory)[i] = 1;
}

void burn_cpu() {
  timespec used{};
  do {
    ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  } while (used.tv_nsec < 20'000'000 && used.tv_sec == 0);
}

class RealCgroup : public testing::Test {
 protected:
  void SetUp() override {
    ::prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans of a killed child are reaped here
    auto search = CgroupSearch::of_this_process();
    ASSERT_TRUE(search) << search.error().message;
    search->place = "hutch-test-" + std::to_string(::getpid());
    mounts_ = internal::parse_mounts(search->mounts_text);
    auto root = CgroupRoot::open(*search);
    if (!root) HUTCH_LACKING("a usable control group: " << root.error().message);
    version_ = root->version();
    root_ = std::make_unique<CgroupRoot>(std::move(*root));
    for (const auto& mount : mounts_) {
      const fs::path path = fs::path(mount.point) / search->place;
      if (fs::exists(path)) places_.push_back(path);
    }
  }
  void TearDown() override {
    root_.reset();
    while (::waitpid(-1, nullptr, WNOHANG) > 0) continue;
    for (const fs::path& place : places_) EXPECT_EQ(::rmdir(place.c_str()), 0) << place << ": " << ::strerror(errno);
  }

  // Any of the directories that has the file: v1 has several places, v2 one.
  fs::path find(const std::string& name, const std::string& file) const {
    for (const fs::path& place : places_) {
      if (fs::exists(place / name / file)) return place / name / file;
    }
    return {};
  }
  std::string limit(const std::string& group, const char* v1, const char* v2) const {
    return read_line(find(group, version_ == CgroupVersion::v1 ? v1 : v2));
  }
  std::string name(std::uint64_t id) const {
    const UniqueFd proc{::open("/proc", O_PATH | O_CLOEXEC)};
    return internal::name_prefix(*internal::this_maker(proc.get())) + std::to_string(id);
  }

  std::vector<internal::Mount> mounts_;
  std::unique_ptr<CgroupRoot> root_;
  std::vector<fs::path> places_;
  CgroupVersion version_ = CgroupVersion::v1;
};

TEST_F(RealCgroup, LimitsCanBeLoweredAndRaised) {
  auto group = root_->create(1);
  ASSERT_TRUE(group) << group.error().message;
  for (const std::uint64_t mebibytes : {256U, 64U, 512U}) {
    const auto applied = group->apply({.memory = Bytes{mebibytes << 20}, .cpu_percent = 50, .processes = 10});
    ASSERT_TRUE(applied) << applied.error().message;
    EXPECT_EQ(limit(name(1), "memory.limit_in_bytes", "memory.max"), std::to_string(mebibytes << 20));
    if (!find(name(1), "memory.memsw.limit_in_bytes").empty()) {
      EXPECT_EQ(limit(name(1), "memory.memsw.limit_in_bytes", ""), std::to_string(mebibytes << 20));
    }
  }
  EXPECT_EQ(limit(name(1), "cpu.cfs_quota_us", "cpu.max"), version_ == CgroupVersion::v1 ? "50000" : "50000 100000");
  EXPECT_EQ(limit(name(1), "pids.max", "pids.max"), "11");
  const auto again = root_->create(1);
  ASSERT_FALSE(again);
  EXPECT_EQ(again.error().system_errno, EEXIST);
  EXPECT_TRUE(group->apply({}));  // the failed twin has taken nothing away
  const auto gone = group->destroy();
  EXPECT_TRUE(gone) << gone.error().message;
  EXPECT_TRUE(find(name(1), "tasks").empty());
}

TEST_F(RealCgroup, WhoHasTheHandleSaysWhoStandsBack) {
  auto group = root_->create(8);
  ASSERT_TRUE(group) << group.error().message;
  group->stand_back();
  EXPECT_EQ(limit(name(8), "cpu.idle", "cpu.idle"), "1");
  CgroupHandle handle = group->take_handle();
  if (!handle) HUTCH_LACKING("all that a handle has");
  EXPECT_TRUE(handle.stands_back);
  EXPECT_TRUE(handle.read());
  handle.stand_back(false);
  EXPECT_EQ(limit(name(8), "cpu.idle", "cpu.idle"), "0");
  EXPECT_EQ(limit(name(8), "cpu.shares", "cpu.weight"), version_ == CgroupVersion::v1 ? "1024" : "100");
  handle.stand_back(true);
  group->unthrottle();  // it is to die, and at once
  EXPECT_EQ(limit(name(8), "cpu.idle", "cpu.idle"), "0");
  EXPECT_FALSE(group->take_handle());
}

TEST_F(RealCgroup, AChildThatEntersByItselfIsAccounted) {
  auto group = root_->create(2);
  ASSERT_TRUE(group) << group.error().message;
  ASSERT_TRUE(group->apply({}));
  const auto before = group->usage();
  ASSERT_TRUE(before) << before.error().message;
  const pid_t child = start_child([&] {
    if (!enter(*group, version_)) ::_exit(1);
    touch(8U << 20);
    burn_cpu();
  });
  EXPECT_EQ(wait_for(child), 0);
  const auto after = group->usage();
  ASSERT_TRUE(after) << after.error().message;
  EXPECT_GE(after->cpu_us, before->cpu_us + 15'000);
  EXPECT_GE(after->peak_memory, 8U << 20);
  EXPECT_EQ(after->oom_kills, 0U);
  group->close_attach_fds();
  EXPECT_TRUE(group->attach_fds().empty());
}

TEST_F(RealCgroup, TooMuchMemoryIsKilledAndCounted) {
  auto group = root_->create(3);
  ASSERT_TRUE(group) << group.error().message;
  ASSERT_TRUE(group->apply({.memory = 16_MiB}));
  const pid_t child = start_child([&] {
    if (!enter(*group, version_)) ::_exit(1);
    touch(64U << 20);
  });
  const int status = wait_for(child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  const auto usage = group->usage();
  ASSERT_TRUE(usage) << usage.error().message;
  EXPECT_GE(usage->oom_kills, 1U);
  EXPECT_LE(usage->peak_memory, 16U << 20);
}

TEST_F(RealCgroup, TooManyProcessesAreRefusedAndCounted) {
  auto group = root_->create(4);
  ASSERT_TRUE(group) << group.error().message;
  ASSERT_TRUE(group->apply({.processes = 2}));
  const pid_t child = start_child([&] {
    if (!enter(*group, version_)) ::_exit(1);
    for (int made = 0; made < 10; ++made) {
      const pid_t one = ::fork();
      if (one < 0) ::_exit(errno == EAGAIN ? 40 + made : 2);
      if (one == 0) ::pause();
    }
  });
  EXPECT_EQ(WEXITSTATUS(wait_for(child)), 42);  // itself in the place of init, and two more
  const auto usage = group->usage();
  ASSERT_TRUE(usage) << usage.error().message;
  EXPECT_GE(usage->process_limit_hits, 1U);
  group->kill_all();
  while (::wait(nullptr) > 0) continue;
}

void* pause_for_ever(void* ready) {
  static_cast<Signal*>(ready)->give();
  for (;;) ::pause();
}

TEST_F(RealCgroup, NobodyIsBornWhileItIsEmptied) {
  auto group = root_->create(9);
  ASSERT_TRUE(group) << group.error().message;
  ASSERT_TRUE(group->apply({.cpu_percent = 50, .processes = 20}));
  Signal stopped;
  Signal refused;
  Signal restored;
  const pid_t child = start_child([&] {
    if (!enter(*group, version_)) ::_exit(1);
    stopped.wait();
    if (::fork() >= 0 || errno != EAGAIN) ::_exit(2);
    refused.give();
    restored.wait();
    const pid_t born = ::fork();
    if (born == 0) ::_exit(0);
    ::_exit(born > 0 ? 3 : 4);
  });
  group->unthrottle();
  group->stop_forks();
  stopped.give();
  refused.wait();
  EXPECT_TRUE(group->kill_all_but(std::array{child}));
  const auto again = group->restore();
  ASSERT_TRUE(again) << again.error().message;
  restored.give();
  EXPECT_EQ(WEXITSTATUS(wait_for(child)), 3);
  while (::wait(nullptr) > 0) continue;
}

TEST_F(RealCgroup, ThreadsOfWhoIsSparedAreSparedAndTheOthersDie) {
  auto group = root_->create(10);
  ASSERT_TRUE(group) << group.error().message;
  Signal ready;
  Signal end;
  const pid_t child = start_child([&] {
    if (!enter(*group, version_)) ::_exit(1);
    pthread_t thread;
    ::pthread_create(&thread, nullptr, pause_for_ever, &ready);
    if (::fork() == 0) {
      ready.give();
      for (;;) ::pause();
    }
    end.wait();
    int status = 0;
    ::wait(&status);
    ::_exit(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL ? 7 : 8);
  });
  ready.wait();
  ready.wait();
  while (!group->kill_all_but(std::array{child})) ::usleep(1'000);
  end.give();
  EXPECT_EQ(WEXITSTATUS(wait_for(child)), 7);
}

TEST_F(RealCgroup, KillAllReachesAFamilyAndAProcessWhoseFirstThreadIsGone) {
  auto group = root_->create(5);
  ASSERT_TRUE(group) << group.error().message;
  Signal start;
  Signal ready;
  const pid_t child = start_child([&] {
    start.wait();
    for (int i = 0; i < 3; ++i) {
      if (::fork() == 0) {
        ready.give();
        for (;;) ::pause();
      }
    }
    pthread_t thread;
    ::pthread_create(&thread, nullptr, pause_for_ever, &ready);
    ::syscall(SYS_exit, 0);
  });
  const auto attached = group->attach(child);
  ASSERT_TRUE(attached) << attached.error().message;
  start.give();
  for (int i = 0; i < 4; ++i) ready.wait();
  const auto busy = group->destroy();
  ASSERT_FALSE(busy);
  EXPECT_EQ(busy.error().system_errno, EBUSY);

  group->kill_all();
  const int status = wait_for(child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  while (::wait(nullptr) > 0) continue;
  const auto gone = group->destroy();
  EXPECT_TRUE(gone) << gone.error().message;
}

TEST_F(RealCgroup, WorksAfterTheMountsAreGone) {
  const pid_t child = start_child([&] {
    if (::unshare(CLONE_NEWNS) != 0) ::_exit(77);
    if (::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) ::_exit(2);
    if (::mount("tmpfs", "/sys", "tmpfs", 0, nullptr) != 0 || ::mount("tmpfs", "/proc", "tmpfs", 0, nullptr)) {
      ::_exit(3);
    }
    auto group = root_->create(6);
    if (!group || !group->apply({}) || !group->attach(::getpid()) || !group->usage()) ::_exit(4);
    root_->sweep();
  });
  const int status = wait_for(child);
  if (WEXITSTATUS(status) == 77) HUTCH_LACKING("permission to make a mount namespace");
  EXPECT_EQ(status, 0) << WEXITSTATUS(status);
  for (const fs::path& place : places_) ::rmdir((place / name(6)).c_str());  // its own member cannot have removed it
}

TEST_F(RealCgroup, SweepRemovesOnlyEmptyGroupsOfTheDead) {
  const UniqueFd proc{::open("/proc", O_PATH | O_CLOEXEC)};
  const auto self = internal::this_maker(proc.get());
  ASSERT_TRUE(self) << self.error().message;
  const pid_t dead = start_child([] {});
  wait_for(dead);
  auto named = [&](internal::Maker maker, const char* id) { return internal::name_prefix(maker) + id; };
  internal::Maker exited = *self, reused = *self, elsewhere = *self;
  exited.pid = dead;
  reused.start_time += 1;
  elsewhere.pid_namespace += 1;
  elsewhere.pid = dead;
  const std::vector<std::string> stays = {named(*self, "1"), named(elsewhere, "1"), named(exited, "7"), "box-other"};
  const std::vector<std::string> goes = {named(exited, "1"), named(reused, "2")};
  for (const fs::path& place : places_) {
    for (const auto& group : stays) fs::create_directory(place / group);
    for (const auto& group : goes) fs::create_directory(place / group);
  }
  Signal hold;
  const pid_t orphan = start_child([&] { hold.wait(); });
  const char* list = version_ == CgroupVersion::v1 ? "tasks" : "cgroup.procs";
  for (const fs::path& place : places_) std::ofstream(place / named(exited, "7") / list) << orphan;

  root_->sweep();
  for (const fs::path& place : places_) {
    for (const auto& group : stays) EXPECT_TRUE(fs::exists(place / group)) << group;
    for (const auto& group : goes) EXPECT_FALSE(fs::exists(place / group)) << group;
  }
  ::kill(orphan, SIGKILL);
  wait_for(orphan);
  for (const fs::path& place : places_) {
    for (const auto& group : stays) ::rmdir((place / group).c_str());
  }
}

// Everything a rootless engine does, as a user to whom root has delegated a group. The exit code says where it ended.
int use_as_ordinary_user(uid_t uid) {
  if (!delegate_cgroup(uid, uid, ::getpid())) return 10;
  if (::setgroups(0, nullptr) != 0 || ::setresgid(uid, uid, uid) != 0 || ::setresuid(uid, uid, uid) != 0) return 11;
  ::prctl(PR_SET_DUMPABLE, 1);  // as after an exec
  const auto search = CgroupSearch::of_this_process();
  if (!search || search->uid != uid) return 12;
  auto root = CgroupRoot::open(*search);
  if (!root) return 13;
  auto group = root->create(1);
  if (!group) return 14;
  if (!group->apply({.memory = 64_MiB})) return 15;
  const pid_t inside = start_child([&] {
    if (!enter(*group, root->version())) ::_exit(1);
    touch(8U << 20);
  });
  if (wait_for(inside) != 0) return 16;
  const auto usage = group->usage();
  if (!usage || usage->peak_memory < (8U << 20)) return 17;
  const pid_t outside = start_child([] { ::pause(); });
  if (!group->attach(outside)) return 18;
  group->kill_all();
  if (!WIFSIGNALED(wait_for(outside))) return 19;
  return group->destroy() ? 0 : 20;
}

TEST_F(RealCgroup, AnOrdinaryUserWorksInADelegatedGroup) {
  if (::geteuid() != 0) HUTCH_LACKING("root, to delegate");
  const uid_t uid = 60'000 + static_cast<uid_t>(::getpid() % 5'000);
  const pid_t child = start_child([&] { ::_exit(use_as_ordinary_user(uid)); });
  EXPECT_EQ(WEXITSTATUS(wait_for(child)), 0);
  const auto undone = undelegate_cgroup(uid);
  ASSERT_TRUE(undone) << undone.error().message;
  EXPECT_TRUE(undone->contains("hutch-" + std::to_string(uid))) << *undone;
}

TEST(RealCgroup2, MembersMoveAndDieTogetherAndAreBornInside) {
  const auto search = CgroupSearch::of_this_process();
  ASSERT_TRUE(search) << search.error().message;
  std::string point;
  for (const auto& mount : internal::parse_mounts(search->mounts_text)) {
    if (mount.version == CgroupVersion::v2) point = mount.point;
  }
  const fs::path top = fs::path(point) / ("hutch-test-" + std::to_string(::getpid()));
  if (point.empty() || ::mkdir(top.c_str(), 0755) != 0) HUTCH_LACKING("a writable cgroup v2 tree");
  fs::create_directory(top / "engine");
  const auto above = internal::open_directory(AT_FDCWD, top);
  const auto engine = internal::open_directory(AT_FDCWD, top / "engine");
  ASSERT_TRUE(above && engine);

  clone_args args{};
  args.flags = CLONE_INTO_CGROUP;
  args.exit_signal = SIGCHLD;
  args.cgroup = static_cast<std::uint64_t>(above->get());
  const pid_t child = kernel::clone3(args);
  if (child == 0) {
    for (;;) ::pause();
  }
  ASSERT_GT(child, 0) << ::strerror(errno);
  EXPECT_EQ(read_line(top / "cgroup.procs"), std::to_string(child));
  const auto moved = internal::v2::move_members(above->get(), engine->get());
  EXPECT_TRUE(moved) << moved.error().message;
  EXPECT_EQ(read_line(top / "cgroup.procs"), "");
  EXPECT_EQ(read_line(top / "engine/cgroup.procs"), std::to_string(child));
  EXPECT_TRUE(internal::v2::kill(above->get(), "engine"));
  const int status = wait_for(child);
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
  EXPECT_EQ(::rmdir((top / "engine").c_str()), 0);
  EXPECT_EQ(::rmdir(top.c_str()), 0);
}

}  // namespace
}  // namespace hutch
