#include "api/routes.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

#include "api/base64.h"
#include "api/json_fields.h"
#include "api/run_request.h"

namespace hutch {
namespace {

namespace json = boost::json;

TEST(RoutesTest, FindsARouteAndItsParameters) {
  const Match found = find_route(Method::get, "/v1/sessions/ses_1/files/a/b%20c.txt");
  ASSERT_NE(found.route, nullptr);
  EXPECT_EQ(found.parameters, (std::vector<std::string>{"ses_1", "a/b c.txt"}));
}

TEST(RoutesTest, TakesTheWorkspaceItselfAsAPath) {
  for (const char* path : {"/v1/sessions/s/files", "/v1/sessions/s/files/"}) {
    const Match found = find_route(Method::get, path);
    ASSERT_NE(found.route, nullptr) << path;
    EXPECT_EQ(found.parameters[1], "");
  }
}

TEST(RoutesTest, NamesTheMethodsThatAnAddressTakes) {
  const Match found = find_route(Method::put, "/v1/sessions/s");
  EXPECT_EQ(found.route, nullptr);
  EXPECT_EQ(found.allowed, "GET, HEAD, PATCH, DELETE");
}

TEST(RoutesTest, KnowsNothingElse) {
  for (const char* path :
       {"", "v1/run", "/", "/v1", "/v1/run/", "/v1/runs//events", "/v1/sessions/%zz", "/v1/sessions/s/x"}) {
    const Match found = find_route(Method::get, path);
    EXPECT_EQ(found.route, nullptr) << path;
    EXPECT_EQ(found.allowed, "") << path;
  }
}

TEST(RoutesTest, AsksForAKeyEverywhereButForHealthAndTheDescription) {
  for (const auto& route : routes()) {
    const bool open = route.pattern == "/healthz" || route.pattern == "/readyz" || route.pattern == "/v1/openapi.json";
    EXPECT_EQ(route.scope == Scope::none, open) << route.pattern;
  }
}

constexpr char kDescription[] = {
#embed "../../docs/openapi.json"
};

TEST(RoutesTest, EveryRouteIsDescribed) {
  const std::map<Method, std::string> names{{Method::get, "get"},
                                            {Method::post, "post"},
                                            {Method::put, "put"},
                                            {Method::patch, "patch"},
                                            {Method::del, "delete"}};
  const auto described = json::parse(std::string_view(kDescription, sizeof(kDescription))).at("paths").get_object();
  for (const auto& route : routes()) {
    std::string pattern(route.pattern);
    if (const auto rest = pattern.find("..."); rest != std::string::npos) pattern.erase(rest, 3);
    const auto* path = described.if_contains(pattern);
    ASSERT_NE(path, nullptr) << pattern;
    EXPECT_TRUE(path->get_object().contains(names.at(route.method))) << pattern;
  }
}

json::object object(const char* text) { return json::parse(text).get_object(); }

TEST(RunRequestTest, ReadsEveryField) {
  const auto asked = read_one_shot(object(R"json({"code": "print(1)", "args": ["a"], "env": {"A": "b"}, "stdin": "x",
      "files": [{"path": "a", "content_base64": "aGk="}], "limits": {"timeout": 1.5, "memory": 1048576}, "cache": true,
      "wait_ms": 5})json"),
                                   {}, {});
  ASSERT_TRUE(asked) << asked.error().message;
  EXPECT_EQ(asked->what.request.code, "print(1)");
  EXPECT_EQ(asked->what.request.limits.wall_ms, 1500U);
  EXPECT_EQ(asked->what.request.limits.memory, 1048576U);
  ASSERT_EQ(asked->what.files.size(), 1U);
  EXPECT_EQ(asked->what.files[0].data, "hi");
  EXPECT_TRUE(asked->cache);
  EXPECT_EQ(asked->wait.most, std::chrono::milliseconds(5));
}

TEST(RunRequestTest, NamesTheFieldThatIsWrong) {
  const std::pair<const char*, const char*> kCases[] = {
      {R"({})", "code is missing"},
      {R"({"code": 1})", "code must be a string"},
      {R"({"code": "", "colour": 1})", "unknown field: colour"},
      {R"({"code": "", "limits": {"memory": "512M"}})", "limits.memory must be a whole number"},
      {R"({"code": "", "limits": {"memory": -1}})", "limits.memory must be a whole number"},
      {R"({"code": "", "limits": {"speed": 1}})", "unknown field: limits.speed"},
      {R"({"code": "", "files": [{"path": "a"}]})", "a file needs exactly one of content and content_base64"},
      {R"({"code": "", "wait_ms": 1e9})", "wait_ms must be from 0 to 300000"},
      {R"({"code": "", "env": {"A": 1}})", "every value of env must be a string"},
  };
  for (const auto& [text, message] : kCases) {
    const auto asked = read_one_shot(object(text), {}, {});
    ASSERT_FALSE(asked) << text;
    EXPECT_EQ(asked.error().message, message);
    EXPECT_EQ(asked.error().status, 400U);
  }
}

TEST(RunRequestTest, GivesAKeyNoMoreMemoryThanItMayHave) {
  Key key;
  key.limits.memory_bytes = 1000;
  const auto asked = read_one_shot(object(R"({"code": ""})"), {}, key);
  ASSERT_TRUE(asked);
  EXPECT_EQ(asked->what.request.limits.memory, 1000U);
}

TEST(RunRequestTest, WantsEitherCodeOrACommand) {
  EXPECT_FALSE(read_cell(object(R"({})"), {}));
  EXPECT_FALSE(read_cell(object(R"({"code": "", "command": ""})"), {}));
  const auto command = read_cell(object(R"({"command": "ls", "stdin": true})"), {});
  ASSERT_TRUE(command);
  EXPECT_TRUE(command->task.what.is_command);
  EXPECT_EQ(command->task.what.input, wire::CellInput::live);
}

TEST(RunRequestTest, DigestsDifferWhereResultsMayDiffer) {
  const auto digest = [](const char* text, const char* fingerprint = "f") {
    return cache_digest(read_one_shot(object(text), {}, {})->what, fingerprint);
  };
  const std::string first = digest(R"({"code": "a"})");
  EXPECT_EQ(first, digest(R"({"code": "a"})"));
  EXPECT_NE(first, digest(R"({"code": "a"})", "g"));
  EXPECT_NE(first, digest(R"({"code": "a", "stdin": "x"})"));
  EXPECT_NE(first, digest(R"({"code": "a", "args": ["x"]})"));
  EXPECT_NE(first, digest(R"({"code": "a", "limits": {"timeout": 1}})"));
  EXPECT_NE(first, digest(R"({"code": "a", "files": [{"path": "x", "content": ""}]})"));
}

TEST(Base64Test, ComesBackAsItWas) {
  for (const std::string& bytes :
       {std::string(), std::string("a"), std::string("ab"), std::string("abc"), std::string("\0\xff\x80", 3)}) {
    EXPECT_EQ(base64_decode(base64_encode(bytes)), bytes);
  }
  for (const char* text : {"a", "ab", "abc", "a===", "ab=c", "ab c", "=abc", "ab\n="})
    EXPECT_FALSE(base64_decode(text)) << text;
}

}  // namespace
}  // namespace hutch
