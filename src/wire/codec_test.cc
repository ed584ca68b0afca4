#include "wire/codec.h"

#include <gtest/gtest.h>

#include "wire/record.h"
#include "wire/runner_messages.h"

namespace hutch::wire {
namespace {

TEST(Codec, ReadsBackWhatItWrote) {
  PythonError error{.name = "ValueError", .value = "no", .error_number = -2, .line = 7, .traceback = {"a", "b"}};
  const auto back = decode<PythonError>(encode(error));
  ASSERT_TRUE(back) << back.error().message;
  EXPECT_EQ(back->name, "ValueError");
  EXPECT_EQ(back->error_number, -2);
  EXPECT_EQ(back->line, 7);
  EXPECT_EQ(back->traceback, error.traceback);
}

TEST(Codec, RefusesEveryTruncation) {
  Record record{.execution_id = "exe_1", .template_name = "bare", .notices = {"one", "two"}};
  record.error = RunError{.category = "timeout", .python = PythonError{.name = "X"}};
  const std::string bytes = encode(record);
  ASSERT_TRUE(decode<Record>(bytes));
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(decode<Record>(std::string_view(bytes).substr(0, length))) << length;
  }
}

TEST(Codec, RefusesEveryTruncationOfACall) {
  const std::string bytes = encode(ToolCall{.number = 7, .name = "search", .input = "{}"});
  const auto back = decode<ToolCall>(bytes);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->number, 7U);
  EXPECT_EQ(back->input, "{}");
  for (std::size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(decode<ToolCall>(std::string_view(bytes).substr(0, length))) << length;
  }
  EXPECT_FALSE(decode<ToolCall>(bytes + "x"));
}

TEST(Codec, RefusesTrailingBytes) { EXPECT_FALSE(decode<CellDone>(encode(CellDone{}) + "x")); }

TEST(Codec, RefusesACountThatTheBytesCannotFill) {
  EXPECT_FALSE(decode<Ready>(std::string("\xff\xff\xff\xff", 4)));
  EXPECT_FALSE(
      decode<RunCell>(std::string("\xff\xff\xff\x7f"
                                  "abc",
                                  7)));
}

TEST(Codec, RefusesAnEnumeratorItDoesNotKnow) {
  EXPECT_TRUE(decode<CellDone>(std::string("\3\0\0\0\0\0", 6)));
  EXPECT_FALSE(decode<CellDone>(std::string("\4\0\0\0\0\0", 6)));
}

TEST(Codec, RefusesABooleanThatIsNeitherTrueNorFalse) {
  std::string bytes = encode(PutFile{.path = "a"});
  bytes[5] = 2;
  EXPECT_FALSE(decode<PutFile>(bytes));
}

}  // namespace
}  // namespace hutch::wire
