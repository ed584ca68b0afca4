// One answer of a model, before anybody has acted on it, in words that fit every dialect.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <vector>

namespace hutch::agent {

enum class StopReason : std::uint8_t {
  answered,          // the model has said what it wanted
  tool_use,          // it waits for results
  max_tokens,        // cut off: the last block may be incomplete
  paused,            // wants to go on if it is given the conversation again
  refusal,           // will not
  context_exceeded,  // cut off, because the conversation is too long
  unknown,           // `stop_text` says it
};

struct ToolUse {
  std::string id;
  std::string name;
  boost::json::object arguments;
  bool complete = false;  // it ended, and its arguments are a JSON object
};

struct Tokens {
  std::uint64_t input = 0;  // neither read from a cache nor written to one
  std::uint64_t output = 0;
  std::uint64_t cache_read = 0;
  std::uint64_t cache_creation = 0;

  Tokens& operator+=(const Tokens& more) {
    input += more.input;
    output += more.output;
    cache_read += more.cache_read;
    cache_creation += more.cache_creation;
    return *this;
  }
};

struct Turn {
  boost::json::object message;  // of the assistant, exactly as it goes back into the conversation
  std::string text;
  std::vector<ToolUse> tools;
  StopReason stop = StopReason::unknown;
  std::string stop_text;  // the server's own word
  std::string refusal_category;
  std::string refusal_explanation;
  std::string model;      // which one answered
  std::string container;  // what server-side tools ran in, or empty
  Tokens tokens;
};

}  // namespace hutch::agent
