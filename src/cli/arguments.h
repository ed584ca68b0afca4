// What people type for sizes and times, turned into numbers, with errors that say what would have been right.
#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/units.h"

namespace hutch {

Result<std::chrono::milliseconds> parse_seconds(std::string_view text);  // "30", "0.5", "2m"
Result<Bytes> parse_size(std::string_view text);                         // "512M", "64MiB", "1g", "1000000"

}  // namespace hutch
