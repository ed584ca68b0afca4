#include "api/mcp/resource_uri.h"

#include <gtest/gtest.h>

namespace hutch::mcp {
namespace {

TEST(McpResourceUri, NamesFiles) {
  const auto address = parse_address("sandbox://ses_1/files/data/my%20file.csv");
  ASSERT_TRUE(address);
  ASSERT_TRUE(std::holds_alternative<FileAddress>(*address));
  EXPECT_EQ(std::get<FileAddress>(*address).session, "ses_1");
  EXPECT_EQ(std::get<FileAddress>(*address).path, "data/my file.csv");
}

TEST(McpResourceUri, NamesOutputOfRuns) {
  const auto address = parse_address("sandbox://ses_1/executions/exe_2/stderr");
  ASSERT_TRUE(address);
  ASSERT_TRUE(std::holds_alternative<OutputAddress>(*address));
  EXPECT_EQ(std::get<OutputAddress>(*address).run, "exe_2");
  EXPECT_EQ(std::get<OutputAddress>(*address).stream, "stderr");
}

TEST(McpResourceUri, LeadsNowhereElse) {
  for (const char* uri :
       {"", "file:///etc/passwd", "sandbox://", "sandbox://ses_1", "sandbox://ses_1/files/",
        "sandbox://ses_1/files/../x", "sandbox://ses_1/files/%2e%2e/x", "sandbox://ses_1/files//etc/passwd",
        "sandbox://ses_1/files/a%00b", "sandbox://../files/a", "sandbox:///files/a",
        "sandbox://ses_1/executions/exe_2/log", "sandbox://ses_1/executions/../stdout",
        "sandbox://ses_1/executions/exe_2/stdout/more", "sandbox://ses_1/other/a"}) {
    EXPECT_FALSE(parse_address(uri)) << uri;
  }
}

}  // namespace
}  // namespace hutch::mcp
