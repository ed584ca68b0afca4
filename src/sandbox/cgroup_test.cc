// The texts, and the logic of v2 on a fake tree of plain files. What only a kernel can say is in cgroup_kernel_test.cc.
#include "sandbox/cgroup.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <sstream>
#include <string>
#include <utility>

#include "sandbox/cgroup_files.h"

namespace hutch {
namespace {

namespace fs = std::filesystem;
namespace internal = cgroup_internal;

std::string read_text(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

void write_text(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

// ---- Texts

constexpr const char* kHybrid =
    "32 31 0:29 / /sys/fs/cgroup/unified rw,nosuid shared:10 - cgroup2 cgroup2 rw,nsdelegate\n"
    "33 31 0:30 / /sys/fs/cgroup/systemd rw shared:11 - cgroup cgroup rw,xattr,name=systemd\n"
    "34 31 0:31 / /sys/fs/cgroup/cpu,cpuacct rw shared:12 master:3 - cgroup cgroup rw,cpu,cpuacct\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
    "36 23 8:1 / / rw - ext4 /dev/sda1 rw\n";

TEST(CgroupTexts, HybridMountsHaveTheirControllersTogether) {
  const auto mounts = internal::parse_mounts(kHybrid);
  ASSERT_EQ(mounts.size(), 4U);
  EXPECT_EQ(mounts[0].version, CgroupVersion::v2);
  EXPECT_EQ(mounts[1].controllers, 0U);
  EXPECT_EQ(mounts[2].controllers, internal::kCpu | internal::kCpuacct);
  EXPECT_EQ(mounts[3].point, "/sys/fs/cgroup/memory");
}

TEST(CgroupTexts, EscapedSpacesInMountPointsAreUndone) {
  const auto mounts = internal::parse_mounts("1 0 0:1 /docker/a\\040b /mnt/my\\040groups\\134x rw - cgroup2 c rw\n");
  ASSERT_EQ(mounts.size(), 1U);
  EXPECT_EQ(mounts[0].root, "/docker/a b");
  EXPECT_EQ(mounts[0].point, "/mnt/my groups\\x");
}

TEST(CgroupTexts, BrokenMountLinesAreIgnored) {
  EXPECT_TRUE(internal::parse_mounts("\n\n1 2 3\n1 0 0:1 / /x rw shared:1\n - cgroup2\n").empty());
}

TEST(CgroupTexts, TheOwnGroupIsFoundBelowEachMount) {
  const auto memberships = internal::parse_memberships(
      "5:cpu,cpuacct:/user.slice\n4:memory:/docker/abc/in:ner\n1:name=systemd:/x\n0::/user.slice/a "
      "b.scope\nnonsense\n");
  const auto below = [&](CgroupVersion version, internal::Controllers controllers, const char* root) {
    return internal::own_path({.version = version, .root = root, .point = "/m", .controllers = controllers},
                              memberships);
  };
  EXPECT_EQ(below(CgroupVersion::v2, 0, "/"), "user.slice/a b.scope");
  EXPECT_EQ(below(CgroupVersion::v1, internal::kCpu, "/"), "user.slice");
  EXPECT_EQ(below(CgroupVersion::v1, internal::kMemory, "/docker/abc"), "in:ner");
  EXPECT_EQ(below(CgroupVersion::v1, internal::kMemory, "/docker/abc/in:ner"), "");
  EXPECT_EQ(below(CgroupVersion::v1, internal::kMemory, "/docker/ab"), std::nullopt);
  EXPECT_EQ(below(CgroupVersion::v1, internal::kPids, "/"), std::nullopt);
}

TEST(CgroupTexts, AGroupSeenFromAnotherNamespaceIsNotOurs) {
  const auto memberships = internal::parse_memberships("0::/../../init.scope\n");
  EXPECT_EQ(internal::own_path({.root = "/", .point = "/m"}, memberships), std::nullopt);
}

TEST(CgroupTexts, NumbersAreFoundByTheirKey) {
  EXPECT_EQ(internal::find_number("low 0\noom 3\noom_kill 2\n", "oom_kill"), 2U);
  EXPECT_EQ(internal::find_number("4096\n", ""), 4096U);
  EXPECT_EQ(internal::find_number("oom_kill x\n", "oom_kill"), std::nullopt);
  EXPECT_EQ(internal::find_number("", "max"), std::nullopt);
}

TEST(CgroupTexts, NamesTellTheirMaker) {
  const auto maker =
      internal::parse_name(internal::name_prefix({.pid_namespace = 4026531836, .pid = 42, .start_time = 77}) + "9");
  EXPECT_EQ(maker.value_or(internal::Maker{}).pid, 42);
  EXPECT_EQ(maker.value_or(internal::Maker{}).start_time, 77U);
  for (const char* foreign : {"engine", "box-1-2-3", "box-1-2-3-x", "box-1--2-3-4", "box-1-2-3-4-5"}) {
    EXPECT_FALSE(internal::parse_name(foreign)) << foreign;
  }
}

// ---- A fake v2 tree

void fill(int directory, std::string_view controllers,
          std::initializer_list<std::pair<const char*, const char*>> files) {
  const fs::path path = fs::read_symlink("/proc/self/fd/" + std::to_string(directory));
  write_text(path / "cgroup.controllers", std::string(controllers));
  for (const char* name : {"cgroup.subtree_control", "cgroup.procs", "cgroup.threads"}) write_text(path / name, "");
  for (const auto& [name, text] : files) write_text(path / name, text);
}

void fill_as_kernel(int directory) {
  fill(directory, "cpuset cpu io memory pids\n",
       {{"cpu.max", ""},
        {"cpu.stat", "usage_usec 1500\nuser_usec 1000\n"},
        {"memory.max", ""},
        {"memory.swap.max", ""},
        {"memory.peak", "900\n"},
        {"memory.current", "800\n"},
        {"memory.oom.group", ""},
        {"memory.events", "low 0\noom 1\noom_kill 2\noom_group_kill 0\n"},
        {"pids.max", ""},
        {"pids.current", "4\n"},
        {"pids.peak", "11\n"},
        {"pids.events", "max 3\n"},
        {"cgroup.kill", ""}});
}

void fill_as_old_kernel(int directory) {  // no swap, no memory.peak, no memory.oom.group
  fill(directory, "cpu memory pids\n",
       {{"cpu.stat", "usage_usec 1\n"},
        {"memory.current", "2\n"},
        {"memory.events", "oom_kill 0\n"},
        {"pids.events", "max 0\n"}});
}

void fill_without_controllers(int directory) { fill(directory, "hugetlb\n", {}); }

class FakeCgroup2 : public testing::Test {
 protected:
  FakeCgroup2() {
    std::string name = (fs::temp_directory_path() / "hutch-cgroup-XXXXXX").string();
    top_ = ::mkdtemp(name.data());
    add("", fill_as_kernel);
  }
  ~FakeCgroup2() override { fs::remove_all(top_); }

  void add(const fs::path& path, internal::OnMade filler) {
    fs::create_directories(top_ / path);
    const UniqueFd fd{::open((top_ / path).c_str(), O_PATH | O_CLOEXEC)};
    filler(fd.get());
  }
  CgroupSearch search(uid_t uid, const std::string& self = "0::/\n") const {
    return {.mounts_text = "30 1 0:26 / " + top_.string() + " rw - cgroup2 cgroup2 rw\n",
            .self_text = self,
            .uid = uid,
            .user = "ada",
            .place = {},
            .on_made = fill_as_kernel};
  }
  // Where a group of this process is, below `place`.
  fs::path only_group(const fs::path& place) const {
    for (const auto& entry : fs::directory_iterator(top_ / place)) {
      if (entry.path().filename().string().starts_with("box-")) return entry.path();
    }
    return {};
  }

  fs::path top_;
};

TEST_F(FakeCgroup2, RootGetsAGroupThatHandsDownControllers) {
  const auto root = CgroupRoot::open(search(0));
  ASSERT_TRUE(root) << root.error().message;
  EXPECT_EQ(root->describe(), "cgroup v2: memory, cpu, pids");
  EXPECT_EQ(read_text(top_ / "cgroup.subtree_control"), "+memory +cpu +pids");
  EXPECT_EQ(read_text(top_ / "hutch/cgroup.subtree_control"), "+memory +cpu +pids");
}

TEST_F(FakeCgroup2, LimitsAreWrittenOnce) {
  auto root = CgroupRoot::open(search(0));
  ASSERT_TRUE(root) << root.error().message;
  auto group = root->create(7);
  ASSERT_TRUE(group) << group.error().message;
  const fs::path path = only_group("hutch");
  EXPECT_EQ(read_text(path / "memory.swap.max"), "0");
  EXPECT_EQ(read_text(path / "memory.oom.group"), "1");
  ASSERT_TRUE(group->apply({.memory = 64_MiB, .cpu_percent = 150, .processes = 10}));
  EXPECT_EQ(read_text(path / "memory.max"), "67108864");
  EXPECT_EQ(read_text(path / "cpu.max"), "150000 100000");
  EXPECT_EQ(read_text(path / "pids.max"), "11");

  write_text(path / "pids.max", "");
  ASSERT_TRUE(group->apply({.memory = 64_MiB, .cpu_percent = 150, .processes = 10}));
  EXPECT_EQ(read_text(path / "pids.max"), "");
  fs::remove(path / "cpu.max");
  EXPECT_FALSE(group->apply({.memory = 64_MiB, .cpu_percent = 100, .processes = 10}));
  write_text(path / "cpu.max", "");  // a failure is not taken for applied
  ASSERT_TRUE(group->apply({.memory = 64_MiB, .cpu_percent = 150, .processes = 10}));
  EXPECT_EQ(read_text(path / "pids.max"), "11");
}

TEST_F(FakeCgroup2, InitOutlivesAProgramWithoutMemoryWhereItIsToBeSpared) {
  auto root = CgroupRoot::open(search(0));
  ASSERT_TRUE(root) << root.error().message;
  auto group = root->create(7);
  ASSERT_TRUE(group) << group.error().message;
  const fs::path file = only_group("hutch") / "memory.oom.group";
  EXPECT_EQ(read_text(file), "1");
  group->spare_init();
  ASSERT_TRUE(group->apply({.memory = 64_MiB, .cpu_percent = 150, .processes = 10}));
  EXPECT_EQ(read_text(file), "0");
}

TEST_F(FakeCgroup2, WhatIsLiftedForAKillIsWrittenAgain) {
  auto root = CgroupRoot::open(search(0));
  ASSERT_TRUE(root) << root.error().message;
  auto group = root->create(7);
  ASSERT_TRUE(group) << group.error().message;
  const fs::path path = only_group("hutch");
  const Limits limits{.memory = 64_MiB, .cpu_percent = 150, .processes = 10};
  for (const auto put_back : {+[](Cgroup& of, const Limits&) { return of.restore(); },
                              +[](Cgroup& of, const Limits& wanted) { return of.apply(wanted); }}) {
    ASSERT_TRUE(group->apply(limits));
    group->unthrottle();
    group->stop_forks();
    EXPECT_TRUE(read_text(path / "cpu.max").starts_with("max"));  // of the fake the rest stays
    EXPECT_TRUE(read_text(path / "pids.max").starts_with("0"));
    ASSERT_TRUE(put_back(*group, limits));
    EXPECT_EQ(read_text(path / "cpu.max"), "150000 100000");
    EXPECT_EQ(read_text(path / "pids.max"), "11");
  }
  group->unthrottle();
  fs::remove(path / "cpu.max");
  EXPECT_FALSE(group->restore());
  EXPECT_FALSE(group->restore());  // and is not taken for done the second time
  write_text(path / "cpu.max", "");
  ASSERT_TRUE(group->restore());
  EXPECT_EQ(read_text(path / "cpu.max"), "150000 100000");
}

TEST_F(FakeCgroup2, UsageAttachAndKillGoThroughTheFilesOfTheGroup) {
  auto root = CgroupRoot::open(search(0));
  ASSERT_TRUE(root) << root.error().message;
  auto group = root->create(7);
  ASSERT_TRUE(group) << group.error().message;
  const auto usage = group->usage();
  ASSERT_TRUE(usage) << usage.error().message;
  EXPECT_EQ(usage->cpu_us, 1500U);
  EXPECT_EQ(usage->peak_memory, 900U);
  EXPECT_EQ(usage->memory_now, 800U);
  EXPECT_EQ(usage->oom_kills, 2U);
  EXPECT_EQ(usage->process_limit_hits, 3U);

  const fs::path path = only_group("hutch");
  ASSERT_TRUE(group->attach(4321));
  EXPECT_EQ(read_text(path / "cgroup.procs"), "4321");
  ASSERT_EQ(group->attach_fds().size(), 1U);
  EXPECT_EQ(fs::read_symlink("/proc/self/fd/" + std::to_string(group->attach_fds()[0].get())), path);
  group->kill_all();
  EXPECT_EQ(read_text(path / "cgroup.kill"), "1");

  for (const auto& entry : fs::directory_iterator(path)) fs::remove(entry);
  EXPECT_TRUE(group->destroy());
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(FakeCgroup2, AFullGroupHasHitItsLimitWhoeverRefusedTheNext) {
  auto root = CgroupRoot::open(search(0));
  ASSERT_TRUE(root) << root.error().message;
  EXPECT_TRUE(root->knows_most_processes());
  auto group = root->create(7);
  ASSERT_TRUE(group) << group.error().message;
  ASSERT_TRUE(group->apply({.memory = 64_MiB, .cpu_percent = 150, .processes = 10}));
  const fs::path path = only_group("hutch");
  const auto hits = [&](const char* most) {
    write_text(path / "pids.events", "max 0\n");
    write_text(path / "pids.peak", most);
    return group->usage()->process_limit_hits;
  };
  EXPECT_EQ(hits("11\n"), 1U);  // init is one of them
  EXPECT_EQ(hits("7\n"), 1U);   // six, and five more under way
  EXPECT_EQ(hits("6\n"), 0U);
}

TEST_F(FakeCgroup2, AnOldKernelKeepsNoPeak) {
  auto from = search(0);
  from.on_made = fill_as_old_kernel;
  auto root = CgroupRoot::open(from);
  ASSERT_TRUE(root) << root.error().message;
  auto group = root->create(1);
  ASSERT_TRUE(group) << group.error().message;
  const auto usage = group->usage();
  ASSERT_TRUE(usage) << usage.error().message;
  EXPECT_EQ(usage->peak_memory, 0U);
  EXPECT_EQ(usage->memory_now, 2U);
  EXPECT_EQ(usage->process_limit_hits, 0U);
  EXPECT_FALSE(root->knows_most_processes());
}

TEST_F(FakeCgroup2, WhatAnOldKernelUsedIsToldWithoutTheRestOfTheHandle) {
  auto from = search(0);
  from.on_made = fill_as_old_kernel;
  auto root = CgroupRoot::open(from);
  ASSERT_TRUE(root) << root.error().message;
  auto group = root->create(1);
  ASSERT_TRUE(group) << group.error().message;
  write_text(only_group("hutch") / "cpu.stat", "usage_usec 1500\n");
  const CgroupHandle handle = group->take_handle();
  EXPECT_FALSE(handle);
  EXPECT_FALSE(handle.read());
  EXPECT_EQ(handle.read_cpu_us().value_or(0), 1500U);
  EXPECT_FALSE(group->take_handle().cpu);
}

TEST_F(FakeCgroup2, AUsersOwnGroupIsEmptiedIntoALeafBeforeItHandsDown) {
  add("user/scope", fill_as_kernel);
  write_text(top_ / "user/scope/cgroup.procs", "4242\n");
  auto root = CgroupRoot::open(search(1234, "0::/user/scope\n"));
  ASSERT_TRUE(root) << root.error().message;
  EXPECT_EQ(read_text(top_ / "user/scope/engine/cgroup.procs"), "4242");
  EXPECT_EQ(read_text(top_ / "user/scope/cgroup.subtree_control"), "+memory +cpu +pids");
  const auto group = root->create(1);
  EXPECT_NE(only_group("user/scope"), fs::path());
}

TEST_F(FakeCgroup2, ALaterEngineInTheLeafUsesTheGroupAboveIt) {
  add("scope", fill_as_kernel);
  add("scope/engine", fill_as_kernel);
  write_text(top_ / "scope/cgroup.subtree_control", "cpu memory pids\n");
  auto root = CgroupRoot::open(search(1234, "0::/scope/engine\n"));
  ASSERT_TRUE(root) << root.error().message;
  const auto group = root->create(1);
  EXPECT_NE(only_group("scope"), fs::path());
  EXPECT_FALSE(fs::exists(top_ / "scope/engine/engine"));
}

TEST_F(FakeCgroup2, ADelegatedGroupServesWhenTheOwnOneLacksAController) {
  add("scope", fill_without_controllers);
  add("hutch-1234", fill_as_kernel);
  const auto root = CgroupRoot::open(search(1234, "0::/scope\n"));
  ASSERT_TRUE(root) << root.error().message;
  EXPECT_FALSE(fs::exists(top_ / "scope/engine"));
  EXPECT_EQ(read_text(top_ / "hutch-1234/cgroup.subtree_control"), "+memory +cpu +pids");
}

TEST_F(FakeCgroup2, AMissingControllerIsNamedAndTheHintIsOneCommand) {
  add("", fill_without_controllers);
  auto from = search(1234);
  auto root = CgroupRoot::open(from);
  ASSERT_FALSE(root);
  EXPECT_EQ(root.error().code, ErrorCode::unsupported);
  EXPECT_TRUE(root.error().message.contains("no controller for memory, cpu, pids")) << root.error().message;
  EXPECT_EQ(root.error().hint, "Run: sudo hutch doctor --delegate ada");

  from.systemd = true;
  EXPECT_EQ(CgroupRoot::open(from).error().hint, "Run: systemd-run --user --scope -p Delegate=yes -- hutch run ...");
  // systemd itself was not given the controllers for this user: a scope would have none either.
  add("user.slice/user-1234.slice/user@1234.service", fill_without_controllers);
  EXPECT_EQ(CgroupRoot::open(from).error().hint, "Run: sudo hutch doctor --delegate ada");

  from.mounts_text += kHybrid;  // v1 without pids
  EXPECT_TRUE(CgroupRoot::open(from).error().message.contains("cgroup v1: pids not mounted"));
}

TEST_F(FakeCgroup2, APlaceThatClimbsIsRefused) {
  for (const char* place : {"../x", "/x", "a/../b", "a/"}) {
    auto from = search(0);
    from.place = place;
    EXPECT_EQ(CgroupRoot::open(from).error().code, ErrorCode::invalid_argument) << place;
  }
}

TEST_F(FakeCgroup2, DelegationGivesTheGroupToTheUser) {
  if (::geteuid() != 0) {
    if (::getenv("HUTCH_TESTS_MUST_RUN") != nullptr) FAIL() << "this host lacks root, to give files away";
    GTEST_SKIP() << "this host lacks root, to give files away";
  }
  const auto mounts = internal::parse_mounts(search(0).mounts_text);
  const auto done = internal::v2::delegate(mounts, 1234, 1235, 4242, fill_as_kernel);
  ASSERT_TRUE(done) << done.error().message;
  for (const char* file : {"", "cgroup.procs", "cgroup.subtree_control", "engine", "engine/cgroup.procs"}) {
    struct stat status{};
    ASSERT_EQ(::stat((top_ / "hutch-1234" / file).c_str(), &status), 0) << file;
    EXPECT_EQ(status.st_uid, 1234U) << file;
    EXPECT_EQ(status.st_gid, 1235U) << file;
  }
  struct stat limit{};
  ASSERT_EQ(::stat((top_ / "hutch-1234/memory.max").c_str(), &limit), 0);
  EXPECT_EQ(limit.st_uid, 0U);  // the user shares out the limit and does not set it
  EXPECT_EQ(read_text(top_ / "hutch-1234/engine/cgroup.procs"), "4242");
}

}  // namespace
// ---- A fake v1 tree

void fill_as_v1_kernel(int directory) {
  const fs::path path = fs::read_symlink("/proc/self/fd/" + std::to_string(directory));
  for (const char* name : {"tasks", "cpuacct.usage", "memory.max_usage_in_bytes", "memory.swappiness", "cpu.idle",
                           "cpu.cfs_period_us", "cpu.cfs_quota_us"}) {
    write_text(path / name, "");
  }
}

TEST_F(FakeCgroup2, OfTheOlderKindTheGroupsForProcessorsLieBesideUs) {
  CgroupSearch from{.self_text = "3:cpu,cpuacct:/ours\n2:memory:/ours\n1:pids:/\n", .on_made = fill_as_v1_kernel};
  for (const char* controllers : {"memory", "cpu,cpuacct", "pids"}) {
    fs::create_directories(top_ / controllers);
    from.mounts_text += "30 1 0:26 / " + (top_ / controllers).string() + " rw - cgroup cgroup rw," + controllers + "\n";
  }
  const auto places = [&] {
    auto root = CgroupRoot::open(from);
    EXPECT_TRUE(root) << root.error().message;
    const auto group = root->create(1);
    EXPECT_TRUE(group) << group.error().message;
    std::string found;
    for (const auto& entry : fs::recursive_directory_iterator(top_)) {
      if (!entry.path().filename().string().starts_with("box-")) continue;
      found += fs::relative(entry.path().parent_path(), top_).string() + " ";
      for (const auto& file : fs::directory_iterator(entry)) fs::remove(file);
    }
    return found;
  };
  const auto has = [](const std::string& found, const char* place) { return found.contains(place); };
  const std::string without = places();  // nobody has made the group that we are said to be in
  EXPECT_TRUE(has(without, "memory/hutch ") && has(without, "pids/hutch ") && has(without, "cpu,cpuacct/hutch "));
  fs::create_directories(top_ / "cpu,cpuacct/ours");
  const std::string beside = places();
  EXPECT_TRUE(has(beside, "memory/hutch ") && has(beside, "pids/hutch ")) << beside;
  EXPECT_TRUE(has(beside, "cpu,cpuacct/ours ") && !has(beside, "cpu,cpuacct/hutch ")) << beside;
}

}  // namespace hutch
