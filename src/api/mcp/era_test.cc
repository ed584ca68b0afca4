#include "api/mcp/era.h"

#include <gtest/gtest.h>

namespace hutch::mcp {
namespace {

json::object meta(std::string_view version = kModernVersion) {
  return {{kMetaVersion, version}, {kMetaCapabilities, json::object{}}};
}

RpcRequest request(std::string method, json::object params = {{"_meta", meta()}}) {
  return {.id = 1, .method = std::move(method), .params = std::move(params)};
}

MirroredHeaders headers(std::optional<std::string> method, std::optional<std::string> name = {}) {
  return {.version = std::string(kModernVersion), .method = std::move(method), .name = std::move(name)};
}

int code(const Rpc<void>& checked) { return checked ? 0 : checked.error().code; }
int code(const Rpc<RequestMeta>& read) { return read ? 0 : read.error().code; }

TEST(McpEra, IsModernWhenTheMessageOrTheHeaderSaysSo) {
  EXPECT_EQ(era_of_http(request("tools/list"), std::nullopt), Era::modern);
  EXPECT_EQ(era_of_http(request("tools/list", {}), std::nullopt), Era::legacy);
  EXPECT_EQ(era_of_http(request("tools/list", {}), "2025-11-25"), Era::legacy);
  EXPECT_EQ(era_of_http(request("tools/list", {}), "2024-11-05"), Era::legacy);
  EXPECT_EQ(era_of_http(request("tools/list", {}), "2026-07-28"), Era::modern);
  EXPECT_EQ(era_of_http(request("tools/list", {}), "2099-01-01"), Era::modern);
  EXPECT_EQ(era_of_stdio(request("server/discover", {})), Era::modern);
  EXPECT_EQ(era_of_stdio(request("initialize", {})), Era::legacy);
}

TEST(McpEra, WantsHeadersThatAgreeWithTheMessage) {
  EXPECT_EQ(code(check_mirrored(request("tools/list"), headers("tools/list"))), 0);
  EXPECT_EQ(code(check_mirrored(request("tools/list"), headers(" tools/list\t"))), 0);
  EXPECT_EQ(code(check_mirrored(request("tools/list"), headers(std::nullopt))), kHeaderMismatch);
  EXPECT_EQ(code(check_mirrored(request("tools/list"), headers("Tools/List"))), kHeaderMismatch);
  EXPECT_EQ(code(check_mirrored(request("tools/list"), {.method = "tools/list"})), kHeaderMismatch);
  EXPECT_EQ(code(check_mirrored(request("tools/list"), {.version = "2025-11-25", .method = "tools/list"})),
            kHeaderMismatch);
}

TEST(McpEra, WantsTheNameOfWhatIsCalled) {
  const json::object params{{"_meta", meta()}, {"name", "résumé"}};
  EXPECT_EQ(code(check_mirrored(request("tools/call", params), headers("tools/call"))), kHeaderMismatch);
  EXPECT_EQ(code(check_mirrored(request("tools/call", params), headers("tools/call", "other"))), kHeaderMismatch);
  EXPECT_EQ(code(check_mirrored(request("tools/call", params), headers("tools/call", "=?base64?csOpc3Vtw6k=?="))), 0);
  EXPECT_EQ(code(check_mirrored(request("tools/call", params), headers("tools/call", "=?base64?!?="))),
            kHeaderMismatch);
  const json::object resource{{"_meta", meta()}, {"uri", "sandbox://a/files/b"}};
  EXPECT_EQ(code(check_mirrored(request("resources/read", resource), headers("resources/read", "sandbox://a/files/b"))),
            0);
}

TEST(McpEra, WantsVersionAndCapabilitiesInEveryRequest) {
  EXPECT_EQ(code(read_modern_meta({{"_meta", meta()}})), 0);
  EXPECT_EQ(code(read_modern_meta({})), kInvalidParams);
  EXPECT_EQ(code(read_modern_meta({{"_meta", 1}})), kInvalidParams);
  EXPECT_EQ(code(read_modern_meta({{"_meta", {{kMetaVersion, kModernVersion}}}})), kInvalidParams);
  EXPECT_EQ(code(read_modern_meta({{"_meta", {{kMetaCapabilities, json::object{}}}}})), kInvalidParams);
}

TEST(McpEra, SaysWhichVersionsItSpeaks) {
  const auto read = read_modern_meta({{"_meta", meta("2027-01-01")}});
  ASSERT_FALSE(read);
  EXPECT_EQ(read.error().code, kUnsupportedVersion);
  EXPECT_EQ(read.error().http_status, 400);
  ASSERT_TRUE(read.error().data);
  const auto& data = read.error().data->as_object();
  EXPECT_EQ(data.at("requested"), json::value("2027-01-01"));
  EXPECT_EQ(data.at("supported").as_array().front(), json::value(kModernVersion));
}

TEST(McpEra, ReadsTokensAndLogLevels) {
  json::object with = meta();
  with["progressToken"] = "t";
  with[kMetaLogLevel] = "warning";
  const auto read = read_modern_meta({{"_meta", with}});
  ASSERT_TRUE(read);
  EXPECT_EQ(read->progress_token, json::value("t"));
  EXPECT_EQ(read->log_level, 3U);
  with[kMetaLogLevel] = "loud";
  EXPECT_EQ(code(read_modern_meta({{"_meta", with}})), kInvalidParams);
  EXPECT_FALSE(read_legacy_meta({{"_meta", {{"progressToken", 1.5}}}}).progress_token);
}

TEST(McpCapabilities, AreKeptByNameOnly) {
  json::object given{{"sampling", {{"tools", json::object{}}}}, {std::string(10'000, 'x'), true}};
  EXPECT_EQ(names_of(given), Capabilities{"sampling"});
  for (int i = 0; i < 1'000; ++i) given["other" + std::to_string(i)] = json::object{};
  EXPECT_EQ(names_of(given).size(), 64U);
}

}  // namespace
}  // namespace hutch::mcp
