// The host's own settings: files under /proc/sys and /sys, each with the value that a host of untrusted code wants.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "sandbox/features.h"

namespace hutch {
namespace {

// A sysctl that is right between two values.
struct Setting {
  const char* name;  // "kernel.io_uring_disabled"
  long least;
  long most;
  long wanted;  // what the fix writes
  const char* protects;
  const char* without_it;
  const char* absent;  // what it means that the kernel has no such file, and what to do about it
};

constexpr long kAny = std::numeric_limits<long>::max();

constexpr Setting kSettings[] = {
    {"kernel.io_uring_disabled", 2, kAny, 2, "io_uring, a second door past system call filters, is shut for everybody",
     "only the sandbox's own filter keeps io_uring shut", "boot Linux 6.6 or later"},
    {"kernel.unprivileged_bpf_disabled", 1, kAny, 2, "only root may load programs into the kernel",
     "only the sandbox's own filter keeps bpf shut", "boot Linux 4.4 or later"},
    {"kernel.perf_event_paranoid", 3, kAny, 3,
     "performance counters are root's (3 means that on Debian, Ubuntu and Android kernels, 2 on others)",
     "only the sandbox's own filter keeps perf_event_open shut", "none needed: this kernel has no perf events"},
    {"kernel.yama.ptrace_scope", 1, kAny, 1, "a process may trace only its own children",
     "a program that got out would read the memory of every process of the same user",
     "boot a kernel with CONFIG_SECURITY_YAMA and yama in the lsm= list"},
    {"dev.tty.legacy_tiocsti", 0, 0, 0, "nothing can type into the terminal it was started from",
     "only the sandbox's own filter keeps a program from typing into a terminal", "boot Linux 6.2 or later"},
    {"vm.unprivileged_userfaultfd", 0, 0, 0, "userfaultfd, which makes kernel races easy to win, is root's",
     "only the sandbox's own filter keeps userfaultfd shut", "none needed: this kernel has no userfaultfd"},
    {"kernel.kptr_restrict", 1, kAny, 1, "kernel addresses are not shown", "a kernel bug is easier to use",
     "boot a newer kernel"},
    {"kernel.dmesg_restrict", 1, kAny, 1, "the kernel's log is root's", "kernel addresses and host events are readable",
     "boot a kernel with CONFIG_PRINTK"},
    {"vm.mmap_min_addr", 4096, kAny, 65536, "the page at address zero cannot be mapped",
     "a null pointer in the kernel can be turned into an escape", "boot a kernel with CONFIG_MMU"},
};

std::optional<std::string> read_text(const std::string& path) {
  std::ifstream file(path);
  if (!file) return std::nullopt;
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

std::string path_of(std::string name) {
  for (char& letter : name) {
    if (letter == '.') letter = '/';
  }
  return "/proc/sys/" + name;
}

Check check_setting(const std::string& root, const Setting& setting) {
  Check check{.id = std::string(setting.name),
              .title = setting.name,
              .level = CheckLevel::host,
              .protects = setting.protects,
              .without_it = setting.without_it,
              .how_to_fix = std::string("sudo sysctl -w ") + setting.name + "=" + std::to_string(setting.wanted)};
  const std::string path = root + path_of(setting.name);
  const auto text = read_text(path);
  if (!text || text->empty()) {
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored)) {
      check.status = CheckStatus::weak;
      check.value = "not readable";
      return check;
    }
    const bool harmless = std::string(setting.absent).starts_with("none needed");
    check.status = harmless ? CheckStatus::ok : CheckStatus::missing;
    check.value = "this kernel has no such setting";
    check.how_to_fix = setting.absent;
    return check;
  }
  const long value = std::strtol(text->c_str(), nullptr, 10);
  check.value = *text;
  check.status = value >= setting.least && value <= setting.most ? CheckStatus::ok : CheckStatus::weak;
  return check;
}

Check check_core_pattern(const std::string& root) {
  Check check{.id = "kernel.core_pattern",
              .title = "kernel.core_pattern",
              .level = CheckLevel::host,
              .value = read_text(root + "/proc/sys/kernel/core_pattern").value_or("not readable"),
              .protects = "memory of a crashed program is not handed to a program that runs as root",
              .without_it = "only RLIMIT_CORE=1 keeps a crash in a sandbox from reaching the host's core dump program",
              .how_to_fix = "sudo sysctl -w kernel.core_pattern=core"};
  if (check.value.starts_with('|')) check.status = CheckStatus::weak;
  return check;
}

Check check_huge_pages(const std::string& root) {
  const std::string all = read_text(root + "/sys/kernel/mm/transparent_hugepage/enabled").value_or("");
  const std::size_t open = all.find('[');
  const std::size_t close = all.find(']');
  Check check{.id = "transparent_huge_pages",
              .title = "transparent huge pages",
              .level = CheckLevel::recommended,
              .value = open < close && close != std::string::npos ? all.substr(open + 1, close - open - 1) : "none",
              .protects = "a sandbox shares the warm interpreter's memory page by page",
              .without_it = "the first write to a shared page copies 2 MiB: starts are slower and sandboxes larger",
              .how_to_fix = "echo madvise | sudo tee /sys/kernel/mm/transparent_hugepage/enabled"};
  if (check.value == "always") check.status = CheckStatus::weak;
  return check;
}

Check check_page_merging(const std::string& root) {
  const auto run = read_text(root + "/sys/kernel/mm/ksm/run");
  const bool on = run.value_or("0") == "1";
  return {.id = "ksm",
          .title = "merging of equal pages",
          .level = CheckLevel::host,
          .status = on ? CheckStatus::weak : CheckStatus::ok,
          .value = !run ? "none"
                   : on ? "on"
                        : "off",
          .protects = "a sandbox cannot tell from the time of a write what another one has in memory",
          .without_it = "contents of memory can be guessed across sandboxes",
          .how_to_fix = "echo 2 | sudo tee /sys/kernel/mm/ksm/run"};
}

Check check_threads(const std::string& root) {
  const std::string control = read_text(root + "/sys/devices/system/cpu/smt/control").value_or("unknown");
  return {.id = "smt",
          .title = "simultaneous threads",
          .level = CheckLevel::host,
          .status = control == "on" ? CheckStatus::weak : CheckStatus::ok,
          .value = control,
          .protects = "two programs never share the inside of one core",
          .without_it = "a sandbox may learn from shared caches what runs on the other half of its core",
          .how_to_fix = "echo off | sudo tee /sys/devices/system/cpu/smt/control"};
}

Check check_processor(const std::string& root) {
  std::map<std::string, std::string> vulnerable;
  std::size_t all = 0;
  std::error_code ignored;
  for (const auto& entry :
       std::filesystem::directory_iterator(root + "/sys/devices/system/cpu/vulnerabilities", ignored)) {
    const std::string text = read_text(entry.path().string()).value_or("");
    ++all;
    if (text.starts_with("Vulnerable")) vulnerable[entry.path().filename().string()] = text;
  }
  Check check{.id = "cpu_vulnerabilities",
              .title = "processor vulnerabilities",
              .level = CheckLevel::host,
              .value = std::to_string(all) + " known, none open",
              .protects = "programs cannot read memory that is not theirs through the processor",
              .without_it = "a sandbox may read other memory of this machine, slowly",
              .how_to_fix =
                  "install microcode and kernel updates (in a virtual machine: on its host), and boot "
                  "without mitigations=off"};
  if (all == 0) {
    check.status = CheckStatus::missing;
    check.value = "the kernel does not say";
  } else if (!vulnerable.empty()) {
    check.status = CheckStatus::weak;
    check.value = std::to_string(vulnerable.size()) + " of " + std::to_string(all) + " open:";
    for (const auto& [name, text] : vulnerable) check.value += " " + name;
  }
  return check;
}

}  // namespace

std::vector<Check> check_host_settings(const std::string& root) {
  std::vector<Check> checks;
  checks.push_back(check_huge_pages(root));
  for (const auto& setting : kSettings) checks.push_back(check_setting(root, setting));
  checks.push_back(check_core_pattern(root));
  checks.push_back(check_page_merging(root));
  checks.push_back(check_threads(root));
  checks.push_back(check_processor(root));
  return checks;
}

}  // namespace hutch
