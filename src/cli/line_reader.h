// Lines of our standard input. Another thread can call the waiting for one off.
#pragma once

#include <cstdint>
#include <expected>
#include <string>

#include "base/unique_fd.h"

namespace hutch {

enum class NoLine : std::uint8_t { end, called_off };

class LineReader {
 public:
  LineReader();
  std::expected<std::string, NoLine> next();  // without its end
  void call_off() const;                      // this waiting, or the next
  void forget_call() const;                   // one that came when nobody waited

 private:
  UniqueFd wake_;
  std::string pending_;
  bool ended_ = false;
};

}  // namespace hutch
