// Runs as they are stored, read back for a notebook: JSON that we wrote ourselves, with what a sandbox said inside.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "wire/record.h"

namespace hutch {

struct StoredCell {
  std::string code;
  std::vector<wire::OutputEvent> events;
  wire::Record record;  // as far as a notebook needs it: the count and the error
};

// Nothing for a run that was not code.
std::optional<StoredCell> read_stored_cell(std::string_view record, std::string_view events);

}  // namespace hutch
