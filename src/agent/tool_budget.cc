#include "agent/tool_budget.h"

#include <fmt/format.h>

namespace hutch::agent {
namespace {

bool has_failed(const HandOutcome& outcome) {
  return outcome.is_error || (!outcome.status.empty() && outcome.status != "ok" && outcome.status != "running");
}

// Leaving with a code of its own choice is the code's doing, though nobody else need act.
bool is_fixable(const HandOutcome& outcome) {
  return outcome.fix.empty() || outcome.fix == "change_code" || outcome.category == "system_exit";
}

std::string with_full_stop(std::string text) {
  if (!text.empty() && !text.ends_with('.')) text += '.';
  return text;
}

}  // namespace

std::string ToolBudget::count(const HandOutcome& outcome) {
  if (outcome.ran_code) ++attempts_;
  if (!has_failed(outcome)) {
    unfixable_in_a_row_ = 0;
    return {};
  }
  if (outcome.ran_code) {
    ++failed_attempts_;
    if (left_ > 0) --left_;
  }
  if (is_fixable(outcome)) {
    unfixable_in_a_row_ = 0;
    if (left_ == 0) return "No attempts are left.";
    return fmt::format("This can be fixed by changing the code; {} left.",
                       left_ == 1 ? "1 attempt is" : fmt::format("{} attempts are", left_));
  }
  ++unfixable_in_a_row_;
  if (is_spent()) {
    unfixable_ = {.message = "What went wrong cannot be fixed by changing the code.",
                  .hint = outcome.hint,
                  .category = outcome.category};
  }
  const std::string why = with_full_stop(!outcome.hint.empty() ? outcome.hint : outcome.category);
  return fmt::format("This cannot be fixed by changing the code: {} {}Answer with what you have.", why,
                     outcome.retryable && !is_spent() ? "The same call may work later; otherwise: " : "");
}

}  // namespace hutch::agent
