// Bytes of a server, cut at two places: the events must be the same as from one piece, and never larger than the cap.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <string_view>
#include <vector>

#include "agent/sse.h"

namespace {

using namespace hutch::agent;
constexpr std::size_t kCap = 256;

std::vector<SseEvent> decode(std::string_view text, std::size_t first, std::size_t second) {
  SseDecoder decoder(kCap);
  std::vector<SseEvent> all;
  for (const auto piece : {text.substr(0, first), text.substr(first, second), text.substr(first + second)}) {
    auto events = decoder.feed(piece);
    if (!events) break;  // what came before it in the same piece is lost with it, as the request is
    std::ranges::move(*events, std::back_inserter(all));
  }
  return all;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 2), size - 2);
  const std::size_t first = std::min<std::size_t>(data[0], text.size());
  const std::size_t second = std::min<std::size_t>(data[1], text.size() - first);
  SseDecoder whole(kCap);
  const auto expected = whole.feed(text);
  const auto found = decode(text, first, second);
  const auto same = [](const SseEvent& a, const SseEvent& b) { return a.name == b.name && a.data == b.data; };
  if (expected && !std::ranges::equal(*expected, found, same)) std::abort();
  for (const SseEvent& event : found) {
    if (event.data.size() > kCap + 1) std::abort();
  }
  return 0;
}
