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

}  // namespace hutch
