#include "sandbox/features.h"

#include <sched.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <sstream>
#include <string_view>

#include "sandbox/feature_probes.h"
#include "sandbox/landlock.h"

namespace hutch {
namespace {

using Probe = std::function<Result<std::string>()>;

std::string read_text(const std::string& path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

// Tries in a child, and fills in what came of it.
Check tried(Check check, const Probe& probe) {
  const auto result = probe::in_child(probe);
  check.status = result ? CheckStatus::ok : CheckStatus::missing;
  check.value = !result ? result.error().message : result->empty() ? "works" : *result;
  return check;
}

// The one setting that stands in the way, as far as the host tells.
std::string namespace_fix() {
  if (read_text("/proc/sys/user/max_user_namespaces") == "0") return "sudo sysctl -w user.max_user_namespaces=15000";
  if (::geteuid() != 0 && read_text("/proc/sys/kernel/unprivileged_userns_clone") == "0") {
    return "sudo sysctl -w kernel.unprivileged_userns_clone=1";
  }
  if (::geteuid() != 0 && read_text("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1") {
    return "sudo sysctl -w kernel.apparmor_restrict_unprivileged_userns=0";
  }
  return "in a container: docker run --security-opt seccomp=unconfined --security-opt apparmor=unconfined ...; "
         "otherwise boot a kernel with CONFIG_NAMESPACES and CONFIG_USER_NS";
}

std::string namespace_settings() {
  std::string found;
  for (const char* name : {"user/max_user_namespaces", "kernel/unprivileged_userns_clone",
                           "kernel/apparmor_restrict_unprivileged_userns"}) {
    const std::string value = read_text(std::string("/proc/sys/") + name);
    if (value.empty()) continue;
    std::string dotted = name;
    dotted[dotted.find('/')] = '.';
    found += (found.empty() ? "" : ", ") + dotted + "=" + value;
  }
  return found;
}

void check_namespaces(std::vector<Check>& checks) {
  Check user = tried({.id = "user_namespace",
                      .title = "user namespaces",
                      .protects = "a sandbox has ids and rights that mean nothing outside of it",
                      .without_it = "no sandbox can be made"},
                     probe::user_namespaces);
  user.value += (::geteuid() == 0 ? " as root" : " as uid " + std::to_string(::geteuid()));
  if (const auto settings = namespace_settings(); !settings.empty()) user.value += "; " + settings;
  user.how_to_fix = namespace_fix();
  checks.push_back(std::move(user));

  struct Kind {
    int flag;
    const char* name;
    const char* protects;
    const char* without_it;
  };
  constexpr Kind kKinds[] = {
      {CLONE_NEWPID, "pid", "a sandbox sees and signals only its own processes, and all of them end with it",
       "host processes would be visible and could be signalled"},
      {CLONE_NEWNS, "mount", "a sandbox has a file system of its own, read-only but for its scratch space",
       "host files would be in reach"},
      {CLONE_NEWNET, "net", "a sandbox has no network: no internet, no loopback services, no abstract sockets",
       "every service on this machine and its network would be in reach"},
      {CLONE_NEWIPC, "ipc", "shared memory, semaphores and message queues are the sandbox's own",
       "sandboxes could exchange data and outlive their end in kernel objects"},
      {CLONE_NEWUTS, "uts", "the host's name stays unknown", "the host's name would be readable"},
      {CLONE_NEWCGROUP, "cgroup", "the host's control group tree stays unknown",
       "the names of the host's services and containers would be readable"},
  };
  for (const Kind& kind : kKinds) {
    Check check = tried({.id = std::string(kind.name) + "_namespace",
                         .title = std::string(kind.name) + " namespace",
                         .protects = kind.protects,
                         .without_it = kind.without_it},
                        [&kind] { return probe::one_namespace(kind.flag); });
    check.how_to_fix = namespace_fix();
    checks.push_back(std::move(check));
  }
}

void check_mounts(std::vector<Check>& checks) {
  checks.push_back(tried(
      {.id = "mount_interface",
       .title = "file-descriptor mounts",
       .protects = "the sandbox's root is put together out of sight and locked before anything runs in it "
                   "(fsopen, open_tree, move_mount, mount_setattr)",
       .without_it = "no sandbox can be made",
       .how_to_fix = "boot Linux 5.12 or later; in a container: docker run --security-opt seccomp=unconfined ..."},
      probe::mount_interface));
  checks.push_back(tried({.id = "private_proc",
                          .title = "proc with subset=pid",
                          .protects = "a sandbox's /proc has its own processes and nothing of the host: no /proc/sys",
                          .without_it = "no sandbox can be made",
                          .how_to_fix = "boot Linux 5.8 or later; in a container: docker run --security-opt "
                                        "systempaths=unconfined ..."},
                         probe::private_proc));
}

void check_filter(std::vector<Check>& checks) {
  checks.push_back(tried({.id = "seccomp",
                          .title = "system call filter",
                          .protects = "most of the kernel is out of reach of untrusted code",
                          .without_it = "one kernel bug is enough to leave the sandbox",
                          .how_to_fix = "boot a kernel with CONFIG_SECCOMP_FILTER"},
                         probe::filters));
  checks.push_back(tried({.id = "seccomp_notification",
                          .title = "filter notifications",
                          .protects = "a forbidden call is reported to whoever runs the program",
                          .without_it = "the last step of making a sandbox fails",
                          .how_to_fix = "boot Linux 5.0 or later; inside another sandbox, run Hutch outside of it"},
                         probe::notification));
  checks.push_back(tried({.id = "seccomp_wait_killable",
                          .title = "killable notifications",
                          .level = CheckLevel::recommended,
                          .protects = "a call that is being reported is not restarted by each signal that arrives",
                          .without_it = "a program flooded with signals may be slow to have a forbidden call refused",
                          .how_to_fix = "boot Linux 5.19 or later"},
                         probe::killable_wait));
  if (checks.back().status == CheckStatus::missing) checks.back().status = CheckStatus::weak;
}

Check check_landlock() {
  Check check =
      tried({.id = "landlock",
             .title = "Landlock",
             .protects = "a second wall around files, and around TCP, abstract sockets and signals",
             .without_it = "one mistake in the mounts would be enough to reach a host file",
             .how_to_fix = "boot Linux 5.13 or later with landlock in the lsm= list of the kernel command line"},
            probe::landlock_rules);
  if (check.status != CheckStatus::ok) return check;
  const int abi = landlock::abi_version();
  std::string gives = "files";
  std::string lacks;
  const std::pair<int, const char*> kSteps[] = {
      {2, "renames across directories"}, {3, "truncate"},     {4, "TCP"}, {5, "device ioctls"},
      {6, "abstract sockets, signals"},  {7, "audit control"}};
  for (const auto& [since, what] : kSteps) {
    std::string& list = abi >= since ? gives : lacks;
    list += (list.empty() ? "" : ", ") + std::string(what);
  }
  check.value = "ABI " + std::to_string(abi) + ": " + gives;
  if (abi < 6) {
    check.status = CheckStatus::weak;
    check.value += "; not " + lacks;
    check.without_it = "these have one wall instead of two: " + lacks;
    check.how_to_fix = "boot Linux 6.12 or later";
  }
  return check;
}

void check_processes(std::vector<Check>& checks) {
  checks.push_back(tried({.id = "clone3",
                          .title = "clone3",
                          .protects = "a sandbox's first process is born inside its namespaces",
                          .without_it = "no sandbox can be made",
                          .how_to_fix = "boot Linux 5.3 or later; in a container, update its seccomp profile"},
                         probe::clone_with_arguments));
  checks.push_back(tried({.id = "pidfd",
                          .title = "pidfd",
                          .protects = "the process that is killed is the one that was meant, whatever its number",
                          .without_it = "a limit could kill a stranger",
                          .how_to_fix = "boot Linux 5.3 or later"},
                         probe::process_descriptors));
  checks.push_back(tried({.id = "close_range",
                          .title = "close_range",
                          .protects = "no descriptor of the engine is left open in a sandbox",
                          .without_it = "no sandbox can be made",
                          .how_to_fix = "boot Linux 5.9 or later"},
                         probe::closing_ranges));
  checks.push_back(tried({.id = "openat2",
                          .title = "openat2",
                          .protects = "a symbolic link in a workspace cannot lead to a host file",
                          .without_it = "files cannot be brought out of a sandbox",
                          .how_to_fix = "boot Linux 5.6 or later"},
                         probe::beneath_resolution));
  checks.push_back(tried({.id = "tid_address",
                          .title = "PR_GET_TID_ADDRESS",
                          .protects = "sandboxes are forked from an interpreter that is already warm",
                          .without_it = "only `hutch run --no-engine` works, which starts Python anew each time",
                          .how_to_fix = "boot a kernel with CONFIG_CHECKPOINT_RESTORE"},
                         probe::thread_id_address));
}

// Whether the memory limit of a group covers swap too. v1 shows the file at the top, v2 in every group but the top.
bool swap_is_counted(bool version_2) {
  std::istringstream mounts(read_text("/proc/self/mounts"));  // device, point, type, options
  for (std::string line; std::getline(mounts, line);) {
    std::istringstream fields(line);
    std::string device, point, type, options;
    fields >> device >> point >> type >> options;
    std::error_code ignored;
    if (!version_2 && type == "cgroup" && ("," + options + ",").contains(",memory,")) {
      return std::filesystem::exists(point + "/memory.memsw.limit_in_bytes", ignored);
    }
    if (!version_2 || type != "cgroup2") continue;
    if (std::filesystem::exists(point + "/memory.swap.max", ignored)) return true;
    for (const auto& group : std::filesystem::directory_iterator(point, ignored)) {
      if (std::filesystem::exists(group.path() / "memory.swap.max", ignored)) return true;
    }
  }
  return false;
}

Check check_swap(bool version_2) {
  Check check{.id = "swap_accounting",
              .title = "swap accounting",
              .level = CheckLevel::recommended,
              .protects = "the memory limit is a limit on memory and swap together",
              .without_it = "a sandbox at its memory limit goes on in swap, and slows the whole machine down",
              .how_to_fix = "boot with swapaccount=1, or: sudo swapoff -a"};
  const std::string swaps = read_text("/proc/swaps");
  const bool any = swaps.find('\n') != std::string::npos;  // the first line is a heading
  if (swap_is_counted(version_2)) {
    check.value = any ? "swap is counted" : "swap is counted; there is none";
  } else if (!any) {
    check.value = "swap is not counted, but there is none";
  } else {
    check.status = CheckStatus::weak;
    check.value = "swap is on and not counted";
  }
  return check;
}

void check_limits(std::vector<Check>& checks, const std::string& place) {
  const auto found = probe::in_child([&place] { return probe::control_groups(place); });
  Check groups{.id = "cgroup",
               .title = "control groups",
               .level = CheckLevel::recommended,
               .protects = "memory, processor time and processes of a whole sandbox are limited by the kernel",
               .without_it =
                   "`hutch run` refuses unless --weaker-limits is given: then rlimits per process and a "
                   "watchdog stand in, which react late and do not count what processes share"};
  const bool version_2 = found && found->starts_with("cgroup v2");
  if (found) {
    groups.value = *found;
  } else {
    constexpr std::string_view kRun = "Run: ";
    groups.status = CheckStatus::missing;
    groups.value = found.error().message;
    groups.how_to_fix = found.error().hint;
    if (groups.how_to_fix.starts_with(kRun)) groups.how_to_fix.erase(0, kRun.size());
  }
  checks.push_back(groups);
  if (found) checks.push_back(check_swap(version_2));

  Check into = tried({.id = "clone_into_cgroup",
                      .title = "CLONE_INTO_CGROUP",
                      .level = CheckLevel::recommended,
                      .protects = "with cgroup v2 a program is in its group before its first instruction",
                      .without_it = "cgroup v2 cannot be used",
                      .how_to_fix = "boot Linux 5.7 or later"},
                     probe::clone_into_cgroup);
  if (found && !version_2) {
    into.value += into.status == CheckStatus::ok ? "; not needed with cgroup v1" : " (not needed with cgroup v1)";
    into.status = CheckStatus::ok;
  }
  checks.push_back(std::move(into));
}

}  // namespace

std::vector<Check> check_features(const std::string& cgroup_place) {
  std::vector<Check> checks;
  check_namespaces(checks);
  check_mounts(checks);
  check_filter(checks);
  checks.push_back(check_landlock());
  check_processes(checks);
  check_limits(checks, cgroup_place);
  return checks;
}

Machine Machine::read() {
  Machine machine;
  utsname name{};
  if (::uname(&name) == 0) {
    machine.kernel = name.release;
    machine.architecture = name.machine;
  }
  cpu_set_t usable;
  CPU_ZERO(&usable);
  if (::sched_getaffinity(0, sizeof(usable), &usable) == 0)
    machine.processors = static_cast<std::uint32_t>(CPU_COUNT(&usable));
  struct sysinfo info{};
  if (::sysinfo(&info) == 0) machine.memory = std::uint64_t{info.totalram} * info.mem_unit;
  return machine;
}

}  // namespace hutch
