// What bodies, and answers, may take of the daemon's memory, all requests together: bodies while they are being read,
// and until nobody needs what they became; answers until they have been sent. Small ones always fit, and a key has at
// most half of what the others leave: so there is always something left for one more.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "session/task_group.h"

namespace hutch {

struct BodyCaps {
  std::size_t all = 256U << 20;
  std::size_t small = 64U << 10;  // of one; not counted
};

class BodyBudget {
 public:
  explicit BodyBudget(BodyCaps caps = {}) : caps_(caps) {}
  [[nodiscard]] std::size_t used() const { return used_; }

  class Share {  // of one
   public:
    Share(std::shared_ptr<BodyBudget> budget, std::string key_id)  // null: no limit
        : budget_(std::move(budget)), key_id_(std::move(key_id)) {}
    ~Share();
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;
    bool grow_to(std::size_t size);  // false: this key has had its part

   private:
    std::shared_ptr<BodyBudget> budget_;
    std::string key_id_;
    std::size_t taken_ = 0;
  };

 private:
  BodyCaps caps_;
  std::size_t used_ = 0;
  std::map<std::string, std::size_t> by_key_;
};

// A value takes up to some 100 bytes while it is parsed, however short it is written: with this many it is 200 MiB.
inline constexpr std::size_t kMostJsonValues = 2'000'000;
// Never fewer than `text` has. It need not be valid.
std::size_t count_json_values(std::string_view text);
// What each counts beside its text: about what it takes when it is kept. A body of 64 MiB with as many values as it may
// have just fits where nobody else has any.
inline constexpr std::size_t kBytesOfValue = 32;

// From the first byte to the last, however steadily they come.
inline constexpr Clock::duration kLongestBody = std::chrono::minutes(10);

}  // namespace hutch
