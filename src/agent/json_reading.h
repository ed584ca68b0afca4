// Reading JSON that a stranger wrote: what is missing or of another type is empty, and nothing throws.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace hutch::agent {

Result<boost::json::object> parse_object(std::string_view text);

const boost::json::value* find(const boost::json::object& object, std::string_view key);  // null counts as missing
const boost::json::object* find_object(const boost::json::object& object, std::string_view key);
const boost::json::array* find_array(const boost::json::object& object, std::string_view key);
std::string_view find_text(const boost::json::object& object, std::string_view key);
// Only if there is a number that fits.
void read_count(const boost::json::object& object, std::string_view key, std::uint64_t& count);

// To the text that is there, or instead of what is there.
void append_text(boost::json::object& object, std::string_view key, std::string_view piece);

std::string to_base64(std::string_view bytes);

}  // namespace hutch::agent
