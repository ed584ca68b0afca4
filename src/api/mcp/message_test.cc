#include "api/mcp/message.h"

#include <gtest/gtest.h>

namespace hutch::mcp {
namespace {

RpcProblem problem(std::string_view text) {
  const auto message = decode_message(text);
  const auto* found = std::get_if<RpcProblem>(&message);
  return found != nullptr ? *found : RpcProblem{.error = {.code = 0}};
}

TEST(McpMessage, KnowsRequestsNotificationsAndResponsesApart) {
  const auto request = decode_message(R"({"jsonrpc":"2.0","id":7,"method":"tools/list","params":{"cursor":""}})");
  ASSERT_TRUE(std::holds_alternative<RpcRequest>(request));
  EXPECT_EQ(std::get<RpcRequest>(request).method, "tools/list");
  EXPECT_EQ(std::get<RpcRequest>(request).id, json::value(7));
  const auto told = decode_message(R"({"jsonrpc":"2.0","method":"notifications/initialized"})");
  ASSERT_TRUE(std::holds_alternative<RpcNotification>(told));
  EXPECT_TRUE(std::holds_alternative<RpcResponse>(decode_message(R"({"jsonrpc":"2.0","id":"a","result":{}})")));
}

TEST(McpMessage, RefusesWhatIsNotJsonAndWhatIsTooDeep) {
  EXPECT_EQ(problem("{").error.code, kParseError);
  EXPECT_EQ(problem("").error.code, kParseError);
  EXPECT_EQ(problem("{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}").error.code, kParseError);
  EXPECT_EQ(problem(std::string(40, '[') + std::string(40, ']')).error.code, kParseError);
}

TEST(McpMessage, RefusesBatchesAndOtherKindsOfJson) {
  EXPECT_EQ(problem(R"([{"jsonrpc":"2.0","id":1,"method":"ping"}])").error.code, kInvalidRequest);
  EXPECT_EQ(problem("1").error.code, kInvalidRequest);
  EXPECT_EQ(problem(R"({"id":1,"method":"ping"})").error.code, kInvalidRequest);
}

TEST(McpMessage, TakesStringsAndWholeNumbersAsIds) {
  EXPECT_EQ(problem(R"({"jsonrpc":"2.0","id":null,"method":"ping"})").error.code, kInvalidRequest);
  EXPECT_EQ(problem(R"({"jsonrpc":"2.0","id":1.5,"method":"ping"})").error.code, kInvalidRequest);
  EXPECT_EQ(problem(R"({"jsonrpc":"2.0","id":{},"method":"ping"})").error.code, kInvalidRequest);
  EXPECT_EQ(problem(R"({"jsonrpc":"2.0","id":"x","method":"ping"})").error.code, 0);
}

TEST(McpMessage, SaysWhichRequestWasBad) {
  const auto bad = problem(R"({"jsonrpc":"2.0","id":"x","method":"ping","params":[1]})");
  EXPECT_EQ(bad.error.code, kInvalidRequest);
  EXPECT_EQ(bad.id, json::value("x"));
}

TEST(McpMessage, LeavesTheIdOutWhereNoneIsKnown) {
  EXPECT_EQ(error_text(nullptr, {.code = -32700, .message = "no"}),
            R"({"jsonrpc":"2.0","error":{"code":-32700,"message":"no"}})");
  EXPECT_EQ(result_text(1, {}), R"({"jsonrpc":"2.0","id":1,"result":{}})");
}

}  // namespace
}  // namespace hutch::mcp
