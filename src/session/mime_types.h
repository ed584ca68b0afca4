#pragma once

#include <string>
#include <string_view>

namespace hutch {

// By the name's ending; a file without a known one is text/plain or application/octet-stream by its first bytes.
std::string mime_type_of(std::string_view path, int content);

}  // namespace hutch
