#include "api/json_text.h"

#include <gtest/gtest.h>

#include <boost/json.hpp>

namespace hutch {
namespace {

namespace json = boost::json;

TEST(JsonTextTest, WritesNumbersAsPeopleDo) {
  EXPECT_EQ(json_text(json::array{18.5, 1, -2, 1e300, true, nullptr}), "[18.5,1,-2,1e+300,true,null]");
}

TEST(JsonTextTest, ComesBackAsItWas) {
  std::string every;
  for (int byte = 0; byte < 128; ++byte) every += static_cast<char>(byte);
  const json::value value =
      json::object{{"a\"b", every}, {"é", "\u2028 \xf0\x9f\x90\x87"}, {"", json::array{"", "\\"}}};
  EXPECT_EQ(json::parse(json_text(value)), value);
}

}  // namespace
}  // namespace hutch
