// Shows a run on a daemon to its end, whatever happens on the way: a connection that breaks is made again, what the
// stream of events has not told is taken from the run, and what is beyond the run's own cap from its log. What cannot
// be had is said.
#pragma once

#include <boost/json.hpp>
#include <functional>
#include <string>
#include <string_view>

#include "cli/report.h"
#include "cli/run_printer.h"
#include "cli/steady_client.h"

namespace hutch {

class RunFollower {
 public:
  RunFollower(SteadyClient& client, const Report& report) : client_(client), report_(report) {}

  // Asks for a run, and shows what comes of it: how it ended.
  Result<boost::json::object> run(const std::string& path, std::string body);
  // The same without showing anything: the answer is the whole run, or a refusal.
  Result<HttpReply> run_silently(const std::string& path, boost::json::object body);
  // False when something of its output could not be had.
  [[nodiscard]] bool showed_all() const { return showed_all_; }

  // Told of `queued`, `started`, `input_wanted` and `finished`.
  std::function<void(std::string_view type, const std::string& run)> on_stage;

 private:
  void hear(std::string_view line);
  Result<void> hear_to_the_end();
  void catch_up();
  void show_rest(wire::Stream stream);
  [[nodiscard]] Error lost(const Error& why) const;

  SteadyClient& client_;
  const Report& report_;
  RunPrinter printer_;
  std::string run_;
  std::uint64_t heard_ = 0;  // the number of the last event
  bool missed_ = false;      // events: what comes after them is shown when all is there
  bool over_ = false;
  bool showed_all_ = true;
  boost::json::object result_;
};

}  // namespace hutch
