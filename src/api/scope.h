// What a key must be allowed for a request.
#pragma once

#include <cstdint>

namespace hutch {

enum class Scope : std::uint8_t { none, any, run, files, admin };

}  // namespace hutch
