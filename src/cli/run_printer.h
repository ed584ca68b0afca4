// What a run on a daemon shows, on our own standard output and standard error.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <string_view>

#include "wire/record.h"

namespace hutch {

void write_out(int fd, std::string_view text);  // whoever reads it may have gone: then nothing more is written

class RunPrinter {
 public:
  // An event as it comes.
  void show(const boost::json::object& event);
  // What the run has kept of its output, from the place on that was reached.
  void show_missed(const boost::json::object& run);

 private:
  void show_text(wire::Stream stream, std::string_view text);
  void show_display(const boost::json::object& display);

  std::uint64_t shown_[2] = {0, 0};  // bytes of each stream
  std::size_t displays_ = 0;
  bool cut_[2] = {false, false};  // the rest is in the log
};

// The first bytes of a stream, as the program wrote them: what its run has kept.
std::string kept_output(const boost::json::object& run, wire::Stream stream);
bool was_cut(const boost::json::object& run, wire::Stream stream);
std::string_view name_of(wire::Stream stream);  // "stdout", "stderr"

}  // namespace hutch
