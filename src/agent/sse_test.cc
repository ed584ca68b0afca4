#include "agent/sse.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

namespace hutch::agent {
namespace {

std::vector<SseEvent> decode(std::string_view text, std::size_t step) {
  SseDecoder decoder;
  std::vector<SseEvent> all;
  for (std::size_t at = 0; at < text.size(); at += step) {
    auto events = decoder.feed(text.substr(at, step));
    EXPECT_TRUE(events) << events.error().message;
    if (events) std::ranges::move(*events, std::back_inserter(all));
  }
  return all;
}

std::string shown(const std::vector<SseEvent>& events) {
  std::string text;
  for (const auto& event : events) text += event.name + "=" + event.data + ";";
  return text;
}

TEST(Sse, ReadsTheSameEventsHoweverTheBytesAreCut) {
  const std::string text =
      "\xef\xbb\xbf"
      "event: a\ndata: one\n\n: a comment\r\nevent:b\r\ndata:two\r\ndata: three\r\n\r\nid: 7\rdata:  four\r\rdata\n\n";
  for (std::size_t step = 1; step <= text.size(); ++step) {
    EXPECT_EQ(shown(decode(text, step)), "a=one;b=two\nthree;= four;=;") << step;
  }
}

TEST(Sse, DropsAnEventThatNeverEndsAndOneWithoutData) {
  EXPECT_EQ(shown(decode("event: ping\n\ndata: x\n", 3)), "");
  EXPECT_EQ(shown(decode("event: ping\n\ndata: x\n\n", 3)), "=x;");
}

TEST(Sse, RefusesAnEventAboveItsCapWhetherInOneLineOrMany) {
  SseDecoder long_line(100);
  EXPECT_TRUE(long_line.feed(std::string(100, 'x')));
  const auto refused = long_line.feed("x");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ErrorCode::limit);

  SseDecoder many_lines(100);
  bool held = true;
  for (int i = 0; i < 30 && held; ++i) held = many_lines.feed("data: 12345678\n").has_value();
  EXPECT_FALSE(held);
}

}  // namespace
}  // namespace hutch::agent
