// What `hutch run` says to a person beside the program's own output: on standard error, coloured only on a terminal.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "wire/engine_messages.h"

namespace hutch {

class Report {
 public:
  Report();
  void error(const std::string& message, const std::string& hint) const;  // "hutch: message", then the hint
  void notice(const std::string& text) const;
  void run_error(const wire::RunError& error) const;
  void explain(const wire::Record& record) const;  // where the time went, walls, denials
  void file_brought_out(const std::string& path, std::uint64_t size) const;

 private:
  [[nodiscard]] std::string paint(const char* code, const std::string& text) const;
  bool colour_;
};

std::string show_size(std::uint64_t bytes);
std::string display_line(const wire::Display& display);  // what a terminal can show of it

inline constexpr int kOwnFailure = 125;  // Hutch's own failures, as a shell user expects from a wrapper

}  // namespace hutch
