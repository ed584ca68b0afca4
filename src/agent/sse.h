// Server-sent events, out of bytes that come in any pieces. What a server sends is hostile: an event has a cap.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace hutch::agent {

inline constexpr std::size_t kMostEventBytes = 8 << 20;

struct SseEvent {
  std::string name;  // empty when the server named none
  std::string data;
};

class SseDecoder {
 public:
  explicit SseDecoder(std::size_t most_bytes = kMostEventBytes) : most_bytes_(most_bytes) {}

  // The events that this piece completes. After an error the stream is not to be read further.
  Result<std::vector<SseEvent>> feed(std::string_view piece);

 private:
  void end_line(std::vector<SseEvent>& events);
  void take_field(std::string_view name, std::string_view value);

  std::size_t most_bytes_;
  std::string line_;
  SseEvent event_;
  bool has_data_ = false;
  bool after_return_ = false;  // a line feed that follows belongs to the same line end
  bool at_start_ = true;       // where a byte order mark may stand
};

}  // namespace hutch::agent
