// What this host offers a sandbox, found out by trying: every wall is raised once in a child that ends at once, and
// every setting is read where the kernel keeps it. Nothing here is decided by a version number. For `hutch doctor`;
// needs a process with one thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hutch {

enum class CheckStatus { ok, weak, missing };
enum class CheckLevel {
  required,     // Hutch does not run without it
  recommended,  // Hutch runs, with a weaker limit or more slowly, and says so
  host,         // hardens the host itself; a second line behind the sandbox's own walls
};

struct Check {
  std::string id;
  std::string title;
  CheckLevel level = CheckLevel::required;
  CheckStatus status = CheckStatus::ok;
  std::string value;       // what was found
  std::string protects;    // what it is for
  std::string without_it;  // what is lost
  std::string how_to_fix;  // one command
};

constexpr std::string_view name_of(CheckStatus status) {
  switch (status) {
    case CheckStatus::ok:
      return "ok";
    case CheckStatus::weak:
      return "weak";
    case CheckStatus::missing:
      return "missing";
  }
  return "";
}

constexpr std::string_view name_of(CheckLevel level) {
  switch (level) {
    case CheckLevel::required:
      return "required";
    case CheckLevel::recommended:
      return "recommended";
    case CheckLevel::host:
      return "host hardening";
  }
  return "";
}

// Namespaces, mounts, system call filter, Landlock, processes, control groups. `cgroup_place` is
// CgroupSearch::place.
std::vector<Check> check_features(const std::string& cgroup_place);

// Settings of the host. `root` is where /proc and /sys are: "" outside of tests.
std::vector<Check> check_host_settings(const std::string& root);

struct Machine {
  std::string kernel;  // release
  std::string architecture;
  std::uint32_t processors = 0;  // that this process may use
  std::uint64_t memory = 0;      // bytes
  static Machine read();
};

}  // namespace hutch
