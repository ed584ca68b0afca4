#include "sandbox/cgroup.h"

#include <errno.h>
#include <fcntl.h>
#include <pwd.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <utility>
#include <vector>

#include "sandbox/cgroup_files.h"

namespace hutch {

using cgroup_internal::AppliedLimits;
using cgroup_internal::Controllers;
using cgroup_internal::Group;
using cgroup_internal::Hierarchy;
using cgroup_internal::Mount;
using cgroup_internal::Tree;

namespace {

Error no_group() { return make_error(ErrorCode::internal, "the sandbox has no control group"); }

std::string user_name(uid_t uid) {
  passwd entry{};
  passwd* found = nullptr;
  std::array<char, 4096> buffer;
  if (::getpwuid_r(uid, &entry, buffer.data(), buffer.size(), &found) == 0 && found != nullptr) return entry.pw_name;
  return std::to_string(uid);
}

// systemd hands a user's scope only the controllers that it was itself given for that user; where it is known to lack
// one, a scope would not help.
bool user_manager_lacks_controllers(const CgroupSearch& search, const std::vector<Mount>& mounts) {
  const std::string uid = std::to_string(search.uid);
  for (const Mount& mount : mounts) {
    if (mount.version != CgroupVersion::v2) continue;
    const auto text = cgroup_internal::read_file(
        AT_FDCWD, mount.point + "/user.slice/user-" + uid + ".slice/user@" + uid + ".service/cgroup.controllers");
    if (!text) continue;
    const Controllers offered = cgroup_internal::parse_controllers(*text, ' ');
    return (offered & cgroup_internal::kNeededV2) != cgroup_internal::kNeededV2;
  }
  return false;
}

std::string hint_for(const CgroupSearch& search, const std::vector<Mount>& mounts) {
  if (search.uid == 0) return "Run: mount -o remount,rw /sys/fs/cgroup";
  if (search.systemd && !user_manager_lacks_controllers(search, mounts)) {
    return "Run: systemd-run --user --scope -p Delegate=yes -- hutch run ...";
  }
  return "Run: sudo hutch doctor --delegate " + (search.user.empty() ? user_name(search.uid) : search.user);
}

// Relative, and going nowhere but down.
bool is_plain(const std::string& place) {
  return !place.starts_with('/') && !place.ends_with('/') && !("/" + place + "/").contains("/../");
}

int pids_directory(const Tree& tree) {
  const bool v1 = tree.version == CgroupVersion::v1;
  return (v1 ? tree.with(cgroup_internal::kPids) : tree.hierarchies.front()).directory.get();
}

Result<std::uint64_t> number_in(int fd, std::string_view key) {
  std::array<char, 2048> buffer;
  const ssize_t count = ::pread(fd, buffer.data(), buffer.size(), 0);
  if (count < 0) return system_error(errno).during("read usage");
  const auto found = cgroup_internal::find_number({buffer.data(), static_cast<std::size_t>(count)}, key);
  if (!found) return make_error(ErrorCode::internal, "no number in a control group's file");
  return *found;
}

}  // namespace

Cgroup::Cgroup() = default;
Cgroup::Cgroup(std::unique_ptr<Group> group) : group_(std::move(group)) {}
Cgroup::Cgroup(Cgroup&&) noexcept = default;
Cgroup& Cgroup::operator=(Cgroup&&) noexcept = default;
Cgroup::~Cgroup() = default;

Result<void> Cgroup::apply(const Limits& limits) {
  if (!group_) return no_group();
  const AppliedLimits wanted{.memory = limits.memory.count,
                             .cpu_percent = limits.cpu_percent,
                             .processes = limits.processes + 1};  // init is one of them
  return group_->applied == wanted && !group_->lifted ? Result<void>{} : write(wanted);
}

Result<void> Cgroup::write(const cgroup_internal::AppliedLimits& limits) {
  group_->applied.reset();  // unknown if a write fails half-way
  switch (group_->tree->version) {
    case CgroupVersion::v1:
      HUTCH_TRY(cgroup_internal::v1::apply(*group_, limits));
      break;
    case CgroupVersion::v2:
      HUTCH_TRY(cgroup_internal::v2::apply(*group_, limits));
      break;
  }
  group_->applied = limits;
  group_->lifted = false;
  return {};
}

Result<void> Cgroup::restore() {
  if (!group_) return no_group();
  if (!group_->lifted || !group_->applied) return {};
  const cgroup_internal::AppliedLimits before = *group_->applied;
  auto written = write(before);
  if (!written) group_->applied = before;  // still to be restored: they must not be forgotten
  return written;
}

Result<void> Cgroup::attach(pid_t pid) {
  if (!group_) return no_group();
  const Tree& tree = *group_->tree;
  const char* list = tree.version == CgroupVersion::v1 ? "tasks" : "cgroup.procs";
  for (const Hierarchy& hierarchy : tree.hierarchies) {
    auto written = cgroup_internal::write_file(hierarchy.directory.get(), group_->file(list), std::to_string(pid));
    if (!written) return std::move(written).error().during("attach in " + hierarchy.path);
  }
  return {};
}

std::span<const UniqueFd> Cgroup::attach_fds() const {
  if (!group_) return {};
  return group_->attach;
}

void Cgroup::close_attach_fds() {
  if (group_) group_->attach.clear();
}

Result<CgroupUsage> Cgroup::usage() const {
  if (!group_) return no_group();
  return group_->tree->version == CgroupVersion::v1 ? cgroup_internal::v1::usage(*group_)
                                                    : cgroup_internal::v2::usage(*group_);
}

Result<std::uint64_t> Cgroup::count_threads() const {
  if (!group_) return no_group();
  return cgroup_internal::read_number(pids_directory(*group_->tree), group_->file("pids.current"), "");
}

void Cgroup::stand_back() {
  if (group_ && group_->handle) group_->handle.stand_back(true);  // else nobody could bring it forward again
}

CgroupHandle Cgroup::take_handle() {
  if (!group_) return {};
  CgroupHandle handle = std::exchange(group_->handle, {});
  handle.version = group_->tree->version;
  handle.threads = group_->file("pids.current");
  if (!handle) {  // nobody may stand back who could not be brought forward again
    handle.peak.reset();
    handle.idle.reset();
  }
  return handle;
}

Result<std::uint64_t> CgroupHandle::read_cpu_us() const {
  if (!cpu) return no_group();
  HUTCH_TRY(const std::uint64_t used, number_in(cpu.get(), version == CgroupVersion::v1 ? "" : "usage_usec"));
  return version == CgroupVersion::v1 ? used / 1000 : used;
}

Result<std::uint64_t> CgroupHandle::read_peak_memory() const {
  if (!peak) return no_group();
  return number_in(peak.get(), "");
}

Result<std::uint64_t> CgroupHandle::count_threads(int counts) const {
  if (counts < 0 || threads.empty()) return no_group();
  return cgroup_internal::read_number(counts, threads, "");
}

Result<CgroupHandle::Reading> CgroupHandle::read() const {
  Reading reading;
  HUTCH_TRY(reading.cpu_us, read_cpu_us());
  HUTCH_TRY(reading.peak_memory, read_peak_memory());
  return reading;
}

void CgroupHandle::stand_back(bool back) {
  if (!idle || std::exchange(stands_back, back) == back) return;
  std::ignore = ::pwrite(idle.get(), back ? "1" : "0", 1, 0);
}

void Cgroup::unthrottle() {
  if (!group_) return;
  group_->lifted = true;
  for (const auto& hierarchy : group_->tree->hierarchies) {
    const bool v2 = group_->tree->version == CgroupVersion::v2;
    if (!v2 && (hierarchy.controllers & cgroup_internal::kCpu) == 0) continue;
    std::ignore = cgroup_internal::write_file(hierarchy.directory.get(),
                                              group_->file(v2 ? "cpu.max" : "cpu.cfs_quota_us"), v2 ? "max" : "-1");
    std::ignore = cgroup_internal::write_file(hierarchy.directory.get(), group_->file("cpu.idle"), "0");
  }
}

void Cgroup::stop_forks() {
  if (!group_) return;
  group_->lifted = true;
  std::ignore = cgroup_internal::write_file(pids_directory(*group_->tree), group_->file("pids.max"), "0");
}

void Cgroup::spare_init() {
  if (!group_ || group_->tree->version == CgroupVersion::v1) return;
  std::ignore = cgroup_internal::write_file(group_->tree->hierarchies.front().directory.get(),
                                            group_->file("memory.oom.group"), "0");
}

void Cgroup::forget_peak() {
  if (!group_) return;
  for (const auto& hierarchy : group_->tree->hierarchies) {
    const bool v2 = group_->tree->version == CgroupVersion::v2;
    if (!v2 && (hierarchy.controllers & cgroup_internal::kMemory) == 0) continue;
    std::ignore = cgroup_internal::write_file(hierarchy.directory.get(),
                                              group_->file(v2 ? "memory.peak" : "memory.max_usage_in_bytes"), "0");
  }
}

void Cgroup::kill_all() {
  if (!group_) return;
  const bool at_once = group_->tree->version == CgroupVersion::v2 &&
                       cgroup_internal::v2::kill(group_->tree->hierarchies.front().directory.get(), group_->name);
  if (!at_once) kill_all_but({});
}

bool Cgroup::kill_all_but(std::span<const pid_t> spared) {
  if (!group_) return true;
  if (group_->tree->version == CgroupVersion::v1) {
    return cgroup_internal::kill_members(cgroup_internal::v1::member_lists(*group_), spared);
  }
  const cgroup_internal::MemberList list{.directory = group_->tree->hierarchies.front().directory.get(),
                                         .path = group_->file("cgroup.procs")};
  return cgroup_internal::kill_members({&list, 1}, spared);
}

std::vector<pid_t> Cgroup::threads() const {
  if (!group_) return {};
  const char* list = group_->tree->version == CgroupVersion::v1 ? "tasks" : "cgroup.threads";
  return cgroup_internal::read_members(
      {.directory = group_->tree->hierarchies.front().directory.get(), .path = group_->file(list)});
}

Result<void> Cgroup::destroy(int attempts) {
  if (!group_) return {};
  constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 500'000};
  int error = 0;
  for (int attempt = 0; attempt < attempts; ++attempt) {
    if (attempt > 0) ::nanosleep(&kPause, nullptr);
    error = group_->remove();
    if (error == 0) {
      group_.reset();
      return {};
    }
    if (error != EBUSY) break;
  }
  return system_error(error).during("remove control group " + group_->name);
}

Result<CgroupSearch> CgroupSearch::of_this_process() {
  CgroupSearch search;
  HUTCH_TRY(search.mounts_text, cgroup_internal::read_file(AT_FDCWD, "/proc/self/mountinfo"));
  HUTCH_TRY(search.self_text, cgroup_internal::read_file(AT_FDCWD, "/proc/self/cgroup"));
  search.uid = ::geteuid();
  search.systemd = ::access("/run/systemd/system", F_OK) == 0;
  return search;
}

CgroupRoot::CgroupRoot(std::unique_ptr<Tree> tree) : tree_(std::move(tree)) {
  tree_->knows_most_processes = ::faccessat(pids_directory(*tree_), "pids.peak", R_OK, 0) == 0;
}
CgroupRoot::CgroupRoot(CgroupRoot&&) noexcept = default;
CgroupRoot& CgroupRoot::operator=(CgroupRoot&&) noexcept = default;
CgroupRoot::~CgroupRoot() = default;

Result<CgroupRoot> CgroupRoot::open(const CgroupSearch& search) {
  if (!is_plain(search.place)) {
    return make_error(ErrorCode::invalid_argument, "control group place must be a relative path: " + search.place);
  }
  auto tree = std::make_unique<Tree>();
  tree->on_made = search.on_made;
  HUTCH_TRY(tree->proc, cgroup_internal::open_directory(AT_FDCWD, "/proc"));
  HUTCH_TRY(tree->maker, cgroup_internal::this_maker(tree->proc.get()));

  const std::vector<Mount> mounts = cgroup_internal::parse_mounts(search.mounts_text);
  auto second = cgroup_internal::v2::find(search, mounts);
  if (second) {
    tree->version = CgroupVersion::v2;
    tree->hierarchies = std::move(*second);
    return CgroupRoot{std::move(tree)};
  }
  auto first = cgroup_internal::v1::find(search, mounts);
  if (first) {
    tree->version = CgroupVersion::v1;
    tree->hierarchies = std::move(*first);
    return CgroupRoot{std::move(tree)};
  }
  return make_error(ErrorCode::unsupported, "no control group to put sandboxes in: cgroup v2: " +
                                                second.error().message + "; cgroup v1: " + first.error().message)
      .with_hint(hint_for(search, mounts));
}

Result<Cgroup> CgroupRoot::create(std::uint64_t id) {
  auto group = std::make_unique<Group>();
  group->tree = tree_.get();
  group->name = cgroup_internal::name_prefix(tree_->maker) + std::to_string(id);
  group->made.resize(tree_->hierarchies.size());
  for (std::size_t i = 0; i < tree_->hierarchies.size(); ++i) {
    const Hierarchy& hierarchy = tree_->hierarchies[i];
    if (::mkdirat(hierarchy.directory.get(), group->name.c_str(), 0755) != 0) {
      return system_error(errno).during("make control group " + hierarchy.path + "/" + group->name);
    }
    group->made[i] = true;
    if (tree_->on_made == nullptr) continue;
    HUTCH_TRY(const auto directory, cgroup_internal::open_directory(hierarchy.directory.get(), group->name));
    tree_->on_made(directory.get());
  }
  switch (tree_->version) {
    case CgroupVersion::v1:
      HUTCH_TRY(cgroup_internal::v1::open_files(*group));
      break;
    case CgroupVersion::v2:
      HUTCH_TRY(cgroup_internal::v2::open_files(*group));
      break;
  }
  return Cgroup{std::move(group)};
}

CgroupVersion CgroupRoot::version() const { return tree_->version; }

std::string CgroupRoot::describe() const {
  Controllers all = 0;
  for (const Hierarchy& hierarchy : tree_->hierarchies) all |= hierarchy.controllers;
  return (tree_->version == CgroupVersion::v1 ? "cgroup v1: " : "cgroup v2: ") + cgroup_internal::names_of(all);
}

int CgroupRoot::counts() const { return pids_directory(*tree_); }

bool CgroupRoot::knows_most_processes() const { return tree_->knows_most_processes; }

void CgroupRoot::sweep() {
  for (const Hierarchy& hierarchy : tree_->hierarchies) {
    for (const std::string& name : cgroup_internal::list_groups(hierarchy.directory.get())) {
      const auto maker = cgroup_internal::parse_name(name);
      if (!maker || !cgroup_internal::is_dead(*maker, tree_->maker.pid_namespace, tree_->proc.get())) continue;
      ::unlinkat(hierarchy.directory.get(), name.c_str(), AT_REMOVEDIR);  // refused while it has members
    }
  }
}

Result<std::string> delegate_cgroup(uid_t uid, gid_t gid, pid_t member) {
  HUTCH_TRY(const std::string text, cgroup_internal::read_file(AT_FDCWD, "/proc/self/mountinfo"));
  const std::vector<Mount> mounts = cgroup_internal::parse_mounts(text);
  if (cgroup_internal::v2::offers_controllers(mounts)) {
    return cgroup_internal::v2::delegate(mounts, uid, gid, member, nullptr);
  }
  return cgroup_internal::v1::delegate(mounts, uid, gid);
}

Result<std::string> undelegate_cgroup(uid_t uid) {
  HUTCH_TRY(const std::string text, cgroup_internal::read_file(AT_FDCWD, "/proc/self/mountinfo"));
  const std::vector<Mount> mounts = cgroup_internal::parse_mounts(text);
  if (cgroup_internal::v2::offers_controllers(mounts)) return cgroup_internal::v2::undelegate(mounts, uid);
  return cgroup_internal::v1::undelegate(mounts, uid);
}

namespace cgroup_internal {

const Hierarchy& Tree::with(Controllers controller) const {
  for (const Hierarchy& hierarchy : hierarchies) {
    if ((hierarchy.controllers & controller) != 0) return hierarchy;
  }
  std::unreachable();  // find() gives no tree without every needed controller
}

int Group::remove() {
  int error = 0;
  for (std::size_t i = 0; i < made.size(); ++i) {
    if (!made[i]) continue;
    if (::unlinkat(tree->hierarchies[i].directory.get(), name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) {
      made[i] = false;
    } else {
      error = errno;
    }
  }
  return error;
}

}  // namespace cgroup_internal
}  // namespace hutch
