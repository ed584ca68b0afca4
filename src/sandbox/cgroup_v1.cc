// Control groups, version 1: one tree per controller, or one for several that are mounted together.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "sandbox/cgroup_files.h"

namespace hutch::cgroup_internal::v1 {
namespace {

// The processor comes last: a process that joins may have to stand back from then on, and a lock that it waits for is
// kept for it.
constexpr Controllers kEach[] = {kMemory, kPids, kCpuacct, kCpu};
constexpr const char* kGiven[] = {".", "tasks", "cgroup.procs"};

// The mounts that together have what we need, each once.
Result<std::vector<Mount>> needed_mounts(std::span<const Mount> mounts) {
  std::vector<Mount> needed;
  Controllers found = 0;
  for (const Controllers controller : kEach) {
    if ((found & controller) != 0) continue;
    const auto mount = std::ranges::find_if(mounts, [&](const Mount& candidate) {
      return candidate.version == CgroupVersion::v1 && (candidate.controllers & controller) != 0;
    });
    if (mount == mounts.end()) continue;
    found |= mount->controllers;
    needed.push_back(*mount);
  }
  if ((found & kNeededV1) != kNeededV1) {
    return make_error(ErrorCode::unsupported, names_of(kNeededV1 & ~found) + " not mounted");
  }
  return needed;
}

Result<UniqueFd> open_place(const Mount& mount, const std::string& path, Candidate::Kind kind, OnMade on_made) {
  HUTCH_TRY(auto directory, open_directory(AT_FDCWD, mount.point));
  if (kind == Candidate::Kind::made) return make_directory(directory.get(), path, on_made);
  return open_directory(directory.get(), path);
}

Result<Hierarchy> open_hierarchy(const Mount& mount, const Candidate& candidate,
                                 std::span<const Membership> memberships, OnMade on_made) {
  std::string path = candidate.path;
  if (candidate.kind == Candidate::Kind::own) {
    const auto own = own_path(mount, memberships);
    if (!own) return make_error(ErrorCode::not_found, "this process has no group in " + mount.point);
    path = *own;
  }
  const std::string full = mount.point + "/" + path;
  auto directory = open_place(mount, path, candidate.kind, on_made);
  if (!directory) return std::move(directory).error().during(full);
  if (!may_write(directory->get(), ".")) return system_error(errno).during("write in " + full);
  return Hierarchy{.directory = std::move(*directory), .controllers = mount.controllers & kNeededV1, .path = full};
}

Result<std::vector<Hierarchy>> open_candidate(const Candidate& candidate, std::span<const Mount> mounts,
                                              std::span<const Membership> memberships, OnMade on_made) {
  std::vector<Hierarchy> hierarchies;
  for (const Mount& mount : mounts) {
    const bool only_processors = (mount.controllers & kNeededV1 & ~(kCpu | kCpuacct)) == 0;
    if (candidate.processors_beside_us && only_processors) {
      if (auto beside = open_hierarchy(mount, Candidate{}, memberships, on_made)) {
        hierarchies.push_back(std::move(*beside));
        continue;
      }
    }
    HUTCH_TRY(auto hierarchy, open_hierarchy(mount, candidate, memberships, on_made));
    hierarchies.push_back(std::move(hierarchy));
  }
  return hierarchies;
}

bool is_missing(const Error& error) { return error.system_errno == ENOENT || error.system_errno == EOPNOTSUPP; }

// Kernels that account for swap have a second limit, of memory and swap together, which is never below the first:
// lowering begins with the first, raising with the second.
Result<void> write_memory(int directory, const Group& group, const std::string& bytes) {
  const std::string memory = group.file("memory.limit_in_bytes");
  const std::string with_swap = group.file("memory.memsw.limit_in_bytes");
  const auto lowered = write_file(directory, memory, bytes);
  if (!lowered && lowered.error().system_errno != EINVAL) return lowered.error();
  auto swap = write_file(directory, with_swap, bytes);
  if (!swap && !is_missing(swap.error())) return std::move(swap).error();
  if (lowered) return {};
  return write_file(directory, memory, bytes);
}

}  // namespace

Result<std::vector<Hierarchy>> find(const CgroupSearch& search, std::span<const Mount> mounts) {
  HUTCH_TRY(const std::vector<Mount> needed, needed_mounts(mounts));
  const std::vector<Membership> memberships = parse_memberships(search.self_text);
  std::string tried;
  for (const Candidate& candidate : candidates(search)) {
    auto hierarchies = open_candidate(candidate, needed, memberships, search.on_made);
    if (hierarchies) return hierarchies;
    tried += (tried.empty() ? "" : ", ") + hierarchies.error().message;
  }
  return make_error(ErrorCode::unsupported, tried);
}

Result<void> open_files(Group& group) {
  const Tree& tree = *group.tree;
  for (const Hierarchy& hierarchy : tree.hierarchies) {
    HUTCH_TRY(auto tasks, open_file(hierarchy.directory.get(), group.file("tasks"), O_WRONLY));
    group.attach.push_back(std::move(tasks));
  }
  const int memory = tree.with(kMemory).directory.get();
  const int cpuacct = tree.with(kCpuacct).directory.get();
  HUTCH_TRY(group.handle.cpu, open_file(cpuacct, group.file("cpuacct.usage"), O_RDONLY));
  HUTCH_TRY(group.handle.peak, open_file(memory, group.file("memory.max_usage_in_bytes"), O_RDONLY));
  if (auto idle = open_file(tree.with(kCpu).directory.get(), group.file("cpu.idle"), O_WRONLY)) {  // Linux 5.15
    group.handle.idle = std::move(*idle);
  }
  // What is the same for every sandbox is written here, so that apply() is short.
  const auto swappiness = write_file(memory, group.file("memory.swappiness"), "0");
  if (!swappiness && !is_missing(swappiness.error())) return swappiness.error();
  return write_file(tree.with(kCpu).directory.get(), group.file("cpu.cfs_period_us"), std::to_string(kCpuPeriodUs));
}

Result<CgroupUsage> usage(const Group& group) {
  const int memory = group.tree->with(kMemory).directory.get();
  CgroupUsage usage;
  HUTCH_TRY(usage.cpu_us, read_number(group.tree->with(kCpuacct).directory.get(), group.file("cpuacct.usage"), ""));
  usage.cpu_us /= 1000;
  HUTCH_TRY(usage.peak_memory, read_number(memory, group.file("memory.max_usage_in_bytes"), ""));
  HUTCH_TRY(usage.memory_now, read_number(memory, group.file("memory.usage_in_bytes"), ""));
  HUTCH_TRY(usage.oom_kills, read_number(memory, group.file("memory.oom_control"), "oom_kill"));
  HUTCH_TRY(usage.process_limit_hits, process_limit_hits(group.tree->with(kPids).directory.get(), group));
  return usage;
}

Result<void> apply(const Group& group, const AppliedLimits& limits) {
  const Tree& tree = *group.tree;
  HUTCH_TRY(write_memory(tree.with(kMemory).directory.get(), group, std::to_string(limits.memory)));
  const std::uint64_t quota = std::uint64_t{limits.cpu_percent} * kCpuPeriodUs / 100;
  HUTCH_TRY(write_file(tree.with(kCpu).directory.get(), group.file("cpu.cfs_quota_us"), std::to_string(quota)));
  return write_file(tree.with(kPids).directory.get(), group.file("pids.max"), std::to_string(limits.processes));
}

std::vector<MemberList> member_lists(const Group& group) {
  // Every hierarchy: an attach that failed half-way has left its process in some of them only.
  std::vector<MemberList> lists;
  for (const Hierarchy& hierarchy : group.tree->hierarchies) {
    lists.push_back({.directory = hierarchy.directory.get(), .path = group.file("tasks")});
  }
  return lists;
}

Result<std::string> delegate(std::span<const Mount> mounts, uid_t uid, gid_t gid) {
  HUTCH_TRY(const std::vector<Mount> needed, needed_mounts(mounts));
  const std::string name = delegated_name(uid);
  std::string done;
  for (const Mount& mount : needed) {
    HUTCH_TRY(const auto directory, open_place(mount, name, Candidate::Kind::made, nullptr));
    HUTCH_TRY(give(directory.get(), kGiven, uid, gid));
    done += "made " + mount.point + "/" + name + " for user " + std::to_string(uid) + "\n";
  }
  return done;
}

Result<std::string> undelegate(std::span<const Mount> mounts, uid_t uid) {
  HUTCH_TRY(const std::vector<Mount> needed, needed_mounts(mounts));
  const std::string name = delegated_name(uid);
  std::string done;
  for (const Mount& mount : needed) {
    HUTCH_TRY(const auto top, open_directory(AT_FDCWD, mount.point));
    const auto directory = open_directory(top.get(), name);
    if (!directory) continue;
    for (const std::string& box : list_groups(directory->get())) {
      ::unlinkat(directory->get(), box.c_str(), AT_REMOVEDIR);
    }
    if (::unlinkat(top.get(), name.c_str(), AT_REMOVEDIR) != 0) {
      return system_error(errno).during("remove " + mount.point + "/" + name);
    }
    done += "removed " + mount.point + "/" + name + "\n";
  }
  return done;
}

}  // namespace hutch::cgroup_internal::v1
