// What a run showed, as JSON: text as text, pictures as base64, JSON as JSON. Everything in it came from a sandbox.
#pragma once

#include <boost/json/object.hpp>
#include <vector>

#include "wire/record.h"

namespace hutch {

std::string_view name_of(wire::DisplayKind kind);
// {"mime": {...}, "metadata": {...}, "id": ...}
boost::json::object display_object(const wire::Display& display);

// What is there to see at the end: updated, and without what was cleared.
struct FinalDisplays {
  explicit FinalDisplays(const std::vector<wire::OutputEvent>& events);
  void add_to(boost::json::object& run) const;  // as `result` and `displays`
  // Its place among `displays`, for the event that showed it.
  [[nodiscard]] std::optional<std::size_t> index_of(const wire::Display& display) const;

  const wire::Display* result = nullptr;
  std::vector<const wire::Display*> displays;
};

boost::json::value changes_value(const std::optional<wire::Changes>& changes);

}  // namespace hutch
