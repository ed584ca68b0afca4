// Text from a program is bytes until this has cleaned it.
#pragma once

#include <string>
#include <string_view>

namespace hutch {

// Replaces every malformed sequence with U+FFFD, as the Unicode standard recommends (one per maximal subpart).
std::string clean_utf8(std::string_view bytes);
bool is_utf8(std::string_view bytes);
// The length of the longest prefix that does not end inside a character.
std::size_t complete_utf8_prefix(std::string_view bytes);
// Control characters escaped, so that a name or message can be shown on a terminal or in a log line.
std::string printable(std::string_view bytes);

}  // namespace hutch
