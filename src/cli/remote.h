// Talking to a daemon from the command line: which one, with which key, and what a refusal means.
#pragma once

#include <boost/json.hpp>
#include <cstdint>
#include <string>

#include "api/http_client.h"
#include "cli/run_command.h"

namespace hutch {

class RunFollower;

struct RemoteOptions {
  std::string server;  // --server, $HUTCH_SERVER, or the user's own daemon
  std::string key;     // --key, $HUTCH_KEY
};

Result<HttpClient> reach_daemon(const RemoteOptions& options);
// The reply's JSON, or the error it carries.
Result<boost::json::object> expect_object(const Result<HttpReply>& reply);

// What a daemon says, which may be nested deeper than what we send.
Result<boost::json::object> parse_object(std::string_view text);
// A field that is a text; empty when it is not.
std::string text_at(const boost::json::object& object, std::string_view name);

// All of our standard input, for a program that runs elsewhere.
Result<std::string> read_input(std::size_t most);

enum class Shown : std::uint8_t { output, json };
// Asks for a run, and shows it: its output as it comes, or in the end the whole run as JSON.
Result<boost::json::object> follow_run(RunFollower& follower, const std::string& path, boost::json::object body,
                                       Shown shown);

// What a run's end means for whoever called: a word about an error, and the exit code.
int report_result(const boost::json::object& result, bool quiet);

int remote_run_command(const RunOptions& options, const RemoteOptions& remote);

}  // namespace hutch
