#include "wire/frame.h"

#include <gtest/gtest.h>

#include "wire/runner_messages.h"

namespace hutch::wire {
namespace {

TEST(FrameBuffer, GivesOutFramesHoweverTheBytesArrive) {
  const std::string bytes = make_frame(TaskType::run_cell, RunCell{.code = "x = 1"}) +
                            make_frame(RunnerType::cell_done, CellDone{.status = CellStatus::error});
  FrameBuffer buffer(100);
  std::vector<std::uint8_t> types;
  for (const char byte : bytes) {
    buffer.append({&byte, 1});
    auto frame = buffer.next();
    ASSERT_TRUE(frame);
    if (*frame) types.push_back((*frame)->type);
  }
  EXPECT_EQ(types, (std::vector<std::uint8_t>{4, 68}));
}

TEST(FrameBuffer, RefusesALengthAboveTheCapBeforeTheBytesCome) {
  FrameBuffer buffer(100);
  buffer.append(std::string("\x65\0\0\0", 4));
  EXPECT_FALSE(buffer.next());
}

TEST(FrameBuffer, RefusesAFrameWithoutAType) {
  FrameBuffer buffer(100);
  buffer.append(std::string("\0\0\0\0", 4));
  EXPECT_FALSE(buffer.next());
}

}  // namespace
}  // namespace hutch::wire
