// Whose a run is, for a thread of its own: on a Database of its own, beside the RunStore that writes.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "session/database.h"

namespace hutch {

// Its Database outlives it.
class RunOwners {
 public:
  static Result<RunOwners> open(Database& database) {
    RunOwners owners;
    HUTCH_TRY(owners.find_, database.prepare("SELECT key_id FROM run WHERE id = ?1"));
    return owners;
  }

  // Empty where the database does not have the run: forgotten, or not stored yet.
  Result<std::string> key_of(std::string_view run_id) {
    std::string key_id;
    HUTCH_TRY(find_.for_each([&key_id](const Row& row) { key_id = row.text(0); }, run_id));
    return key_id;
  }

 private:
  RunOwners() = default;

  Statement find_;
};

}  // namespace hutch
