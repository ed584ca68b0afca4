// Everything that was said, turn by turn, for whoever wants to know later why the answer is what it is. The key is in
// none of it, because it is in no message.
#pragma once

#include <boost/json.hpp>
#include <cstddef>
#include <string_view>

#include "agent/dialect.h"
#include "agent/turn.h"

namespace hutch::agent {

inline constexpr std::size_t kLargestKeptImage = 100 << 10;

class Transcript {
 public:
  // What every request of the conversation has in common.
  void begin(const ModelDialect& dialect, const TurnRequest& request);
  // A request, by what is new in it since the one before. `words` are ours, and may be part of an older message.
  void add_request(const TurnRequest& request, std::string_view words);
  void add_answer(const Turn& turn, double seconds);
  void add_failure(std::string_view message, double seconds);
  boost::json::object take();

 private:
  boost::json::object object_;
  boost::json::array turns_;
  std::size_t messages_seen_ = 0;
};

// Base64 of pictures above the limit becomes a word about its size.
boost::json::value without_large_images(const boost::json::value& value);

}  // namespace hutch::agent
