// `hutch doctor`: what this host offers, what it lacks, how to get it, and whether the walls hold when they are
// attacked. Needs no engine to report; exit code 0 when Hutch can run here, 1 when it cannot or must not.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "cli/doctor_attacks.h"
#include "cli/template_command.h"
#include "sandbox/features.h"

namespace hutch {

struct DoctorOptions {
  OutputFormat format = OutputFormat::text;
  bool verbose = false;    // the long sentences for what is fine too
  std::string delegate;    // give this user a control group, and do nothing else
  std::string undelegate;  // take it away again
};

enum class DoctorVerdict { ready, weaker_limits, cannot_run };
std::string_view name_of(DoctorVerdict verdict);

struct Diagnosis {
  Machine machine;
  std::vector<Check> checks;
  AttackReport report;
};

// A required check that failed, or an attack that was not seen to be blocked, is a host to stay away from; what is
// recommended and missing weakens the limits; a host's own hardening does not count.
DoctorVerdict verdict_of(const Diagnosis& diagnosis);

int doctor_command(const DoctorOptions& options);

}  // namespace hutch
