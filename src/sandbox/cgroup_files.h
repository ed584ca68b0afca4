// Private to the control group code: the texts and files that v1 and v2 have in common, and what a tree and a group
// are made of. Nothing outside cgroup*.cc includes this.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "sandbox/cgroup.h"

namespace hutch::cgroup_internal {

// A set of controllers is the sum of their bits.
using Controllers = unsigned;
inline constexpr Controllers kMemory = 1, kCpu = 2, kCpuacct = 4, kPids = 8;
inline constexpr Controllers kNeededV1 = kMemory | kCpu | kCpuacct | kPids;
inline constexpr Controllers kNeededV2 = kMemory | kCpu | kPids;
inline constexpr unsigned kCpuPeriodUs = 100'000;
inline constexpr std::string_view kEngineLeaf = "engine";

Controllers parse_controllers(std::string_view text, char separator);
std::string names_of(Controllers controllers);  // "memory, cpu"

struct Mount {
  CgroupVersion version = CgroupVersion::v2;
  std::string root;   // which group of the hierarchy is seen at `point`
  std::string point;  // unescaped
  Controllers controllers = 0;
};
std::vector<Mount> parse_mounts(std::string_view mountinfo);

struct Membership {
  CgroupVersion version = CgroupVersion::v2;
  Controllers controllers = 0;
  std::string path;  // from the root of the hierarchy
};
std::vector<Membership> parse_memberships(std::string_view self_text);

// The group of this process as a path below the mount: "" for the mount point itself, nothing when it is not below.
std::optional<std::string> own_path(const Mount& mount, std::span<const Membership> memberships);

// A place to try, below a mount.
struct Candidate {
  enum class Kind { made, own, delegated } kind = Kind::own;
  std::string path;  // empty for `own`
  // v1: what has only to do with processors goes into the group of this process nevertheless. There every program is
  // weighed by itself against us and all others, instead of all programs together as one.
  bool processors_beside_us = false;
};
std::vector<Candidate> candidates(const CgroupSearch& search);
std::string delegated_name(uid_t uid);

using OnMade = void (*)(int directory);

Result<UniqueFd> open_directory(int base, const std::string& path);
Result<UniqueFd> open_file(int directory, const std::string& path, int flags);
Result<std::string> read_file(int directory, const std::string& path);
Result<void> write_file(int directory, const std::string& path, std::string_view text);
bool may_write(int directory, const std::string& path);
Result<UniqueFd> make_directory(int parent, const std::string& name, OnMade on_made);  // an existing one will do
std::vector<std::string> list_groups(int directory);
Result<void> give(int directory, std::span<const char* const> files, uid_t uid, gid_t gid);

// The number after `key ` at the start of a line, or the first number when the key is empty.
std::optional<std::uint64_t> find_number(std::string_view text, std::string_view key);
Result<std::uint64_t> read_number(int directory, const std::string& path, std::string_view key);

// A file that lists processes or threads, by directory and path.
struct MemberList {
  int directory = -1;
  std::string path;
};
std::vector<pid_t> read_members(const MemberList& list);
// False when somebody who is not spared is still listed, with SIGKILL pending.
bool kill_members(std::span<const MemberList> lists, std::span<const pid_t> spared = {});

// Who made a group: part of its name, so that a later engine can tell whether its maker lives.
struct Maker {
  std::uint64_t pid_namespace = 0;
  pid_t pid = 0;
  std::uint64_t start_time = 0;  // in clock ticks since boot, as in /proc/<pid>/stat
};
Result<Maker> this_maker(int proc);
std::string name_prefix(const Maker& maker);
std::optional<Maker> parse_name(std::string_view name);
bool is_dead(const Maker& maker, std::uint64_t own_pid_namespace, int proc);

struct Hierarchy {
  UniqueFd directory;
  Controllers controllers = 0;
  std::string path;  // for messages
};

struct Tree {
  CgroupVersion version = CgroupVersion::v2;
  std::vector<Hierarchy> hierarchies;  // v2: one
  UniqueFd proc;
  Maker maker;
  OnMade on_made = nullptr;
  bool knows_most_processes = false;

  [[nodiscard]] const Hierarchy& with(Controllers controller) const;
};

struct AppliedLimits {
  std::uint64_t memory = 0;
  std::uint32_t cpu_percent = 0;
  std::uint32_t processes = 0;
  bool operator==(const AppliedLimits&) const = default;
};

// The directories of one sandbox. They go by name below the tree's descriptors: no descriptor each.
struct Group {
  const Tree* tree = nullptr;
  std::string name;
  std::vector<bool> made;  // by hierarchy: the directory exists
  std::vector<UniqueFd> attach;
  CgroupHandle handle;
  std::optional<AppliedLimits> applied;
  bool lifted = false;  // some of them, for a kill

  Group() = default;
  Group(const Group&) = delete;
  Group& operator=(const Group&) = delete;
  ~Group() { remove(); }

  int remove();  // one attempt: 0, or the errno of a directory that stays
  [[nodiscard]] std::string file(std::string_view file_name) const { return name + "/" + std::string(file_name); }
};

Result<std::uint64_t> process_limit_hits(int directory, const Group& group);

// What differs between the versions. find() gives the reasons why each place will not do as its error.
namespace v1 {
Result<std::vector<Hierarchy>> find(const CgroupSearch& search, std::span<const Mount> mounts);
Result<void> open_files(Group& group);
Result<CgroupUsage> usage(const Group& group);
Result<void> apply(const Group& group, const AppliedLimits& limits);
std::vector<MemberList> member_lists(const Group& group);
Result<std::string> delegate(std::span<const Mount> mounts, uid_t uid, gid_t gid);
Result<std::string> undelegate(std::span<const Mount> mounts, uid_t uid);
}  // namespace v1

namespace v2 {
Result<std::vector<Hierarchy>> find(const CgroupSearch& search, std::span<const Mount> mounts);
bool offers_controllers(std::span<const Mount> mounts);
Result<void> open_files(Group& group);
Result<CgroupUsage> usage(const Group& group);
Result<void> apply(const Group& group, const AppliedLimits& limits);
bool kill(int directory, const std::string& path);  // false on kernels before 5.14
Result<void> move_members(int from, int to);
Result<std::string> delegate(std::span<const Mount> mounts, uid_t uid, gid_t gid, pid_t member, OnMade on_made);
Result<std::string> undelegate(std::span<const Mount> mounts, uid_t uid);
}  // namespace v2

}  // namespace hutch::cgroup_internal
