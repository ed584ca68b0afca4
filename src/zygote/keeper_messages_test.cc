#include "zygote/keeper_messages.h"

#include <gtest/gtest.h>

#include "wire/codec.h"

namespace hutch {
namespace {

TEST(KeeperMessages, LimitsSurviveTheWire) {
  Limits limits;
  limits.wall = std::chrono::milliseconds(1234);
  limits.memory = 77_MiB;
  limits.inodes = 99;
  const auto back = wire::decode<StartRequest>(wire::encode(StartRequest{.limits = LimitNumbers::from(limits)}));
  ASSERT_TRUE(back);
  const Limits read = back->limits.to_limits();
  EXPECT_EQ(read.wall, limits.wall);
  EXPECT_EQ(read.cpu, limits.cpu);
  EXPECT_EQ(read.memory, limits.memory);
  EXPECT_EQ(read.cpu_percent, limits.cpu_percent);
  EXPECT_EQ(read.processes, limits.processes);
  EXPECT_EQ(read.open_files, limits.open_files);
  EXPECT_EQ(read.scratch, limits.scratch);
  EXPECT_EQ(read.inodes, limits.inodes);
  EXPECT_EQ(read.output, limits.output);
}

TEST(KeeperMessages, ASandboxThatIsGoneIsToldFromOneThatIsNot) {
  for (const bool gone : {false, true}) {
    const FailedReply reply{.run = 7, .sandbox_gone = gone, .message = "said", .hint = "do"};
    const auto back = wire::decode<FailedReply>(wire::encode(reply));
    ASSERT_TRUE(back);
    EXPECT_EQ(back->sandbox_gone, gone);
    EXPECT_EQ(back->message, "said");
    EXPECT_EQ(back->hint, "do");
  }
}

TEST(KeeperMessages, AnUnknownStepIsRefused) {
  StartRequest request;
  std::string bytes = wire::encode(request);
  bytes.back() = static_cast<char>(kStepCount);
  EXPECT_FALSE(wire::decode<StartRequest>(bytes));
}

}  // namespace
}  // namespace hutch
