// A hostile stream, read by both dialects. What comes out must be fit to be sent back.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "agent/chat_dialect.h"
#include "agent/messages_dialect.h"

namespace {

using namespace hutch::agent;

void must(bool holds) {
  if (!holds) std::abort();
}

class Deaf final : public TurnListener {
 public:
  void thinking(std::string_view) override {}
  void answer_text(std::string_view) override {}
};

void read(const ModelDialect& dialect, std::string_view text) {
  SseDecoder decoder;
  Deaf listener;
  const auto reader = dialect.reader();
  while (!text.empty()) {
    const auto events = decoder.feed(text.substr(0, 61));
    text.remove_prefix(std::min<std::size_t>(61, text.size()));
    if (!events) return;
    for (const SseEvent& event : *events) {
      if (!reader->feed(event, listener)) return;
    }
  }
  const auto turn = reader->take();
  if (!turn) return;
  must(turn->message.at("role").as_string() == "assistant");
  for (const ToolUse& use : turn->tools) must(use.complete || use.arguments.empty());
  const auto kept = dialect.without_calls(turn->message);
  must(kept.empty() || kept.contains("content"));
  must(!boost::json::serialize(turn->message).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  read(MessagesDialect(), text);
  read(ChatDialect(), text);
  return 0;
}
