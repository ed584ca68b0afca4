// What a sandbox may show: representations of listed MIME types, text that is text, pictures that begin as such.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "base/units.h"
#include "wire/runner_messages.h"

namespace hutch {

enum class MimeContent : std::uint8_t { text, json, binary };

// How a representation travels; nothing for a type that is not shown.
std::optional<MimeContent> mime_content(std::string_view mime);

// Of one cell or program.
struct DisplayCaps {
  std::size_t count = 200;
  Bytes total = 12_MiB;
};

// Removes what may not be shown, and makes text valid UTF-8. False when nothing is left of it.
bool tidy_display(wire::Display& display);
wire::Changes tidy_changes(wire::Changes changes);  // no more, and no longer, than a runner of ours tells
std::size_t weight(const wire::Display& display);   // in bytes
std::string_view plain_text(const wire::Display& display);

}  // namespace hutch
