#include "api/base64.h"

#include <array>

namespace hutch {
namespace {

constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

constexpr std::array<signed char, 256> make_values() {
  std::array<signed char, 256> values{};
  values.fill(-1);
  for (std::size_t i = 0; i < kDigits.size(); ++i)
    values[static_cast<unsigned char>(kDigits[i])] = static_cast<signed char>(i);
  return values;
}
constexpr auto kValues = make_values();

}  // namespace

std::string base64_encode(std::string_view bytes) {
  std::string result;
  result.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const auto at = [&](std::size_t j) -> unsigned {
      return i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U;
    };
    const unsigned three = at(0) << 16 | at(1) << 8 | at(2);
    result += kDigits[three >> 18 & 63];
    result += kDigits[three >> 12 & 63];
    result += i + 1 < bytes.size() ? kDigits[three >> 6 & 63] : '=';
    result += i + 2 < bytes.size() ? kDigits[three & 63] : '=';
  }
  return result;
}

std::optional<std::string> base64_decode(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;
  std::string result;
  result.reserve(text.size() / 4 * 3);
  for (std::size_t i = 0; i < text.size(); i += 4) {
    unsigned three = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      const bool padded = i + j >= text.size() - padding;
      const int value = padded ? 0 : kValues[static_cast<unsigned char>(text[i + j])];
      if (value < 0) return std::nullopt;
      three = three << 6 | static_cast<unsigned>(value);
    }
    const std::size_t bytes = i + 4 == text.size() ? 3 - padding : 3;
    for (std::size_t j = 0; j < bytes; ++j) result += static_cast<char>(three >> (16 - 8 * j) & 255);
  }
  return result;
}

}  // namespace hutch
