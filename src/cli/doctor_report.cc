#include "cli/doctor_report.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <boost/json.hpp>
#include <cstdio>
#include <cstdlib>

#include "base/utf8.h"
#include "cli/report.h"

namespace hutch {

namespace json = boost::json;

namespace {

constexpr const char* kRed = "31";
constexpr const char* kGreen = "32";
constexpr const char* kYellow = "33";
constexpr const char* kDim = "2";
constexpr const char* kBold = "1";

constexpr int kTitleWidth = 32;
constexpr int kStatusWidth = 8;
constexpr std::size_t kMostValue = 100;

const char* colour_of(CheckStatus status) {
  switch (status) {
    case CheckStatus::ok:
      return kGreen;
    case CheckStatus::weak:
      return kYellow;
    case CheckStatus::missing:
      return kRed;
  }
  return kRed;
}

// Short enough for a row; --verbose and --json have all of it.
std::string shortened(const std::string& text, bool verbose) {
  std::string shown = printable(text);
  if (verbose || shown.size() <= kMostValue) return shown;
  shown.resize(complete_utf8_prefix(std::string_view(shown).substr(0, kMostValue)));
  return shown + " ...";
}

std::string_view heading(CheckLevel level) {
  switch (level) {
    case CheckLevel::required:
      return "Required";
    case CheckLevel::recommended:
      return "Recommended: limits and speed";
    case CheckLevel::host:
      return "Host hardening: a second line behind the sandbox's own walls";
  }
  return "";
}

std::string_view name_of(AttackOutcome outcome) {
  switch (outcome) {
    case AttackOutcome::blocked:
      return "blocked";
    case AttackOutcome::escaped:
      return "ESCAPED";
    case AttackOutcome::unclear:
      return "unclear";
  }
  return "";
}

}  // namespace

DoctorReport::DoctorReport(bool verbose)
    : verbose_(verbose), colour_(::isatty(STDOUT_FILENO) == 1 && std::getenv("NO_COLOR") == nullptr) {}

std::string DoctorReport::paint(const char* code, const std::string& text) const {
  return colour_ ? fmt::format("\x1b[{}m{}\x1b[0m", code, text) : text;
}

void DoctorReport::machine(const Machine& machine) const {
  fmt::print("{}\n", paint(kBold, fmt::format("Linux {} on {}, {} processors, {}", machine.kernel, machine.architecture,
                                              machine.processors, show_size(machine.memory))));
}

void DoctorReport::row(const Check& check) const {
  const std::string status = fmt::format("{:<{}}", hutch::name_of(check.status), kStatusWidth);
  fmt::print("  {} {:<{}} {}\n", paint(colour_of(check.status), status), check.title, kTitleWidth,
             shortened(check.value, verbose_));
  const bool fine = check.status == CheckStatus::ok;
  const auto more = [this](std::string_view label, const std::string& text) {
    if (!text.empty()) fmt::print("{:{}}{}\n", "", kStatusWidth + 3, paint(kDim, fmt::format("{}: {}", label, text)));
  };
  if (verbose_) more("protects", check.protects);
  if (verbose_ || !fine) more("without it", check.without_it);
  if (!fine) more("fix", check.how_to_fix);
}

void DoctorReport::checks(const std::vector<Check>& checks) const {
  for (const auto level : {CheckLevel::required, CheckLevel::recommended, CheckLevel::host}) {
    if (std::ranges::none_of(checks, [level](const Check& check) { return check.level == level; })) continue;
    fmt::print("\n{}\n", paint(kBold, std::string(heading(level))));
    for (const auto& check : checks) {
      if (check.level == level) row(check);
    }
  }
  std::fflush(stdout);  // the attacks take a few seconds
}

void DoctorReport::attacks(const AttackReport& report) const {
  if (report.attacks.empty()) return;
  fmt::print("\n{}\n", paint(kBold, "Attacks on a sandbox of this host"));
  if (report.weaker_limits) fmt::print("  with --weaker-limits, because there are no control groups here\n");
  for (const auto& attack : report.attacks) {
    const bool blocked = attack.outcome == AttackOutcome::blocked;
    const std::string outcome = fmt::format("{:<{}}", name_of(attack.outcome), kStatusWidth);
    fmt::print("  {} {:<{}} {}\n", paint(blocked ? kGreen : kRed, outcome), attack.name, kTitleWidth / 2,
               shortened(attack.evidence, verbose_));
    if (verbose_ || !blocked) {
      fmt::print("{:{}}{}\n", "", kStatusWidth + 3,
                 paint(kDim, "tries to " + attack.tries + "; held by: " + attack.wall));
    }
  }
}

void DoctorReport::verdict(const Diagnosis& diagnosis) const {
  const DoctorVerdict verdict = verdict_of(diagnosis);
  const auto count = [&](CheckStatus status) { return std::ranges::count(diagnosis.checks, status, &Check::status); };
  const auto blocked = std::ranges::count(diagnosis.report.attacks, AttackOutcome::blocked, &AttackResult::outcome);
  const char* colour = verdict == DoctorVerdict::ready           ? kGreen
                       : verdict == DoctorVerdict::weaker_limits ? kYellow
                                                                 : kRed;
  fmt::print("\n{}: {} ok, {} weak, {} missing; {} of {} attacks blocked\n",
             paint(colour, std::string(hutch::name_of(verdict))), count(CheckStatus::ok), count(CheckStatus::weak),
             count(CheckStatus::missing), blocked, diagnosis.report.attacks.size());
}

std::string diagnosis_to_json(const Diagnosis& diagnosis) {
  json::array checks;
  for (const auto& check : diagnosis.checks) {
    checks.push_back(json::object{{"id", check.id},
                                  {"title", check.title},
                                  {"level", hutch::name_of(check.level)},
                                  {"status", hutch::name_of(check.status)},
                                  {"value", clean_utf8(check.value)},
                                  {"protects", check.protects},
                                  {"without_it", check.without_it},
                                  {"how_to_fix", check.how_to_fix}});
  }
  json::array attacks;
  for (const auto& attack : diagnosis.report.attacks) {
    attacks.push_back(json::object{{"name", attack.name},
                                   {"tries", attack.tries},
                                   {"outcome", name_of(attack.outcome)},
                                   {"evidence", clean_utf8(attack.evidence)},
                                   {"wall", attack.wall}});
  }
  const auto& machine = diagnosis.machine;
  return json::serialize(json::object{{"verdict", hutch::name_of(verdict_of(diagnosis))},
                                      {"weaker_limits", diagnosis.report.weaker_limits},
                                      {"checks", std::move(checks)},
                                      {"attacks", std::move(attacks)},
                                      {"machine",
                                       {{"kernel", machine.kernel},
                                        {"arch", machine.architecture},
                                        {"cpus", machine.processors},
                                        {"memory", machine.memory}}}});
}

}  // namespace hutch
