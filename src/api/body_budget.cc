#include "api/body_budget.h"

namespace hutch {

bool BodyBudget::Share::grow_to(std::size_t size) {
  if (!budget_ || size <= budget_->caps_.small || size <= taken_) return true;
  const std::size_t more = size - taken_;
  const auto of_key = budget_->by_key_.try_emplace(key_id_, 0).first;
  const std::size_t others = budget_->used_ - of_key->second;
  if (of_key->second + more > (budget_->caps_.all - others) / 2) {
    if (of_key->second == 0) budget_->by_key_.erase(of_key);
    return false;
  }
  budget_->used_ += more;
  of_key->second += more;
  taken_ = size;
  return true;
}

BodyBudget::Share::~Share() {
  if (taken_ == 0) return;
  budget_->used_ -= taken_;
  const auto of_key = budget_->by_key_.find(key_id_);
  of_key->second -= taken_;
  if (of_key->second == 0) budget_->by_key_.erase(of_key);
}

// Every value but the first follows one of these.
std::size_t count_json_values(std::string_view text) {
  std::size_t count = 1;
  bool in_string = false;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char letter = text[at];
    if (letter == '"') in_string = !in_string;
    if (in_string && letter == '\\') ++at;
    if (!in_string && (letter == ',' || letter == '[' || letter == ':')) ++count;
  }
  return count;
}

}  // namespace hutch
