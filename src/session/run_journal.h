// Results that are safe but not yet in the database. A result is appended with one write before anybody hears of it, so
// that a daemon that is killed loses nothing; a database transaction for each would be most of what a quick run costs.
#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "base/result.h"
#include "base/unique_fd.h"

namespace hutch {

class RunJournal {
 public:
  // What an earlier daemon left is given to `replay`, in order, and stays until clear(). A last entry that is cut short
  // was never answered.
  static Result<RunJournal> open(const std::filesystem::path& path,
                                 const std::function<Result<void>(std::string_view entry)>& replay);

  Result<void> append(std::string_view entry);
  Result<void> clear();  // everything in it is in the database

 private:
  explicit RunJournal(UniqueFd file) : file_(std::move(file)) {}
  UniqueFd file_;
};

}  // namespace hutch
