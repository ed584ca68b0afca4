#include "zygote/user_namespace.h"

#include <fcntl.h>
#include <pwd.h>
#include <sched.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

#include "base/unique_fd.h"

namespace hutch {
namespace {

// Above what systemd, containers and ordinary accounts use (systemd stops at 1,879,048,191).
constexpr std::uint32_t kFirstHostId = 1'900'000'000;
constexpr std::uint32_t kHostIdCount = 200'000'000;

constexpr const char* kNamespaceHint =
    "allow unprivileged user namespaces (sysctl user.max_user_namespaces > 0, kernel.unprivileged_userns_clone=1, and "
    "on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0), or run as root; `hutch doctor` shows which is missing";

struct Range {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
};

Result<void> write_file(const char* path, const std::string& text) {
  const UniqueFd file{::open(path, O_WRONLY | O_CLOEXEC)};
  if (!file || ::write(file.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
    return system_error(errno).during(std::string("write ") + path);
  }
  return {};
}

// Lines are name-or-id:first:count.
std::optional<Range> subordinate_ids(const char* path, uid_t uid) {
  const passwd* account = ::getpwuid(uid);
  const std::string name = account != nullptr ? account->pw_name : "";
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::istringstream parts(line);
    std::string owner;
    std::string first;
    std::string count;
    if (!std::getline(parts, owner, ':') || !std::getline(parts, first, ':') || !std::getline(parts, count)) continue;
    if (owner != name && owner != std::to_string(uid)) continue;
    const Range range{.first = static_cast<std::uint32_t>(std::strtoul(first.c_str(), nullptr, 10)),
                      .count = static_cast<std::uint32_t>(std::strtoul(count.c_str(), nullptr, 10))};
    if (range.first > 0 && range.count >= 2) return range;
  }
  return std::nullopt;
}

// newuidmap and newgidmap are the set-uid helpers that may map subordinate ids.
bool run_helper(const char* program, pid_t target, uid_t self, Range range) {
  const std::string pid = std::to_string(target);
  const std::string own = std::to_string(self);
  const std::string first = std::to_string(range.first);
  const std::string count = std::to_string(range.count);
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {
    ::execl(program, program, pid.c_str(), "0", own.c_str(), "1", "1", first.c_str(), count.c_str(), nullptr);
    ::_exit(127);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// A child stays outside, where the helpers may act on us, until we are in the new namespace.
bool map_subordinate_ids(Range uids, Range gids, uid_t uid, gid_t gid, Result<void>& unshared) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) != 0) return false;
  const UniqueFd ours{sockets[0]};
  const UniqueFd theirs{sockets[1]};
  const pid_t target = ::getpid();
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) {
    char go = 0;
    const bool mapped = ::read(theirs.get(), &go, 1) == 1 && go == 'y' &&
                        run_helper("/usr/bin/newuidmap", target, uid, uids) &&
                        run_helper("/usr/bin/newgidmap", target, gid, gids);
    ::_exit(mapped ? 0 : 1);
  }
  if (::unshare(CLONE_NEWUSER) != 0) unshared = system_error(errno).during("new user namespace");
  [[maybe_unused]] const auto sent = ::write(ours.get(), unshared ? "y" : "n", 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace

Result<void> become_namespace_root() {
  const uid_t uid = ::geteuid();
  const gid_t gid = ::getegid();
  if (uid == 0) return {};
  const auto uids = subordinate_ids("/etc/subuid", uid);
  const auto gids = subordinate_ids("/etc/subgid", uid);
  if (uids && gids && ::access("/usr/bin/newuidmap", X_OK) == 0 && ::access("/usr/bin/newgidmap", X_OK) == 0) {
    Result<void> unshared;
    const bool mapped = map_subordinate_ids(*uids, *gids, uid, gid, unshared);
    if (!unshared) return std::move(unshared).error().with_hint(kNamespaceHint);
    if (mapped) return {};
  } else if (::unshare(CLONE_NEWUSER) != 0) {
    return system_error(errno).during("new user namespace").with_hint(kNamespaceHint);
  }
  HUTCH_TRY(write_file("/proc/self/setgroups", "deny"));  // the kernel's condition for mapping a group oneself
  HUTCH_TRY(write_file("/proc/self/uid_map", std::to_string(kOnlyId) + " " + std::to_string(uid) + " 1\n"));
  return write_file("/proc/self/gid_map", std::to_string(kOnlyId) + " " + std::to_string(gid) + " 1\n");
}

Result<IdAllocator> IdAllocator::open() {
  std::ifstream file("/proc/self/uid_map");
  Range widest;
  for (std::uint64_t inside = 0, outside = 0, count = 0; file >> inside >> outside >> count;) {
    if (count > widest.count) {
      widest = {.first = static_cast<std::uint32_t>(inside), .count = static_cast<std::uint32_t>(count)};
    }
  }
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  const std::uint64_t end = std::uint64_t{widest.first} + widest.count;
  if (widest.first <= kFirstHostId && end >= std::uint64_t{kFirstHostId} + kHostIdCount) {
    first = kFirstHostId;
    count = kHostIdCount;
  } else if (widest.count >= 4) {
    first = widest.first + widest.count / 2;  // the upper half of a container's or a user's range
    count = widest.count / 2;
  }
  // Two engines of one user must not walk in step.
  std::uint32_t start = 0;
  if (::getrandom(&start, sizeof(start), 0) != sizeof(start)) return system_error(errno).during("getrandom");
  return IdAllocator(first, count, start);
}

Result<IdMap> IdAllocator::next() {
  if (!own_ids()) {
    return IdMap{
        .init_inside = kRunnerId, .runner_inside = kRunnerId, .init_outside = kOnlyId, .runner_outside = kOnlyId};
  }
  const std::uint32_t pairs = count_ / 2;
  if (live_->size() >= pairs) return make_error(ErrorCode::limit, "every id that we may use has a sandbox");
  std::uint32_t pair = next_++ % pairs;
  while (!live_->insert(pair).second) pair = next_++ % pairs;  // a session may live until the walk comes around
  const auto forget = [live = live_, pair](const void*) { live->erase(pair); };
  return IdMap{.init_inside = 0,
               .runner_inside = kRunnerId,
               .init_outside = first_ + 2 * pair,
               .runner_outside = first_ + 2 * pair + 1,
               .held = std::shared_ptr<const void>(live_.get(), forget)};
}

}  // namespace hutch
