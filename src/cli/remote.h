// Talking to a daemon from the command line: which one, with which key, and what a refusal means.
#pragma once

#include <boost/json.hpp>
#include <string>

#include "api/http_client.h"
#include "cli/run_command.h"

namespace hutch {

struct RemoteOptions {
  std::string server;  // --server, $HUTCH_SERVER, or the user's own daemon
  std::string key;     // --key, $HUTCH_KEY
};

Result<HttpClient> reach_daemon(const RemoteOptions& options);
// The reply's JSON, or the error it carries.
Result<boost::json::object> expect_object(const Result<HttpReply>& reply);

// Shows the output of a run as its events come; the result with which it ended.
class RunPrinter {
 public:
  void show(std::string_view line);
  [[nodiscard]] const boost::json::object& result() const { return result_; }

 private:
  boost::json::object result_;
};

// What a run's end means for whoever called: a word about an error, and the exit code.
int report_result(const boost::json::object& result, bool quiet);

int remote_run_command(const RunOptions& options, const RemoteOptions& remote);

}  // namespace hutch
