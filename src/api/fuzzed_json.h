// For fuzzers: a JSON value for any bytes. Boost.JSON is not instrumented, so that bytes alone would hardly ever become
// a document; what is below the parser is reached from here.
#pragma once

#include <fuzzer/FuzzedDataProvider.h>

#include <boost/json.hpp>
#include <span>
#include <string_view>

namespace hutch {

class FuzzedJson {
 public:
  // Names and words that the reader knows are what makes a value interesting.
  FuzzedJson(FuzzedDataProvider& bytes, std::span<const std::string_view> words) : bytes_(bytes), words_(words) {}

  boost::json::object object(int depth = 4) {
    boost::json::object made;
    for (auto left = bytes_.ConsumeIntegralInRange(0, 6); left > 0; --left) made[text()] = value(depth - 1);
    return made;
  }

  boost::json::value value(int depth) {
    switch (bytes_.ConsumeIntegralInRange(depth > 0 ? 0 : 2, 7)) {
      case 0:
        return object(depth);
      case 1: {
        boost::json::array made;
        for (auto left = bytes_.ConsumeIntegralInRange(0, 4); left > 0; --left) made.push_back(value(depth - 1));
        return made;
      }
      case 2:
        return nullptr;
      case 3:
        return bytes_.ConsumeBool();
      case 4:
        return bytes_.ConsumeIntegral<std::int64_t>();
      case 5:
        return bytes_.ConsumeFloatingPoint<double>();
      case 6:  // arguments come as JSON in a string, too
        return boost::json::value(boost::json::serialize(depth > 0 ? object(depth - 1) : boost::json::object{}));
      default:
        return boost::json::value(text());
    }
  }

 private:
  std::string text() {
    if (!bytes_.ConsumeBool())
      return std::string(words_[bytes_.ConsumeIntegralInRange<std::size_t>(0, words_.size() - 1)]);
    return bytes_.ConsumeRandomLengthString(40);
  }

  FuzzedDataProvider& bytes_;
  std::span<const std::string_view> words_;
};

}  // namespace hutch
