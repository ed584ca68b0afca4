// Bytes from a sandbox, as Run::receive_control takes them.
#include <cstddef>
#include <cstdint>

#include "wire/frame.h"
#include "wire/runner_messages.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hutch::wire;
  FrameBuffer buffer(kMaxRunnerFrame);
  buffer.append({reinterpret_cast<const char*>(data), size});
  for (;;) {
    auto frame = buffer.next();
    if (!frame || !*frame) return 0;
    std::ignore = decode<Ready>((*frame)->payload);
    std::ignore = decode<SetupFailed>((*frame)->payload);
    std::ignore = decode<PythonError>((*frame)->payload);
    std::ignore = decode<CellDone>((*frame)->payload);
    std::ignore = decode<Display>((*frame)->payload);
    std::ignore = decode<Changes>((*frame)->payload);
    std::ignore = decode<ToolCall>((*frame)->payload);
    std::ignore = decode<ToolCallDropped>((*frame)->payload);
  }
}
