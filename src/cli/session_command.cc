#include "cli/session_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <condition_variable>
#include <iostream>
#include <mutex>
#include <set>
#include <thread>

#include "api/http_text.h"
#include "api/json_text.h"
#include "base/utf8.h"
#include "cli/report.h"
#include "cli/run_follower.h"
#include "cli/run_printer.h"
#include "cli/steady_client.h"

namespace hutch {
namespace {

namespace json = boost::json;

int fail(const Error& error) {
  Report().error(error.message, error.hint);
  return kOwnFailure;
}

std::string text_of(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  if (value == nullptr || value->is_null()) return "-";
  return value->is_string() ? std::string(value->get_string()) : json::serialize(*value);
}

Result<json::object> ask(const SessionOptions& options, std::string_view method, const std::string& path,
                         std::string body = {}) {
  HUTCH_TRY(auto client, reach_daemon(options.remote));
  return expect_object(client.request(method, path, std::move(body)));
}

// A line, or a block that an empty line ends.
bool read_cell(std::string& cell) {
  const bool terminal = ::isatty(0) != 0;
  if (terminal) fmt::print("hutch> "), std::fflush(stdout);
  if (!std::getline(std::cin, cell)) return false;
  if (cell.empty() || cell.back() != ':') return true;
  for (std::string line;;) {
    if (terminal) fmt::print("...    "), std::fflush(stdout);
    if (!std::getline(std::cin, line) || line.empty()) return true;
    cell += "\n" + line;
  }
}

int connection_broke(const std::string& why) {
  return fail(make_error(ErrorCode::disconnected, "the connection broke" + why)
                  .with_hint("the session may go on: hutch session ls"));
}

}  // namespace

int session_list(const SessionOptions& options) {
  const auto answer = ask(options, "GET", "/v1/sessions?limit=1000");
  if (!answer) return fail(answer.error());
  if (options.format == OutputFormat::json) {
    fmt::print("{}\n", json_text(*answer));
    return 0;
  }
  const auto& sessions = answer->at("sessions").as_array();
  if (sessions.empty()) {
    fmt::print("no sessions; `hutch session create` makes one\n");
    return 0;
  }
  fmt::print("{:<28} {:<16} {:<10} {:<10} {:>5}  {}\n", "id", "name", "template", "state", "runs", "expires");
  for (const auto& entry : sessions) {
    const auto& session = entry.as_object();
    fmt::print("{:<28} {:<16} {:<10} {:<10} {:>5}  {}\n", text_of(session, "id"), text_of(session, "name"),
               text_of(session, "template"), text_of(session, "state"), text_of(session, "execution_count"),
               text_of(session, "expires_at"));
  }
  return 0;
}

int session_create(const SessionOptions& options) {
  json::object body{{"persist", options.persist}};
  if (!options.name.empty()) body["name"] = options.name;
  if (!options.template_name.empty()) body["template"] = options.template_name;
  const auto answer = ask(options, "POST", "/v1/sessions", json::serialize(body));
  if (!answer) return fail(answer.error());
  fmt::print("{}\n", options.format == OutputFormat::json ? json_text(*answer) : text_of(*answer, "id"));
  return 0;
}

int session_run(const SessionOptions& options) {
  ClientRun run;
  if (auto added = add_program(options.what, run); !added) return fail(added.error());
  auto client = SteadyClient::connect(options.remote);
  if (!client) return fail(client.error());
  const Report report;
  RunFollower follower(*client, report);
  const auto result =
      follow_run(follower, "/v1/sessions/" + options.id + "/runs", json::object{{"code", run.request.code}},
                 options.what.json ? Shown::json : Shown::output);
  if (!result) return fail(result.error());
  const int code = report_result(*result, options.what.quiet || options.what.json);
  return follower.showed_all() || code != 0 ? code : kOwnFailure;
}

int session_variables(const SessionOptions& options) {
  const std::string path = "/v1/sessions/" + options.id + "/variables";
  const auto answer = ask(options, "GET", options.text.empty() ? path : path + "/" + percent_encode_path(options.text));
  if (!answer) return fail(answer.error());
  if (options.format == OutputFormat::json) {
    fmt::print("{}\n", json_text(*answer));
    return 0;
  }
  if (!options.text.empty()) {
    fmt::print("{}: {}\n", printable(text_of(*answer, "type")), printable(text_of(*answer, "summary")));
    fmt::print("{}\n", text_of(answer->at("mime").as_object(), "text/plain"));
    return 0;
  }
  for (const auto& entry : answer->at("variables").as_array()) {
    const auto& variable = entry.as_object();
    fmt::print("{:<20} {:<16} {}\n", printable(text_of(variable, "name")), printable(text_of(variable, "type")),
               printable(text_of(variable, "summary")));
  }
  if (answer->at("more").as_bool()) fmt::print("and more\n");
  return 0;
}

int session_complete(const SessionOptions& options) {
  const auto answer = ask(options, "POST", "/v1/sessions/" + options.id + "/complete",
                          json::serialize(json::object{{"code", options.text}}));
  if (!answer) return fail(answer.error());
  if (options.format == OutputFormat::json) {
    fmt::print("{}\n", json_text(*answer));
    return 0;
  }
  for (const auto& match : answer->at("matches").as_array()) {
    fmt::print("{}\n", printable(text_of(match.as_object(), "text")));
  }
  return 0;
}

int session_inspect(const SessionOptions& options) {
  const auto answer = ask(options, "POST", "/v1/sessions/" + options.id + "/inspect",
                          json::serialize(json::object{{"code", options.text}}));
  if (!answer) return fail(answer.error());
  if (options.format == OutputFormat::json) {
    fmt::print("{}\n", json_text(*answer));
    return 0;
  }
  if (!answer->at("found").as_bool()) return fail({.message = "nothing is called " + options.text, .hint = ""});
  for (const char* name : {"signature", "type", "value", "documentation"}) {
    if (!answer->at(name).is_null()) fmt::print("{}: {}\n", name, text_of(*answer, name));
  }
  return 0;
}

// Cells from here go in; what anybody's cells write comes out, in the order in which it happens. The next cell is sent
// when the end of the last one has been shown. Returns only before there is a second thread, which uses what is here.
int session_attach(const SessionOptions& options) {
  const std::string address = "/v1/sessions/" + options.id;
  if (auto there = ask(options, "GET", address); !there) return fail(there.error());
  auto watcher = reach_daemon(options.remote);
  auto client = reach_daemon(options.remote);
  if (!watcher || !client) return fail(!watcher ? watcher.error() : client.error());
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::string> shown;  // runs whose end has been
  std::thread watch([&] {
    RunPrinter printer;
    bool ended = false;
    const auto over = watcher->stream("GET", address + "/events?after=0", {}, [&](std::string_view line) {
      const auto event = parse_object(line);
      if (!event) return;
      printer.show(*event);
      const std::string type = text_at(*event, "type");
      ended = ended || (type == "session" && text_at(*event, "state") == "ended");
      if (type != "finished") return;
      const std::scoped_lock lock(mutex);
      shown.insert(text_at(*event, "run"));
      changed.notify_all();
    });
    std::fflush(stdout);
    if (ended) {
      fmt::print(stderr, "the session has ended\n");
    } else {
      connection_broke(over ? "" : ": " + over.error().message);
    }
    ::_exit(ended ? 0 : kOwnFailure);  // the other thread waits for a line that may never come
  });
  watch.detach();
  int code = 0;
  for (std::string cell; read_cell(cell);) {
    if (cell.empty()) continue;
    const auto answer =
        expect_object(client->request("POST", address + "/runs", json::serialize(json::object{{"code", cell}})));
    if (!answer) {  // the watcher may be as quick to notice
      const bool broke = answer.error().code == ErrorCode::disconnected;
      code = broke ? connection_broke(": " + answer.error().message) : fail(answer.error());
      break;
    }
    const std::string run = text_of(*answer, "execution_id");
    std::unique_lock lock(mutex);
    changed.wait_for(lock, std::chrono::seconds(5), [&] { return shown.contains(run); });
  }
  std::fflush(stdout);
  ::_exit(code);  // the watcher still reads
}

int session_remove(const SessionOptions& options) {
  const auto answer = ask(options, "DELETE", "/v1/sessions/" + options.id);
  return answer ? 0 : fail(answer.error());
}

}  // namespace hutch
