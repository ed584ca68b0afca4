// The task that a runner is given nearly always: a program that is only text, without a file, arguments, variables or
// tools. It can be recognised and taken apart without allocating anything.
#pragma once

#include <cstring>
#include <optional>
#include <string_view>

#include "wire/runner_messages.h"

namespace hutch::wire {

// What follows the code: the length and text of its name, then six fields that are empty or false.
inline constexpr std::string_view kPlainScriptEnd{"\x08\0\0\0<string>\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 30};

// The code, if `bytes` are exactly one such frame.
inline std::optional<std::string_view> code_of_plain_script(std::string_view bytes) {
  constexpr std::size_t kHead = sizeof(std::uint32_t) + 1;
  const auto number_at = [bytes](std::size_t at) {
    std::size_t number = 0;
    for (int i = 3; i >= 0; --i)
      number = number << 8 | static_cast<unsigned char>(bytes[at + static_cast<std::size_t>(i)]);
    return number;
  };
  if (bytes.size() < kHead + sizeof(std::uint32_t) + kPlainScriptEnd.size() || !bytes.ends_with(kPlainScriptEnd))
    return {};
  const std::size_t code_size = bytes.size() - kHead - sizeof(std::uint32_t) - kPlainScriptEnd.size();
  const bool plain = number_at(0) == bytes.size() - sizeof(std::uint32_t) && number_at(kHead) == code_size &&
                     bytes[kHead - 1] == static_cast<char>(TaskType::run_script);
  if (!plain) return {};
  return bytes.substr(kHead + sizeof(std::uint32_t), code_size);
}

}  // namespace hutch::wire
