#include "api/tools/schema.h"

#include <gtest/gtest.h>

namespace hutch {
namespace {

namespace json = boost::json;

const json::object kSchema = json::parse(R"({"type":"object","properties":{
  "code":{"type":"string","maxLength":10,"minLength":1},"timeout":{"type":"integer","minimum":1,"maximum":300,"default":30},
  "language":{"type":"string","enum":["python"]},"keep":{"type":"boolean"},
  "files":{"type":"array","maxItems":2,"items":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}},
  "required":["code"],"additionalProperties":false})")
                                 .as_object();

std::string refusal(std::string_view given) {
  const auto checked = check_arguments(kSchema, json::parse(given));
  return checked ? "" : checked.error().message;
}

TEST(Schema, FillsInDefaultsAndKeepsWhatWasGiven) {
  const auto checked = check_arguments(kSchema, json::parse(R"({"code":"1","keep":true})"));
  ASSERT_TRUE(checked);
  EXPECT_EQ(*checked, json::parse(R"({"code":"1","timeout":30,"keep":true})").as_object());
}

TEST(Schema, NamesEverythingThatIsWrongInOneMessage) {
  EXPECT_EQ(refusal(R"({"timeout":0,"colour":1})"),
            "Invalid arguments: timeout must be from 1 to 300; unknown parameter: colour (it takes code, timeout, "
            "language, keep, files); code is missing.");
}

TEST(Schema, TellsTypesApart) {
  EXPECT_EQ(refusal(R"({"code":5})"), "Invalid arguments: code must be a string.");
  EXPECT_EQ(refusal(R"({"code":null})"), "Invalid arguments: code must be a string.");
  EXPECT_EQ(refusal(R"({"code":"1","timeout":"30"})"), "Invalid arguments: timeout must be a whole number.");
  EXPECT_EQ(refusal(R"({"code":"1","timeout":1.5})"), "Invalid arguments: timeout must be a whole number.");
  EXPECT_EQ(refusal(R"({"code":"1","timeout":1e300})"), "Invalid arguments: timeout must be a whole number.");
  EXPECT_EQ(refusal(R"({"code":"1","keep":1})"), "Invalid arguments: keep must be true or false.");
  EXPECT_EQ(refusal(R"({"code":"1","language":"ruby"})"), R"(Invalid arguments: language must be one of ["python"].)");
  EXPECT_EQ(refusal(R"([1])"), "The arguments must be a JSON object.");
}

TEST(Schema, CountsCharactersAndNotBytes) {
  EXPECT_EQ(refusal(R"({"code":"ääääääääää"})"), "");
  EXPECT_EQ(refusal(R"({"code":"aaaaaaaaaaa"})"), "Invalid arguments: code is longer than 10 characters.");
  EXPECT_EQ(refusal(R"({"code":""})"), "Invalid arguments: code must not be empty.");
}

TEST(Schema, LooksIntoArraysAndTheirObjects) {
  EXPECT_EQ(refusal(R"({"code":"1","files":[{"name":"a"},{"nam":"b"}]})"),
            "Invalid arguments: unknown parameter: files[1].nam (it takes name); files[1].name is missing.");
  EXPECT_EQ(refusal(R"({"code":"1","files":[1,2,3]})"), "Invalid arguments: files has more than 2 entries.");
}

TEST(Schema, AnOptionalParameterMayBeNull) { EXPECT_EQ(refusal(R"({"code":"1","timeout":null})"), ""); }

}  // namespace
}  // namespace hutch
