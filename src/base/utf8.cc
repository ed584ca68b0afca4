#include "base/utf8.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>

namespace hutch {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

struct Sequence {
  std::size_t length = 1;  // bytes consumed
  bool valid = false;
  bool truncated = false;  // valid so far, but the input ends
};

// Table 3-7 of the Unicode standard: the allowed range of the second byte depends on the first.
Sequence read_sequence(std::string_view bytes) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(bytes[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return {.length = 1, .valid = true};
  std::size_t need = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (first >= 0xC2 && first <= 0xDF) {
    need = 2;
  } else if (first >= 0xE0 && first <= 0xEF) {
    need = 3;
    if (first == 0xE0) low = 0xA0;
    if (first == 0xED) high = 0x9F;
  } else if (first >= 0xF0 && first <= 0xF4) {
    need = 4;
    if (first == 0xF0) low = 0x90;
    if (first == 0xF4) high = 0x8F;
  } else {
    return {};
  }
  for (std::size_t i = 1; i < need; ++i) {
    if (i == bytes.size()) return {.length = i, .valid = false, .truncated = true};
    if (byte(i) < low || byte(i) > high) return {.length = i, .valid = false};
    low = 0x80;
    high = 0xBF;
  }
  return {.length = need, .valid = true};
}

// How much of it is fine as it is: usually all. Plain letters go by eight at a time.
std::size_t valid_prefix(std::string_view bytes) {
  std::size_t at = 0;
  while (at < bytes.size()) {
    std::uint64_t eight = 0;
    if (at + sizeof(eight) <= bytes.size()) {
      std::memcpy(&eight, bytes.data() + at, sizeof(eight));
      if ((eight & 0x8080808080808080U) == 0) {
        at += sizeof(eight);
        continue;
      }
    }
    const Sequence sequence = read_sequence(bytes.substr(at));
    if (!sequence.valid) break;
    at += sequence.length;
  }
  return at;
}

// Direction marks and separators: U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069.
bool turns_text_around(std::string_view text) {
  if (text.size() < 3 || text[0] != '\xE2') return false;
  const auto third = static_cast<unsigned char>(text[2]);
  if (text[1] == '\x80') return third == 0x8E || third == 0x8F || (third >= 0xA8 && third <= 0xAE);
  return text[1] == '\x81' && third >= 0xA6 && third <= 0xA9;
}

}  // namespace

std::string clean_utf8(std::string_view bytes) {
  const std::size_t good = valid_prefix(bytes);
  std::string result{bytes.substr(0, good)};
  if (good == bytes.size()) return result;
  bytes.remove_prefix(good);
  result.reserve(good + bytes.size());
  while (!bytes.empty()) {
    const Sequence sequence = read_sequence(bytes);
    result.append(sequence.valid ? bytes.substr(0, sequence.length) : kReplacement);
    bytes.remove_prefix(sequence.length);
  }
  return result;
}

bool is_utf8(std::string_view bytes) {
  while (!bytes.empty()) {
    const Sequence sequence = read_sequence(bytes);
    if (!sequence.valid) return false;
    bytes.remove_prefix(sequence.length);
  }
  return true;
}

std::size_t complete_utf8_prefix(std::string_view bytes) {
  const std::size_t look = bytes.size() > 3 ? bytes.size() - 3 : 0;
  for (std::size_t i = look; i < bytes.size(); ++i) {
    if (read_sequence(bytes.substr(i)).truncated) return i;
  }
  return bytes.size();
}

std::string printable(std::string_view bytes) {
  const std::string text = clean_utf8(bytes);
  std::string result;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char character = text[i];
    const auto code = static_cast<unsigned char>(character);
    if (turns_text_around(std::string_view(text).substr(i))) {
      result += "?";
      i += 2;
      continue;
    }
    if (code < 0x20 || code == 0x7F) {
      std::array<char, 5> escaped{};
      std::snprintf(escaped.data(), escaped.size(), "\\x%02x", static_cast<unsigned>(code));
      result += escaped.data();
    } else {
      result += character;
    }
  }
  return result;
}

}  // namespace hutch
