// How often tools may fail. An attempt is one execution of code; only those that fail are counted against the budget.
// An error is fixable when changing the code can help. Two in a row that are not end the tools as well: a model that
// goes on has not understood. Errors of a call that ran nothing cost no attempt; turns bound them.
#pragma once

#include <string>

#include "agent/agent_report.h"
#include "agent/hands.h"

namespace hutch::agent {

class ToolBudget {
 public:
  explicit ToolBudget(unsigned attempts) : left_(attempts) {}

  // Counts the outcome; returns what the model is told beside it, or nothing.
  std::string count(const HandOutcome& outcome);

  [[nodiscard]] bool is_spent() const { return left_ == 0 || unfixable_in_a_row_ >= 2; }
  [[nodiscard]] unsigned attempts() const { return attempts_; }
  [[nodiscard]] unsigned failed_attempts() const { return failed_attempts_; }
  // Why the tools ended, when it was not the number of attempts; otherwise its message is empty.
  [[nodiscard]] const AgentError& unfixable() const { return unfixable_; }

 private:
  unsigned left_;
  unsigned attempts_ = 0;
  unsigned failed_attempts_ = 0;
  unsigned unfixable_in_a_row_ = 0;
  AgentError unfixable_;
};

}  // namespace hutch::agent
