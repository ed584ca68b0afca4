// Control groups, version 2: one tree. A group hands a controller down by naming it in cgroup.subtree_control, and may
// do so only while it has no members of its own.
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "sandbox/cgroup_files.h"

namespace hutch::cgroup_internal::v2 {
namespace {

constexpr const char* kGiven[] = {".", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"};

Result<void> require_controllers(int directory) {
  HUTCH_TRY(const std::string text, read_file(directory, "cgroup.controllers"));
  const Controllers missing = kNeededV2 & ~parse_controllers(text, ' ');
  if (missing != 0) return make_error(ErrorCode::unsupported, "no controller for " + names_of(missing));
  return {};
}

bool hands_down(int directory) {
  const auto text = read_file(directory, "cgroup.subtree_control");
  return text && (parse_controllers(*text, ' ') & kNeededV2) == kNeededV2;
}

Result<void> hand_down(int directory) {
  if (hands_down(directory)) return {};
  return write_file(directory, "cgroup.subtree_control", "+memory +cpu +pids");
}

Result<void> require_ownership(int directory) {
  for (const char* file : {".", "cgroup.procs", "cgroup.subtree_control"}) {
    if (!may_write(directory, file)) return system_error(errno).during("write " + std::string(file));
  }
  return {};
}

Result<UniqueFd> make_place(int top, const std::string& path, OnMade on_made) {
  const std::size_t slash = path.rfind('/');
  const std::string parent_path = slash == std::string::npos ? "" : path.substr(0, slash);
  HUTCH_TRY(const auto parent, open_directory(top, parent_path));
  HUTCH_TRY(require_controllers(parent.get()));
  HUTCH_TRY(hand_down(parent.get()));
  HUTCH_TRY(auto place, make_directory(parent.get(), path.substr(slash + 1), on_made));
  HUTCH_TRY(require_controllers(place.get()));
  HUTCH_TRY(hand_down(place.get()));
  return place;
}

// Moves the members of the group, this process among them, to the leaf `engine`, and undoes it if that was no use.
Result<void> hand_down_from_above(int place, OnMade on_made) {
  const std::string leaf{kEngineLeaf};
  HUTCH_TRY(const auto engine, make_directory(place, leaf, on_made));
  auto done = move_members(place, engine.get());
  if (done) done = hand_down(place);
  if (done) return done;
  (void)move_members(engine.get(), place);
  ::unlinkat(place, leaf.c_str(), AT_REMOVEDIR);
  return done;
}

Result<UniqueFd> open_own(int top, const std::string& path, OnMade on_made) {
  // An engine was here before, and this process comes from the leaf into which it moved everybody.
  if (path == kEngineLeaf || path.ends_with("/" + std::string(kEngineLeaf))) {
    const std::size_t above = path.size() - kEngineLeaf.size();
    auto parent = open_directory(top, above == 0 ? "" : path.substr(0, above - 1));
    if (parent && require_ownership(parent->get()) && hands_down(parent->get())) return parent;
  }
  HUTCH_TRY(auto place, open_directory(top, path));
  HUTCH_TRY(require_ownership(place.get()));
  HUTCH_TRY(require_controllers(place.get()));
  if (!hands_down(place.get())) HUTCH_TRY(hand_down_from_above(place.get(), on_made));
  return place;
}

Result<UniqueFd> open_delegated(int top, const std::string& path, const std::string& own) {
  HUTCH_TRY(auto place, open_directory(top, path));
  HUTCH_TRY(require_ownership(place.get()));
  // Whoever moves a process needs write permission where its old and new group meet.
  const bool inside = own == path || own.starts_with(path + "/");
  if (!inside && !may_write(top, "cgroup.procs")) {
    return make_error(ErrorCode::permission, "this process is not in that group and may not move in");
  }
  HUTCH_TRY(require_controllers(place.get()));
  HUTCH_TRY(hand_down(place.get()));
  return place;
}

Result<UniqueFd> open_candidate(int top, const Candidate& candidate, const std::optional<std::string>& own,
                                OnMade on_made) {
  switch (candidate.kind) {
    case Candidate::Kind::made:
      return make_place(top, candidate.path, on_made);
    case Candidate::Kind::own:
      if (!own) return make_error(ErrorCode::not_found, "this process has no group there");
      return open_own(top, *own, on_made);
    case Candidate::Kind::delegated:
      return open_delegated(top, candidate.path, own.value_or(""));
  }
  std::unreachable();
}

Result<UniqueFd> usable_top(std::span<const Mount> mounts, std::string& path) {
  for (const Mount& mount : mounts) {
    if (mount.version != CgroupVersion::v2) continue;
    auto top = open_directory(AT_FDCWD, mount.point);
    if (!top || !require_controllers(top->get())) continue;
    path = mount.point;
    return top;
  }
  return make_error(ErrorCode::unsupported, "no cgroup v2 tree has the controllers for " + names_of(kNeededV2));
}

}  // namespace

Result<std::vector<Hierarchy>> find(const CgroupSearch& search, std::span<const Mount> mounts) {
  const std::vector<Membership> memberships = parse_memberships(search.self_text);
  std::string tried;
  for (const Mount& mount : mounts) {
    if (mount.version != CgroupVersion::v2) continue;
    const auto own = own_path(mount, memberships);
    const auto top = open_directory(AT_FDCWD, mount.point);
    if (!top) {
      tried += (tried.empty() ? "" : ", ") + top.error().message;
      continue;
    }
    for (const Candidate& candidate : candidates(search)) {
      const bool is_own = candidate.kind == Candidate::Kind::own;
      const std::string path = mount.point + "/" + (is_own ? own.value_or("") : candidate.path);
      auto place = open_candidate(top->get(), candidate, own, search.on_made);
      if (place) {
        std::vector<Hierarchy> found;
        found.push_back({.directory = std::move(*place), .controllers = kNeededV2, .path = path});
        return found;
      }
      tried += (tried.empty() ? "" : ", ") + path + ": " + place.error().message;
    }
  }
  return make_error(ErrorCode::unsupported, tried.empty() ? "not mounted" : tried);
}

bool offers_controllers(std::span<const Mount> mounts) {
  std::string path;
  return usable_top(mounts, path).has_value();
}

Result<void> open_files(Group& group) {
  const int top = group.tree->hierarchies.front().directory.get();
  HUTCH_TRY(auto directory, open_directory(top, group.name));
  const int own = directory.get();
  group.attach.push_back(std::move(directory));
  HUTCH_TRY(group.handle.cpu, open_file(own, "cpu.stat", O_RDONLY));
  if (auto peak = open_file(own, "memory.peak", O_RDONLY)) group.handle.peak = std::move(*peak);
  if (auto idle = open_file(own, "cpu.idle", O_WRONLY)) group.handle.idle = std::move(*idle);
  // What is the same for every sandbox is written here, so that apply() is short. A kernel without swap has no swap
  // limit, and one before 4.19 kills the largest process instead of all.
  for (const auto& [file, text] : {std::pair{"memory.swap.max", "0"}, std::pair{"memory.oom.group", "1"}}) {
    auto written = write_file(own, file, text);
    if (!written && written.error().system_errno != ENOENT) return written;
  }
  return {};
}

Result<CgroupUsage> usage(const Group& group) {
  const int top = group.tree->hierarchies.front().directory.get();
  CgroupUsage usage;
  HUTCH_TRY(usage.cpu_us, read_number(top, group.file("cpu.stat"), "usage_usec"));
  usage.peak_memory = read_number(top, group.file("memory.peak"), "").value_or(0);  // Linux 5.19
  HUTCH_TRY(usage.memory_now, read_number(top, group.file("memory.current"), ""));
  HUTCH_TRY(usage.oom_kills, read_number(top, group.file("memory.events"), "oom_kill"));
  HUTCH_TRY(usage.process_limit_hits, process_limit_hits(top, group));
  return usage;
}

Result<void> apply(const Group& group, const AppliedLimits& limits) {
  const int top = group.tree->hierarchies.front().directory.get();
  const std::uint64_t quota = std::uint64_t{limits.cpu_percent} * kCpuPeriodUs / 100;
  HUTCH_TRY(write_file(top, group.file("memory.max"), std::to_string(limits.memory)));
  HUTCH_TRY(write_file(top, group.file("cpu.max"), std::to_string(quota) + " " + std::to_string(kCpuPeriodUs)));
  return write_file(top, group.file("pids.max"), std::to_string(limits.processes));
}

bool kill(int directory, const std::string& path) {
  return write_file(directory, path + "/cgroup.kill", "1").has_value();
}

Result<void> move_members(int from, int to) {
  constexpr int kMostRounds = 20;  // members may fork while they are moved
  for (int round = 0; round < kMostRounds; ++round) {
    const std::vector<pid_t> members = read_members({.directory = from, .path = "cgroup.procs"});
    if (members.empty()) return {};
    for (const pid_t pid : members) {
      auto moved = write_file(to, "cgroup.procs", std::to_string(pid));
      if (!moved && moved.error().system_errno != ESRCH) return moved;
    }
  }
  return {};  // whether it was enough is for the kernel to say when the controllers are handed down
}

Result<std::string> delegate(std::span<const Mount> mounts, uid_t uid, gid_t gid, pid_t member, OnMade on_made) {
  std::string path;
  HUTCH_TRY(const auto top, usable_top(mounts, path));
  const std::string name = delegated_name(uid);
  HUTCH_TRY(const auto place, make_place(top.get(), name, on_made));
  HUTCH_TRY(give(place.get(), kGiven, uid, gid));
  HUTCH_TRY(const auto engine, make_directory(place.get(), std::string(kEngineLeaf), on_made));
  HUTCH_TRY(give(engine.get(), kGiven, uid, gid));
  std::string done = "made " + path + "/" + name + " for user " + std::to_string(uid) + "\n";
  if (member > 0) {
    HUTCH_TRY(write_file(engine.get(), "cgroup.procs", std::to_string(member)));
    done += "moved process " + std::to_string(member) + " there\n";
  }
  return done;
}

Result<std::string> undelegate(std::span<const Mount> mounts, uid_t uid) {
  std::string path;
  HUTCH_TRY(const auto top, usable_top(mounts, path));
  const std::string name = delegated_name(uid);
  const auto place = open_directory(top.get(), name);
  if (!place) return std::string();
  const std::string leaf{kEngineLeaf};
  if (const auto engine = open_directory(place->get(), leaf)) {
    HUTCH_TRY(move_members(engine->get(), top.get()));
    ::unlinkat(place->get(), leaf.c_str(), AT_REMOVEDIR);
  }
  for (const std::string& box : list_groups(place->get())) ::unlinkat(place->get(), box.c_str(), AT_REMOVEDIR);
  if (::unlinkat(top.get(), name.c_str(), AT_REMOVEDIR) != 0) {
    return system_error(errno).during("remove " + path + "/" + name);
  }
  return "removed " + path + "/" + name + "\n";
}

}  // namespace hutch::cgroup_internal::v2
