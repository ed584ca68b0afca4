// What a sandbox may show: representations of listed MIME types, text that is text, pictures that begin as such.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
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
// The same with text as long as it is in JSON, where a control character has six bytes.
std::size_t weight_in_json(const wire::Display& display);
std::string_view plain_text(const wire::Display& display);

// What one cell or program may still show. An update stands in the result once for every display that it changes, and
// costs as much.
class DisplayBudget {
 public:
  // False when it may not be shown, and nor may anything that comes after it.
  bool take(const wire::Display& display);
  [[nodiscard]] bool truncated() const { return left_out_ > 0; }
  [[nodiscard]] std::size_t left_out() const { return left_out_; }

 private:
  std::size_t places_of(const wire::Display& display);

  std::size_t count_ = 0;
  std::size_t bytes_ = 0;
  std::map<std::string, std::size_t> shown_;  // how often, by id
  bool clear_first_ = false;
  std::size_t left_out_ = 0;
};

}  // namespace hutch
