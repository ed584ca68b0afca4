// The forbidden system calls of one run. The filter announces them on a listener; we answer each with an error, never
// anything else, and count. The program's memory is never read: what it points to may change under our eyes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "wire/record.h"

namespace hutch {

class Denials {
 public:
  // Answers one announcement; false when the listener is of no more use.
  bool answer_one(int listener);
  [[nodiscard]] std::uint64_t total() const { return total_; }
  [[nodiscard]] std::vector<wire::Denial> report() const;

 private:
  std::map<std::pair<int, std::string>, std::uint64_t> counts_;
  std::uint64_t total_ = 0;
};

}  // namespace hutch
