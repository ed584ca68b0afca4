// Files of the user's that are read and written as a whole.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace hutch {

// "-" is standard input. More than `most` bytes are refused.
Result<std::string> read_whole_file(const std::string& path, std::size_t most);
// "-" is standard output. The old content is there until the new is complete.
Result<void> write_whole_file(const std::string& path, std::string_view content);
// Whether that would work, as far as can be told now.
Result<void> check_writable(const std::string& path);

}  // namespace hutch
