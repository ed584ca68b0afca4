#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hutch {

std::string base64_encode(std::string_view bytes);
std::optional<std::string> base64_decode(std::string_view text);  // strict: padded, no white space

}  // namespace hutch
