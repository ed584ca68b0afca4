#include "agent/base_url.h"

#include <gtest/gtest.h>

namespace hutch::agent {
namespace {

TEST(BaseUrl, KnowsWhereAServerIs) {
  const auto url = BaseUrl::parse("https://api.anthropic.com");
  ASSERT_TRUE(url);
  EXPECT_TRUE(url->secure);
  EXPECT_EQ(url->host, "api.anthropic.com");
  EXPECT_EQ(url->port, 443);
  EXPECT_EQ(url->target("/v1/messages"), "/v1/messages");

  const auto local = BaseUrl::parse("http://[::1]:9000/models/");
  ASSERT_TRUE(local);
  EXPECT_FALSE(local->secure);
  EXPECT_EQ(local->host, "::1");
  EXPECT_EQ(local->authority, "[::1]:9000");
  EXPECT_EQ(local->port, 9000);
  EXPECT_EQ(local->target("/v1/messages"), "/models/v1/messages");
}

TEST(BaseUrl, PutsTheVersionIntoAPathOnce) {
  EXPECT_EQ(BaseUrl::parse("https://h/v1/")->target("/v1/chat/completions"), "/v1/chat/completions");
  EXPECT_EQ(BaseUrl::parse("https://h/api/v1")->target("/v1/messages"), "/api/v1/messages");
}

TEST(BaseUrl, RefusesWhatIsNone) {
  for (const char* text : {"", "api.anthropic.com", "ftp://h", "http://", "http://:80", "http://h:0", "http://h:70000",
                           "http://h:x", "http://user@h", "http://h/a b", "http://h/\r\nx: y", "http://h/?q"}) {
    EXPECT_FALSE(BaseUrl::parse(text)) << text;
  }
}

}  // namespace
}  // namespace hutch::agent
