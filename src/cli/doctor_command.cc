#include "cli/doctor_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pwd.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <utility>

#include "base/unique_fd.h"
#include "cli/doctor_report.h"
#include "cli/report.h"
#include "sandbox/cgroup.h"
#include "sandbox/feature_probes.h"
#include "zygote/user_namespace.h"

namespace hutch {
namespace {

struct Account {
  uid_t uid = 0;
  gid_t gid = 0;
};

Result<Account> find_account(const std::string& who) {
  uid_t uid = 0;
  const auto [end, problem] = std::from_chars(who.data(), who.data() + who.size(), uid);
  const bool number = problem == std::errc{} && end == who.data() + who.size();
  const passwd* entry = number ? ::getpwuid(uid) : ::getpwnam(who.c_str());
  if (entry != nullptr) return Account{.uid = entry->pw_uid, .gid = entry->pw_gid};
  if (number) return Account{.uid = uid, .gid = uid};  // a uid without an account, as in a container
  return make_error(ErrorCode::not_found, "no user is called " + who).with_hint("name a user or a uid");
}

struct Parent {
  pid_t pid = 0;
  uid_t uid = 0;  // real
};

Parent read_process(pid_t pid) {
  Parent process;
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("PPid:")) process.pid = static_cast<pid_t>(std::strtol(line.c_str() + 5, nullptr, 10));
    if (line.starts_with("Uid:")) process.uid = static_cast<uid_t>(std::strtoul(line.c_str() + 4, nullptr, 10));
  }
  return process;
}

// The shell below which the user typed sudo: the nearest ancestor that runs as the user. 0 when there is none.
pid_t shell_of(uid_t uid) {
  for (pid_t pid = ::getppid(); pid > 1;) {
    const Parent process = read_process(pid);
    if (process.uid == uid) return pid;
    pid = process.pid;
  }
  return 0;
}

Result<std::string> change_delegation(const DoctorOptions& options) {
  const bool give = !options.delegate.empty();
  const std::string& who = give ? options.delegate : options.undelegate;
  if (::geteuid() != 0) {
    return make_error(ErrorCode::permission, "only root can hand out control groups")
        .with_hint(fmt::format("sudo hutch doctor --{} {}", give ? "delegate" : "undelegate", who));
  }
  HUTCH_TRY(const auto account, find_account(who));
  if (account.uid == 0) return make_error(ErrorCode::invalid_argument, "root needs no delegation");
  return give ? delegate_cgroup(account.uid, account.gid, shell_of(account.uid)) : undelegate_cgroup(account.uid);
}

// The first id that nobody's range in /etc/subuid or /etc/subgid reaches.
std::uint64_t first_free_id() {
  std::uint64_t free = 100'000;
  for (const char* path : {"/etc/subuid", "/etc/subgid"}) {
    std::ifstream file(path);
    std::string owner, first, count;
    while (std::getline(file, owner, ':') && std::getline(file, first, ':') && std::getline(file, count)) {
      free = std::max<std::uint64_t>(
          free, std::strtoull(first.c_str(), nullptr, 10) + std::strtoull(count.c_str(), nullptr, 10));
    }
  }
  return free;
}

std::string missing_for_own_ids() {
  const bool helpers = ::access("/usr/bin/newuidmap", X_OK) == 0 && ::access("/usr/bin/newgidmap", X_OK) == 0;
  if (!helpers) return "sudo apt install uidmap";
  if (::getpwuid(::geteuid()) == nullptr) return fmt::format("sudo useradd --uid {0} hutch-{0}", ::geteuid());
  return fmt::format("echo {}:{}:65536 | sudo tee -a /etc/subuid /etc/subgid", ::geteuid(), first_free_id());
}

// By the engine's own code, in a child.
Check check_own_ids() {
  Check check{
      .id = "own_ids",
      .title = "ids of its own per sandbox",
      .level = CheckLevel::recommended,
      .protects = "what the kernel counts by user (processes, pipes, pending signals, keys) is counted per sandbox",
      .without_it = "all sandboxes of a user share those counts, and a sandbox that got out would be that user",
      .how_to_fix = missing_for_own_ids()};
  const auto found = probe::in_child([]() -> Result<std::string> {
    const UniqueFd null{::open("/dev/null", O_WRONLY | O_CLOEXEC)};
    ::dup2(null.get(), STDERR_FILENO);  // newuidmap complains there; our own words are better
    HUTCH_TRY(become_namespace_root());
    HUTCH_TRY(const auto ids, IdAllocator::open());
    if (!ids.own_ids())
      return make_error(ErrorCode::unsupported, "no subordinate ids: every sandbox has the user's own");
    return "from a range of its own";
  });
  check.status = found ? CheckStatus::ok : CheckStatus::weak;
  check.value = found ? *found : found.error().message;
  return check;
}

Check check_engine(const Result<AttackReport>& report) {
  Check check{.id = "engine",
              .title = "a sandbox starts",
              .value = "works",
              .protects = "what this is all about",
              .without_it = "nothing runs, and the attacks could not be tried"};
  if (!report) {
    check.status = CheckStatus::missing;
    check.value = report.error().message;
    check.how_to_fix = report.error().hint.empty() ? "hutch run --template bare -c 'print(1)'" : report.error().hint;
  }
  return check;
}

}  // namespace

std::string_view name_of(DoctorVerdict verdict) {
  switch (verdict) {
    case DoctorVerdict::ready:
      return "ready";
    case DoctorVerdict::weaker_limits:
      return "ready with weaker limits";
    case DoctorVerdict::cannot_run:
      return "cannot run";
  }
  return "";
}

DoctorVerdict verdict_of(const Diagnosis& diagnosis) {
  const auto missing = [&](CheckLevel level) {
    return std::ranges::any_of(diagnosis.checks, [level](const Check& check) {
      return check.level == level && check.status == CheckStatus::missing;
    });
  };
  const bool held = std::ranges::all_of(
      diagnosis.report.attacks, [](const AttackResult& attack) { return attack.outcome == AttackOutcome::blocked; });
  if (!held || missing(CheckLevel::required)) return DoctorVerdict::cannot_run;
  return missing(CheckLevel::recommended) || diagnosis.report.weaker_limits ? DoctorVerdict::weaker_limits
                                                                            : DoctorVerdict::ready;
}

int doctor_command(const DoctorOptions& options) {
  if (!options.delegate.empty() || !options.undelegate.empty()) {
    const auto changed = change_delegation(options);
    if (!changed) {
      Report().error(changed.error().message, changed.error().hint);
      return 1;
    }
    fmt::print("{}{}", *changed, changed->ends_with('\n') ? "" : "\n");
    return 0;
  }
  ::signal(SIGPIPE, SIG_IGN);
  const char* place = std::getenv("HUTCH_CGROUP");
  Diagnosis diagnosis{.machine = Machine::read(), .checks = check_features(place != nullptr ? place : "")};
  diagnosis.checks.push_back(check_own_ids());
  std::ranges::move(check_host_settings(""), std::back_inserter(diagnosis.checks));

  const DoctorReport report(options.verbose);
  const bool text = options.format == OutputFormat::text;
  if (text) {
    report.machine(diagnosis.machine);
    report.checks(diagnosis.checks);
  }
  auto attacked = run_attacks();
  const Check engine = check_engine(attacked);
  if (text && engine.status != CheckStatus::ok) report.checks({engine});
  diagnosis.checks.push_back(engine);
  if (attacked) diagnosis.report = std::move(*attacked);
  if (text) {
    report.attacks(diagnosis.report);
    report.verdict(diagnosis);
  } else {
    fmt::print("{}\n", diagnosis_to_json(diagnosis));
  }
  return verdict_of(diagnosis) == DoctorVerdict::cannot_run ? 1 : 0;
}

}  // namespace hutch
