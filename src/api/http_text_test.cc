#include "api/http_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/id.h"

namespace hutch {
namespace {

using testing::ElementsAre;
using testing::Pair;

TEST(HttpText, DecodesEscapesAndLeavesPlusAlone) {
  EXPECT_EQ(percent_decode("a%20b+c%2Fd%c3%A9"), "a b+c/d\xc3\xa9");
  EXPECT_EQ(percent_decode(""), "");
  EXPECT_EQ(percent_decode("%25%32%35"), "%25");  // once, not again
}

TEST(HttpText, EveryBadEscapeIsAnError) {
  for (const std::string_view text :
       {"%", "%2", "a%", "%zz", "%2g", "%%20", "% 2", "%+2", "%00", "a b", "a\tb", "\x7f", "\xc3\xa9", "a\nb"}) {
    EXPECT_FALSE(percent_decode(text)) << text;
  }
  EXPECT_FALSE(percent_decode(std::string_view("\0", 1)));
}

TEST(HttpText, EveryByteOfAPathSurvivesItsEscape) {
  std::string path;
  for (int byte = 1; byte < 256; ++byte) path += static_cast<char>(byte);
  EXPECT_EQ(percent_decode(percent_encode_path(path)), path);
  EXPECT_EQ(percent_encode_path("a b/é?#%.txt~"), "a%20b/%C3%A9%3F%23%25.txt~");
}

TEST(HttpText, ReadsAQuery) {
  const auto query = parse_query("label=k%3Dv&text=a+b%2Bc&flag&empty=&x=1=2&&");
  ASSERT_TRUE(query) << query.error().message;
  EXPECT_THAT(*query, ElementsAre(Pair("label", "k=v"), Pair("text", "a b+c"), Pair("flag", ""), Pair("empty", ""),
                                  Pair("x", "1=2")));
  EXPECT_TRUE(parse_query("")->empty());
}

TEST(HttpText, AQueryWithMistakesIsAnError) {
  for (const auto* text : {"a=%", "%=a", "=1", "a=1&a=2", "a=1&%61=2", "a=b c"})
    EXPECT_FALSE(parse_query(text)) << text;
  EXPECT_EQ(parse_query("a=1&a=2").error().message, "the query names a twice");
  EXPECT_EQ(parse_query("limit=%").error().message, "query parameter limit: '%' without two hexadecimal digits");
}

TEST(HttpText, AQueryHasAtMostFiftyParameters) {
  std::string query = "a0";
  for (std::size_t i = 1; i < kMostQueryPairs; ++i) query += "&a" + std::to_string(i);
  EXPECT_EQ(parse_query(query)->size(), kMostQueryPairs);
  EXPECT_FALSE(parse_query(query + "&more"));
}

std::string range_text(std::string_view header, std::uint64_t size) {
  const auto range = parse_range(header, size);
  if (!range) return "unsatisfiable";
  if (!*range) return "everything";
  return std::to_string((*range)->first) + "-" + std::to_string((*range)->last);
}

TEST(HttpText, ReadsOneRange) {
  EXPECT_EQ(range_text("bytes=0-499", 1000), "0-499");
  EXPECT_EQ(range_text("bytes=500-", 1000), "500-999");
  EXPECT_EQ(range_text("bytes=-1", 1000), "999-999");
  EXPECT_EQ(range_text("bytes=-2000", 1000), "0-999");
  EXPECT_EQ(range_text("bytes=999-5000", 1000), "999-999");
  EXPECT_EQ(range_text("Bytes= 0-0 ", 1), "0-0");
  EXPECT_EQ(range_text("bytes=0-99999999999999999999999", 1000), "0-999");
}

TEST(HttpText, ARangeOutsideTheFileIsUnsatisfiable) {
  EXPECT_EQ(range_text("bytes=1000-", 1000), "unsatisfiable");
  EXPECT_EQ(range_text("bytes=-0", 1000), "unsatisfiable");
  EXPECT_EQ(range_text("bytes=0-", 0), "unsatisfiable");
  EXPECT_EQ(range_text("bytes=99999999999999999999999-", 1000), "unsatisfiable");
  EXPECT_EQ(range_text("bytes=-5", 0), "everything");  // which is nothing
}

TEST(HttpText, ARangeThatWeDoNotUnderstandMeansEverything) {
  for (const auto* text : {"", "bytes", "bytes=", "bytes=-", "bytes=5-4", "bytes=a-b", "bytes=0x1-2", "bytes=+1-2",
                           "bytes=1--2", "bytes=0-1,5-6", "bytes=0-1, 5-6", "bytes=,0-1", "items=0-1", "bytes 0-1"}) {
    EXPECT_EQ(range_text(text, 1000), "everything") << text;
  }
}

TEST(HttpText, PrefersWhatTheClientPrefers) {
  EXPECT_EQ(parse_accept("text/event-stream"), Accepts::event_stream);
  EXPECT_EQ(parse_accept("application/x-ndjson"), Accepts::ndjson);
  EXPECT_EQ(parse_accept("application/json, text/event-stream"), Accepts::json);
  EXPECT_EQ(parse_accept("text/event-stream, application/json"), Accepts::event_stream);
  EXPECT_EQ(parse_accept("application/json;q=0.5, text/event-stream;q=0.9"), Accepts::event_stream);
  EXPECT_EQ(parse_accept("text/event-stream;q=0.123,application/x-ndjson;q=0.124"), Accepts::ndjson);
  EXPECT_EQ(parse_accept("TEXT/Event-Stream ; Q=1.000"), Accepts::event_stream);
  EXPECT_EQ(parse_accept("text/html, text/event-stream;q=0.1"), Accepts::event_stream);
}

TEST(HttpText, AWildcardLeavesItToUs) {
  EXPECT_EQ(parse_accept("*/*"), Accepts::json);
  EXPECT_EQ(parse_accept("*/*", Accepts::event_stream), Accepts::event_stream);
  EXPECT_EQ(parse_accept("*/*, text/event-stream"), Accepts::event_stream);
  EXPECT_EQ(parse_accept("text/*"), Accepts::event_stream);
  EXPECT_EQ(parse_accept("application/*", Accepts::event_stream), Accepts::json);
  EXPECT_EQ(parse_accept("application/json;q=0, */*"), Accepts::event_stream);
  EXPECT_EQ(parse_accept("text/event-stream;q=0.1, */*"), Accepts::json);
}

TEST(HttpText, AnAcceptThatNamesNoneOfOursOrIsBrokenGetsTheUsual) {
  for (const auto* text :
       {"", ",", "text/html", "application/json;q=0", "text/event-stream;q=2", "text/event-stream;q=0.1234",
        "text/event-stream;q=", "text/event-stream;q=a", "text/", "text/event-stream; x=\"", "text/event-stream, @"}) {
    EXPECT_EQ(parse_accept(text), Accepts::json) << text;
    EXPECT_EQ(parse_accept(text, Accepts::ndjson), Accepts::ndjson) << text;
  }
  EXPECT_EQ(parse_accept("text/html;x=\",text/event-stream\""), Accepts::json);
}

TEST(HttpText, KnowsTheNamesOfThisMachine) {
  for (const auto* text : {"localhost", "LocalHost:8484", "a.localhost", "a-b.c.localhost:1", "127.0.0.1",
                           "127.0.0.1:8484", "127.255.0.9:65535", "[::1]", "[::1]:8484"}) {
    EXPECT_TRUE(is_loopback_host(text)) << text;
  }
}

TEST(HttpText, NothingElseIsThisMachine) {
  for (const auto* text : {"",
                           ":80",
                           "localhost:",
                           "localhost:x",
                           "localhost:65536",
                           "localhost:000080",
                           "localhost:80:80",
                           "localhost.",
                           "localhost.example.com",
                           "evil-localhost",
                           ".localhost",
                           "-.localhost",
                           "a..localhost",
                           "a b.localhost",
                           "a@localhost",
                           "user@127.0.0.1",
                           "localhost/",
                           "localhost ",
                           " localhost",
                           "127.0.0.1.example.com",
                           "127.0.0",
                           "127.1",
                           "127.0.0.1.",
                           "127.0.0.01",
                           "0177.0.0.1",
                           "127.0.0.256",
                           "127.0.0.1.1",
                           "127.0.0.-1",
                           "128.0.0.1",
                           "0.0.0.0",
                           "2130706433",
                           "0x7f.0.0.1",
                           "::1",
                           "[::1",
                           "::1]",
                           "[::1]x",
                           "[::1]x:80",
                           "[::1]:",
                           "[::2]",
                           "[0:0:0:0:0:0:0:1]",
                           "[::ffff:127.0.0.1]",
                           "[::1%lo]",
                           "localhost,evil"}) {
    EXPECT_FALSE(is_loopback_host(text)) << text;
  }
  EXPECT_FALSE(is_loopback_host(std::string_view("localhost\0", 10)));
  EXPECT_FALSE(is_loopback_host(std::string(300, 'a') + ".localhost"));
}

TEST(HttpText, NamesADownloadByTheLastPartOfItsPath) {
  EXPECT_EQ(html_free_filename("a/b/plot 1.png"), "attachment; filename=\"plot 1.png\"");
  EXPECT_EQ(html_free_filename("a/b/"), "attachment; filename=\"b\"");
  EXPECT_EQ(html_free_filename("日本.txt"), "attachment; filename=\"__.txt\"; filename*=UTF-8''%E6%97%A5%E6%9C%AC.txt");
  EXPECT_EQ(html_free_filename("100%.txt"), "attachment; filename=\"100_.txt\"; filename*=UTF-8''100%25.txt");
}

TEST(HttpText, ANameOfADownloadCannotLeaveItsQuotes) {
  EXPECT_EQ(html_free_filename("a\"; x=\".html"),
            "attachment; filename=\"a_; x=_.html\"; filename*=UTF-8''a%22%3B%20x%3D%22.html");
  EXPECT_EQ(html_free_filename("a\r\nSet-Cookie: b\\"), "attachment; filename=\"a__Set-Cookie: b_\"");
  EXPECT_EQ(html_free_filename("\xff"), "attachment; filename=\"_\"; filename*=UTF-8''%EF%BF%BD");
  EXPECT_EQ(html_free_filename("a\xE2\x80\xAEgpj.exe"), "attachment; filename=\"a?gpj.exe\"");
  for (const auto* text : {"", "/", "..", "a/..", "."}) {
    EXPECT_EQ(html_free_filename(text), "attachment; filename=\"download\"") << text;
  }
}

TEST(HttpText, ReadsAHeaderWithParameters) {
  const auto header = parse_header_value(R"(Application/JSON ;Charset=UTF-8; ;note="a;\"b\"" ; )");
  ASSERT_TRUE(header) << header.error().message;
  EXPECT_EQ(header->value, "application/json");
  EXPECT_THAT(header->parameters, ElementsAre(Pair("charset", "UTF-8"), Pair("note", "a;\"b\"")));
  EXPECT_EQ(header->find("other"), nullptr);
}

TEST(HttpText, AHeaderValueWithMistakesIsAnError) {
  for (const auto* text : {"", ";a=b", "a/b/c", "a/", "/b", "a b", "a; b", "a; b=", "a; =c", "a; b =c", "a; b=c d=e",
                           "a; b=\"c", "a; b=\"c\"d", "a; b=c; B=d", "a; b=\"\x01\"", "a\n"}) {
    EXPECT_FALSE(parse_header_value(text)) << text;
  }
}

TEST(HttpText, ARequestIdIsShortAndPlain) {
  for (const std::string& good :
       {std::string("a"), std::string("order-7.2_x"), std::string(64, 'Z'), random_id("req")}) {
    EXPECT_TRUE(is_request_id(good)) << good;
  }
  for (const std::string& bad : {std::string(), std::string(65, 'a'), std::string("a b"), std::string("a\"b"),
                                 std::string("a\nb"), std::string("a\0b", 3), std::string("\xc3\xa4"),
                                 std::string("a/b"), std::string("a:b"), std::string("{}"), std::string("a\x7f")}) {
    EXPECT_FALSE(is_request_id(bad)) << bad;
  }
}

}  // namespace
}  // namespace hutch
