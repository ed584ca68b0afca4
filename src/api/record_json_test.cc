#include "api/record_json.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace hutch {
namespace {

TEST(RecordJson, KeepsTheOrderOfEventsAndJoinsSplitCharacters) {
  const std::vector<wire::OutputEvent> events = {{.stream = wire::Stream::out, .at_us = 1, .data = "a\xE4\xB8"},
                                                 {.stream = wire::Stream::err, .at_us = 2, .data = "!"},
                                                 {.stream = wire::Stream::out, .at_us = 3, .data = "\xAD"}};
  const auto value = boost::json::parse(record_to_json({}, events, {}));
  EXPECT_EQ(value.at("stdout").as_string(), "a中");
  const auto& list = value.at("events").as_array();
  ASSERT_EQ(list.size(), 3U);
  EXPECT_EQ(list[0].at("text").as_string(), "a");
  EXPECT_EQ(list[1].at("type").as_string(), "stderr");
  EXPECT_EQ(list[2].at("text").as_string(), "中");
  EXPECT_FALSE(value.as_object().contains("stdout_base64"));
}

TEST(RecordJson, GivesBytesThatAreNotTextAlsoAsBase64) {
  const std::vector<wire::OutputEvent> events = {{.data = std::string("\xff\0\x01x", 4)}};
  const auto value = boost::json::parse(record_to_json({}, events, {}));
  EXPECT_EQ(value.at("stdout_base64").as_string(), "/wABeA==");
}

TEST(RecordJson, CleansEverythingASandboxNamed) {
  wire::Record record;
  record.error =
      wire::RunError{.category = "python_exception", .message = "\xff", .python = wire::PythonError{.name = "\xfe"}};
  const auto value = boost::json::parse(record_to_json(record, {}, {{.path = "\xfd.txt"}}));
  EXPECT_EQ(value.at("files").as_array()[0].at("path").as_string(), "\xEF\xBF\xBD.txt");
  EXPECT_EQ(value.at("error").at("python").at("ename").as_string(), "\xEF\xBF\xBD");
}

TEST(RecordJson, NumbersAreWrittenPlainly) {
  wire::Record record;
  record.usage.wall_us = 18'566;
  const std::string text = record_to_json(record, {}, {});
  EXPECT_NE(text.find("\"wall_ms\":18.566"), std::string::npos) << text;
  EXPECT_NE(text.find("\"output_bytes\":0}"), std::string::npos) << text;
}

TEST(RecordJson, AFailureOfOursHasTheSameShape) {
  const auto value = boost::json::parse(failure_to_json({.message = "no", .hint = "do", .code = "bad_arguments"}));
  EXPECT_EQ(value.at("exit_code").as_int64(), 125);
  EXPECT_EQ(value.at("error").at("category").as_string(), "invalid_request");
}

}  // namespace
}  // namespace hutch
