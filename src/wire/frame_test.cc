#include "wire/frame.h"

#include <gtest/gtest.h>

#include "wire/plain_script.h"
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

TEST(PlainScript, IsTheFrameOfAProgramOfWhichNothingElseIsSaid) {
  const std::string frame = make_frame(TaskType::run_script, RunScript{.code = "print(1)", .file_name = "<string>"});
  EXPECT_EQ(code_of_plain_script(frame), "print(1)");
  const std::string empty = make_frame(TaskType::run_script, RunScript{.file_name = "<string>"});
  EXPECT_EQ(code_of_plain_script(empty), "");
  for (std::size_t size = 0; size < frame.size(); ++size) EXPECT_FALSE(code_of_plain_script(frame.substr(0, size)));
  EXPECT_FALSE(code_of_plain_script(frame + frame));
}

TEST(PlainScript, IsNothingThatSaysMore) {
  const auto is_plain = [](const RunScript& script) {
    return code_of_plain_script(make_frame(TaskType::run_script, script)).has_value();
  };
  EXPECT_FALSE(is_plain({.code = "1", .file_name = "<stdin>"}));
  EXPECT_FALSE(is_plain({.code = "1", .file_name = "<string>", .has_file = true}));
  EXPECT_FALSE(is_plain({.code = "1", .file_name = "<string>", .arguments = {""}}));
  EXPECT_FALSE(is_plain({.code = "1", .file_name = "<string>", .environment = {{"", ""}}}));
  EXPECT_FALSE(is_plain({.code = "1", .file_name = "<string>", .as_cell = true}));
  EXPECT_FALSE(is_plain({.code = "1", .file_name = "<string>", .directory = "/workspace/a"}));
  EXPECT_FALSE(is_plain({.code = "1", .file_name = "<string>", .tools = "[]"}));
  EXPECT_FALSE(code_of_plain_script(make_frame(TaskType::run_cell, RunCell{.code = std::string(kPlainScriptEnd)})));
}

}  // namespace
}  // namespace hutch::wire
