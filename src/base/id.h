// Names for things that outsiders refer to: unguessable, with a prefix that says what they name.
#pragma once

#include <sys/random.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>

namespace hutch {

inline std::string random_id(std::string_view prefix) {
  std::array<unsigned char, 12> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) std::abort();
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string id{prefix};
  id += '_';
  for (const unsigned char byte : bytes) {
    id += kDigits[byte >> 4];
    id += kDigits[byte & 15];
  }
  return id;
}

// Whether it could be one of these.
inline bool is_id(std::string_view text, std::string_view prefix) {
  return text.size() == prefix.size() + 25 && text.starts_with(prefix) && text[prefix.size()] == '_' &&
         text.find_first_not_of("0123456789abcdef", prefix.size() + 1) == std::string_view::npos;
}

}  // namespace hutch
