#include "sandbox/cgroup_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <iterator>
#include <utility>

#include "sandbox/kernel.h"

namespace hutch::cgroup_internal {
namespace {

constexpr std::size_t kMostFileBytes = 4U << 20;
constexpr std::string_view kNameStart = "box-";

struct NamedController {
  std::string_view name;
  Controllers bit;
};
constexpr NamedController kControllers[] = {{"memory", kMemory}, {"cpu", kCpu}, {"cpuacct", kCpuacct}, {"pids", kPids}};

// Takes the text up to the separator off the front of `rest`.
std::string_view take(std::string_view& rest, char separator) {
  const std::size_t end = std::min(rest.find(separator), rest.size());
  const std::string_view head = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return head;
}

template <class Number>
std::optional<Number> to_number(std::string_view text) {
  Number value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// mountinfo writes space, tab, newline and backslash as three octal digits.
std::string unescape(std::string_view text) {
  std::string out;
  const auto octal = [&](std::size_t i) { return i < text.size() && text[i] >= '0' && text[i] <= '7'; };
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && octal(i + 1) && octal(i + 2) && octal(i + 3)) {
      out += static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 + (text[i + 3] - '0'));
      i += 3;
    } else {
      out += text[i];
    }
  }
  return out;
}

std::optional<Mount> parse_mount(std::string_view line) {
  take(line, ' ');  // mount id
  take(line, ' ');  // parent
  take(line, ' ');  // device
  Mount mount;
  mount.root = unescape(take(line, ' '));
  mount.point = unescape(take(line, ' '));
  take(line, ' ');                                           // options
  while (!line.empty() && take(line, ' ') != "-") continue;  // optional fields end with a dash
  const std::string_view type = take(line, ' ');
  take(line, ' ');  // source
  if (mount.root.empty() || mount.point.empty()) return std::nullopt;
  if (type == "cgroup2") return mount;
  if (type != "cgroup") return std::nullopt;
  mount.version = CgroupVersion::v1;
  mount.controllers = parse_controllers(line, ',');
  return mount;
}

// Fields of /proc/<pid>/stat after the name, which may hold anything: the state is field 0, the start time field 19.
struct ProcessStat {
  char state = '?';
  std::uint64_t start_time = 0;
};
std::optional<ProcessStat> parse_stat(std::string_view text) {
  const std::size_t name_end = text.rfind(')');
  if (name_end == std::string_view::npos || text.size() < name_end + 3) return std::nullopt;
  std::string_view rest = text.substr(name_end + 2);
  const char state = rest.front();
  for (int field = 0; field < 19; ++field) take(rest, ' ');
  const auto start = to_number<std::uint64_t>(take(rest, ' '));
  if (!start) return std::nullopt;
  return ProcessStat{.state = state, .start_time = *start};
}

}  // namespace

Controllers parse_controllers(std::string_view text, char separator) {
  Controllers found = 0;
  while (!text.empty()) {
    std::string_view word = take(text, separator);
    while (!word.empty() && word.back() == '\n') word.remove_suffix(1);
    for (const auto& [name, bit] : kControllers) {
      if (word == name) found |= bit;
    }
  }
  return found;
}

std::string names_of(Controllers controllers) {
  std::string out;
  for (const auto& [name, bit] : kControllers) {
    if ((controllers & bit) != 0) out += (out.empty() ? "" : ", ") + std::string(name);
  }
  return out;
}

std::vector<Mount> parse_mounts(std::string_view mountinfo) {
  std::vector<Mount> mounts;
  while (!mountinfo.empty()) {
    if (auto mount = parse_mount(take(mountinfo, '\n'))) mounts.push_back(std::move(*mount));
  }
  return mounts;
}

std::vector<Membership> parse_memberships(std::string_view self_text) {
  std::vector<Membership> memberships;
  while (!self_text.empty()) {
    std::string_view line = take(self_text, '\n');
    const std::string_view number = take(line, ':');
    const std::string_view names = take(line, ':');
    if (line.empty() || line.front() != '/') continue;
    const bool unified = number == "0" && names.empty();
    memberships.push_back({.version = unified ? CgroupVersion::v2 : CgroupVersion::v1,
                           .controllers = parse_controllers(names, ','),
                           .path = std::string(line)});
  }
  return memberships;
}

std::optional<std::string> own_path(const Mount& mount, std::span<const Membership> memberships) {
  for (const Membership& membership : memberships) {
    if (membership.version != mount.version) continue;
    if (mount.version == CgroupVersion::v1 && (membership.controllers & mount.controllers) == 0) continue;
    const std::string root = mount.root == "/" ? "" : mount.root;
    const std::string& path = membership.path;
    // A path with ".." is that of a process outside the cgroup namespace through which it is seen.
    if (!path.starts_with(root) || path.contains("/..")) return std::nullopt;
    const std::string below = path.substr(root.size());
    if (!below.empty() && below.front() != '/') return std::nullopt;
    return below.empty() ? "" : below.substr(1);
  }
  return std::nullopt;
}

std::string delegated_name(uid_t uid) { return "hutch-" + std::to_string(uid); }

std::vector<Candidate> candidates(const CgroupSearch& search) {
  using Kind = Candidate::Kind;
  if (!search.place.empty()) return {{.kind = Kind::made, .path = search.place}};
  if (search.uid == 0) {
    return {{.kind = Kind::made, .path = "hutch", .processors_beside_us = true}, {.kind = Kind::own, .path = ""}};
  }
  return {{.kind = Kind::own, .path = ""}, {.kind = Kind::delegated, .path = delegated_name(search.uid)}};
}

Result<UniqueFd> open_directory(int base, const std::string& path) {
  UniqueFd fd{::openat(base, path.empty() ? "." : path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC)};
  if (!fd) return system_error(errno).during("open " + path);
  return fd;
}

Result<UniqueFd> open_file(int directory, const std::string& path, int flags) {
  UniqueFd fd{::openat(directory, path.c_str(), flags | O_CLOEXEC | O_NOFOLLOW)};
  if (!fd) return system_error(errno).during("open " + path);
  return fd;
}

Result<std::string> read_file(int directory, const std::string& path) {
  HUTCH_TRY(const auto fd, open_file(directory, path, O_RDONLY));
  std::string text;
  std::array<char, 4096> buffer;
  while (text.size() < kMostFileBytes) {
    const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return system_error(errno).during("read " + path);
    if (count == 0) break;
    text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return text;
}

Result<void> write_file(int directory, const std::string& path, std::string_view text) {
  HUTCH_TRY(const auto fd, open_file(directory, path, O_WRONLY));
  ssize_t count = 0;
  do {
    count = ::write(fd.get(), text.data(), text.size());
  } while (count < 0 && errno == EINTR);
  if (count < 0) return system_error(errno).during("write " + std::string(text) + " to " + path);
  return {};
}

bool may_write(int directory, const std::string& path) {
  return ::faccessat(directory, path.c_str(), W_OK, AT_EACCESS) == 0;
}

Result<UniqueFd> make_directory(int parent, const std::string& name, OnMade on_made) {
  const bool is_new = ::mkdirat(parent, name.c_str(), 0755) == 0;
  if (!is_new && errno != EEXIST) return system_error(errno).during("make " + name);
  HUTCH_TRY(auto directory, open_directory(parent, name));
  if (is_new && on_made != nullptr) on_made(directory.get());
  return directory;
}

std::vector<std::string> list_groups(int directory) {
  std::vector<std::string> names;
  UniqueFd fd{::openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC)};
  DIR* stream = fd ? ::fdopendir(fd.get()) : nullptr;
  if (stream == nullptr) return names;
  (void)fd.release();  // the stream owns it now
  while (const dirent* entry = ::readdir(stream)) {
    if (std::string_view(entry->d_name).starts_with(kNameStart)) names.emplace_back(entry->d_name);
  }
  ::closedir(stream);
  return names;
}

Result<void> give(int directory, std::span<const char* const> files, uid_t uid, gid_t gid) {
  for (const char* file : files) {
    if (::fchownat(directory, file, uid, gid, AT_SYMLINK_NOFOLLOW) != 0) {
      return system_error(errno).during("give away " + std::string(file));
    }
  }
  return {};
}

std::optional<std::uint64_t> find_number(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = take(text, '\n');
    if (key.empty()) return to_number<std::uint64_t>(line);
    if (take(line, ' ') == key) return to_number<std::uint64_t>(line);
  }
  return std::nullopt;
}

Result<std::uint64_t> read_number(int directory, const std::string& path, std::string_view key) {
  HUTCH_TRY(const std::string text, read_file(directory, path));
  const auto number = find_number(text, key);
  if (!number) return make_error(ErrorCode::internal, "no " + std::string(key) + " in a control group's file");
  return *number;
}

// The rlimit counts forks that are under way, the control group counts them later; each has a parent that it counts
// already. So whoever was refused by the rlimit had half of what the control group allows, init aside.
Result<std::uint64_t> process_limit_hits(int directory, const Group& group) {
  HUTCH_TRY(const std::uint64_t refused, read_number(directory, group.file("pids.events"), "max"));
  if (refused > 0 || !group.tree->knows_most_processes || !group.applied) return refused;
  const auto most = read_number(directory, group.file("pids.peak"), "");
  return most && *most > 0 && 2 * (*most - 1) >= group.applied->processes ? 1 : 0;
}

std::vector<pid_t> read_members(const MemberList& list) {
  std::vector<pid_t> members;
  // Opened anew each time: on v1 a descriptor that was read once goes on showing the old list for a second.
  const auto text = read_file(list.directory, list.path);
  if (!text) return members;
  std::string_view rest = *text;
  while (!rest.empty()) {
    const auto pid = to_number<pid_t>(take(rest, '\n'));
    if (pid && *pid > 0) members.push_back(*pid);  // 0 stands for a process that this pid namespace does not see
  }
  return members;
}

// v1 lists threads. By the /proc of this process's own pid namespace, in which the lists are read; asked for after the
// list was read, so that each of theirs that is in it is among these.
std::vector<pid_t> threads_of(std::span<const pid_t> processes) {
  std::vector<pid_t> threads{::getpid()};  // never this process, whatever a list says
  for (const pid_t pid : processes) {
    threads.push_back(pid);
    DIR* const tasks = ::opendir(("/proc/" + std::to_string(pid) + "/task").c_str());
    if (tasks == nullptr) continue;
    while (const dirent* task = ::readdir(tasks)) {
      if (const auto thread = to_number<pid_t>(task->d_name)) threads.push_back(*thread);
    }
    ::closedir(tasks);
  }
  return threads;
}

bool kill_members(std::span<const MemberList> lists, std::span<const pid_t> spared) {
  const auto read_all = [&] {
    std::vector<pid_t> all;
    for (const MemberList& list : lists) std::ranges::copy(read_members(list), std::back_inserter(all));
    std::ranges::sort(all);
    all.erase(std::ranges::unique(all).begin(), all.end());
    return all;
  };
  constexpr int kMostRounds = 100;
  std::vector<pid_t> signalled;
  for (int round = 0; round < kMostRounds; ++round) {
    std::vector<pid_t> fresh = read_all();
    const std::vector<pid_t> kept = threads_of(spared);
    std::erase_if(fresh, [&](pid_t pid) { return std::ranges::find(kept, pid) != kept.end(); });
    if (fresh.empty()) return true;
    std::erase_if(fresh, [&](pid_t pid) { return std::ranges::find(signalled, pid) != signalled.end(); });
    if (fresh.empty()) return false;
    // A number may have passed to a stranger since it was read. A pidfd holds on to whoever has it now, and only one
    // that is listed still, after that, is a member.
    std::vector<UniqueFd> held;
    for (const pid_t pid : fresh) held.emplace_back(kernel::pidfd_open(pid));
    const std::vector<pid_t> still = read_all();
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      if (!std::ranges::binary_search(still, fresh[i])) continue;
      // Threads that are not the leader of their process have no pidfd before Linux 6.9.
      if (held[i]) {
        kernel::pidfd_send_signal(held[i].get(), SIGKILL);
      } else {
        ::kill(fresh[i], SIGKILL);
      }
      signalled.push_back(fresh[i]);
    }
  }
  return false;
}

Result<Maker> this_maker(int proc) {
  std::array<char, 64> link{};
  const ssize_t length = ::readlinkat(proc, "self/ns/pid", link.data(), link.size());
  if (length < 0) return system_error(errno).during("read /proc/self/ns/pid");
  std::string_view space{link.data(), static_cast<std::size_t>(length)};  // pid:[4026531836]
  take(space, '[');
  const auto number = to_number<std::uint64_t>(take(space, ']'));
  HUTCH_TRY(const std::string text, read_file(proc, "self/stat"));
  const auto stat = parse_stat(text);
  if (!number || !stat) return make_error(ErrorCode::internal, "/proc/self has an unknown form");
  return Maker{.pid_namespace = *number, .pid = ::getpid(), .start_time = stat->start_time};
}

std::string name_prefix(const Maker& maker) {
  return std::string(kNameStart) + std::to_string(maker.pid_namespace) + "-" + std::to_string(maker.pid) + "-" +
         std::to_string(maker.start_time) + "-";
}

std::optional<Maker> parse_name(std::string_view name) {
  if (!name.starts_with(kNameStart)) return std::nullopt;
  name.remove_prefix(kNameStart.size());
  const auto space = to_number<std::uint64_t>(take(name, '-'));
  const auto pid = to_number<pid_t>(take(name, '-'));
  const auto start = to_number<std::uint64_t>(take(name, '-'));
  if (!space || !pid || *pid <= 0 || !start || !to_number<std::uint64_t>(name)) return std::nullopt;
  return Maker{.pid_namespace = *space, .pid = *pid, .start_time = *start};
}

bool is_dead(const Maker& maker, std::uint64_t own_pid_namespace, int proc) {
  if (maker.pid_namespace != own_pid_namespace) return false;
  if (::kill(maker.pid, 0) != 0 && errno == ESRCH) return true;
  const auto text = read_file(proc, std::to_string(maker.pid) + "/stat");
  const auto stat = text ? parse_stat(*text) : std::nullopt;
  if (!stat) return false;  // it may be hidden from us: alive until proved otherwise
  return stat->start_time != maker.start_time || stat->state == 'Z';
}

}  // namespace hutch::cgroup_internal
