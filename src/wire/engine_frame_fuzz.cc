// Bytes from a client of the engine, and from an engine to a client.
#include <cstddef>
#include <cstdint>

#include "wire/engine_messages.h"
#include "wire/frame.h"

namespace {

// What decodes must encode to the same bytes: no two encodings of one message.
template <class T>
void round_trip(const std::string& payload) {
  const auto message = hutch::wire::decode<T>(payload);
  if (message && hutch::wire::encode(*message) != payload) __builtin_trap();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hutch::wire;
  FrameBuffer buffer(kMaxEngineFrame);
  buffer.append({reinterpret_cast<const char*>(data), size});
  for (;;) {
    auto frame = buffer.next();
    if (!frame || !*frame) return 0;
    const std::string& payload = (*frame)->payload;
    round_trip<Hello>(payload);
    round_trip<RunRequest>(payload);
    round_trip<PutFile>(payload);
    round_trip<CellRequest>(payload);
    round_trip<HelloReply>(payload);
    round_trip<OutputEvent>(payload);
    round_trip<FileMessage>(payload);
    round_trip<CellReport>(payload);
    round_trip<Record>(payload);
    round_trip<Failed>(payload);
    round_trip<EngineStatus>(payload);
  }
}
