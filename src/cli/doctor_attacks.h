// Doctor's attacks on Hutch itself: small Python programs that try to leave a sandbox, or to use more than their
// limits. Each does no harm if it succeeds, and what it is after (a file, a secret, a socket) is planted by the doctor,
// so that success is seen from outside.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace hutch {

enum class AttackOutcome {
  blocked,
  escaped,
  unclear,  // the sandbox did not start, or the program ended without a verdict
};

struct AttackResult {
  std::string name;
  std::string tries;  // what the program attempts
  AttackOutcome outcome = AttackOutcome::unclear;
  std::string evidence;
  std::string wall;  // what held
};

struct AttackReport {
  std::vector<AttackResult> attacks;
  bool weaker_limits = false;  // there are no control groups, so rlimits and the watchdog were attacked
};

// Through the user's engine, which is started when there is none and then stopped again. An error when no
// sandbox can be started at all.
Result<AttackReport> run_attacks();

}  // namespace hutch
