// For tests of both dialects: a stream fed in pieces of any size, and what a listener was told of it.
#pragma once

#include <gtest/gtest.h>

#include <boost/json.hpp>
#include <string>
#include <string_view>

#include "agent/dialect.h"

namespace hutch::agent {

class Overhearing : public TurnListener {
 public:
  void thinking(std::string_view piece) override { thoughts += piece; }
  void answer_text(std::string_view piece) override { text += piece; }
  std::string thoughts;
  std::string text;
};

inline Result<Turn> read_stream(TurnReader& reader, std::string_view text, std::size_t step, TurnListener& listener) {
  SseDecoder decoder;
  for (std::size_t at = 0; at < text.size(); at += step) {
    HUTCH_TRY(const auto events, decoder.feed(text.substr(at, step)));
    for (const SseEvent& event : events) HUTCH_TRY(reader.feed(event, listener));
  }
  return reader.take();
}

inline std::string named_event(const boost::json::object& data) {
  return "event: " + std::string(data.at("type").as_string()) + "\ndata: " + boost::json::serialize(data) + "\n\n";
}

}  // namespace hutch::agent
