#include "api/mcp/watchers.h"

#include <gtest/gtest.h>

namespace hutch::mcp {
namespace {

int code(const Rpc<void>& done) { return done ? 0 : done.error().code; }
int code(const Rpc<Wishes>& read) { return read ? 0 : read.error().code; }

std::string file(const std::string& path) { return "sandbox://ses_1/files/" + path; }

json::object wanting(json::array uris) { return {{"resourceSubscriptions", std::move(uris)}}; }

TEST(McpSubscriptions, AreToWhatCouldBeThere) {
  Wishes wishes;
  EXPECT_EQ(code(subscribe(wishes, file("a%20b"))), 0);
  EXPECT_EQ(code(subscribe(wishes, "sandbox://ses_1/executions/exe_2/stdout")), 0);
  for (const std::string& uri : {std::string(), std::string("file:///etc/passwd"), file("../x"), file("a b"),
                                 file(std::string(4'000, 'x')), std::string("test://known")}) {
    EXPECT_EQ(code(subscribe(wishes, uri)), kInvalidParams) << uri;
  }
  EXPECT_EQ(wishes.uris.size(), 2U);
  EXPECT_EQ(code(subscribe(wishes, "test://known", [](std::string_view uri) { return uri == "test://known"; })), 0);
}

TEST(McpSubscriptions, MayNameTheLongestPaths) {
  std::string path;
  for (int part = 0; part < 4; ++part) {
    if (part > 0) path += "%2F";
    for (int i = 0; i < 255; ++i) path += "%41";
  }
  const std::string uri = "sandbox://" + std::string(100, 's') + "/files/" + path;
  EXPECT_LE(uri.size(), kLongestUri);
  Wishes wishes;
  EXPECT_EQ(code(subscribe(wishes, uri)), 0);
}

TEST(McpSubscriptions, AreBoundedInNumber) {
  Wishes wishes;
  for (std::size_t i = 0; i < kMostSubscribed; ++i) ASSERT_EQ(code(subscribe(wishes, file(std::to_string(i)))), 0);
  EXPECT_EQ(code(subscribe(wishes, file("more"))), kInvalidParams);
  EXPECT_EQ(code(subscribe(wishes, file("0"))), 0) << "it has that one";
  wishes.uris.erase(file("0"));
  EXPECT_EQ(code(subscribe(wishes, file("more"))), 0);
}

TEST(McpSubscriptions, AreBoundedInLength) {
  const std::string part(200, 'x');
  Wishes wishes;
  while (wishes.uris.size() < kMostSubscribed &&
         code(subscribe(wishes, file(std::to_string(wishes.uris.size()) + "/" + part + "/" + part))) == 0) {
  }
  EXPECT_GT(wishes.uris.size(), 500U);
  EXPECT_LT(wishes.uris.size(), 700U);
  EXPECT_EQ(code(subscribe(wishes, file("0/" + part + "/" + part))), 0) << "it has that one";
}

TEST(McpSubscriptions, FollowTheSameRulesInBothEras) {
  const auto read = read_wishes(wanting({file("a"), file("b")}));
  ASSERT_TRUE(read);
  EXPECT_EQ(json::serialize(write_wishes(*read)), json::serialize(wanting({file("a"), file("b")})));
  EXPECT_EQ(code(read_wishes(wanting({file("a"), "file:///etc/passwd"}))), kInvalidParams);
  EXPECT_EQ(code(read_wishes(wanting({file("a"), 1}))), kInvalidParams);
  EXPECT_EQ(code(read_wishes(wanting({"test://known"}), [](std::string_view) { return true; })), 0);
  const std::string part(200, 'x');
  json::array long_ones;
  for (int i = 0; i < 700; ++i) long_ones.emplace_back(file(std::to_string(i) + "/" + part + "/" + part));
  EXPECT_EQ(code(read_wishes(wanting(std::move(long_ones)))), kInvalidParams);
}

}  // namespace
}  // namespace hutch::mcp
