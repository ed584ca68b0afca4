#include "cli/arguments.h"

#include <charconv>
#include <cmath>

#include "base/utf8.h"

namespace hutch {
namespace {

struct Number {
  double value = 0;
  std::string_view unit;
};

Result<Number> split(std::string_view text) {
  Number number;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number.value);
  if (failed != std::errc{} || !std::isfinite(number.value)) return make_error(ErrorCode::invalid_argument, "");
  number.unit = text.substr(static_cast<std::size_t>(end - text.data()));
  return number;
}

}  // namespace

Result<std::chrono::milliseconds> parse_seconds(std::string_view text) {
  const Error wrong = make_error(ErrorCode::invalid_argument, "not a time: " + printable(text))
                          .with_hint("give seconds, like 30 or 0.5, or minutes, like 2m");
  const auto number = split(text);
  if (!number) return wrong;
  double factor = 1000;
  if (number->unit == "m") {
    factor = 60'000;
  } else if (number->unit == "ms") {
    factor = 1;
  } else if (!number->unit.empty() && number->unit != "s") {
    return wrong;
  }
  const double ms = number->value * factor;
  if (ms < -1e15 || ms > 1e15) return wrong;
  return std::chrono::milliseconds(std::llround(ms));
}

Result<Bytes> parse_size(std::string_view text) {
  const Error wrong = make_error(ErrorCode::invalid_argument, "not a size: " + printable(text))
                          .with_hint("give bytes or a unit, like 512M, 64MiB or 2G");
  const auto number = split(text);
  if (!number || number->value < 0) return wrong;
  std::string unit;
  for (const char letter : number->unit) unit += static_cast<char>(letter | 0x20);
  if (unit.ends_with("ib")) {
    unit.resize(unit.size() - 2);
  } else if (unit.size() > 1 && unit.ends_with('b')) {
    unit.pop_back();
  }
  double factor = 0;
  if (unit.empty() || unit == "b") factor = 1;
  if (unit == "k") factor = 1ULL << 10;
  if (unit == "m") factor = 1ULL << 20;
  if (unit == "g") factor = 1ULL << 30;
  if (factor == 0 || number->value * factor > 1e18) return wrong;
  return Bytes{static_cast<std::uint64_t>(number->value * factor)};
}

}  // namespace hutch
