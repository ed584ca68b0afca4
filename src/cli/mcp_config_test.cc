#include "cli/mcp_config.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace hutch {
namespace {

std::string snippet(const std::string& client, const std::string& http = "") {
  const auto config = client_config(client, "/opt/my programs/hutch", {"mcp"}, http);
  return config ? config->snippet : "";
}

TEST(McpConfig, IsJsonForTheClientsThatReadJson) {
  for (const char* client : {"claude-desktop", "claude-code", "cursor", "vscode", "windsurf", "zed", "gemini-cli"}) {
    for (const char* http : {"", "https://example.org/mcp"}) {
      boost::system::error_code failed;
      const auto value = boost::json::parse(snippet(client, http), failed);
      EXPECT_FALSE(failed) << client << snippet(client, http);
    }
    EXPECT_NE(snippet(client).find("/opt/my programs/hutch"), std::string::npos) << client;
    EXPECT_NE(snippet(client, "https://example.org/mcp").find("https://example.org/mcp"), std::string::npos) << client;
  }
}

TEST(McpConfig, IsTomlForCodexAndYamlForGoose) {
  EXPECT_EQ(snippet("codex"), "[mcp_servers.hutch]\ncommand = \"/opt/my programs/hutch\"\nargs = [\"mcp\"]");
  EXPECT_NE(snippet("goose").find("    cmd: \"/opt/my programs/hutch\"\n"), std::string::npos);
}

TEST(McpConfig, NamesTheClientsItKnows) {
  const auto config = client_config("emacs", "hutch", {"mcp"}, "");
  ASSERT_FALSE(config);
  EXPECT_NE(config.error().hint.find("claude-desktop"), std::string::npos);
}

}  // namespace
}  // namespace hutch
