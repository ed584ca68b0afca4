#include "cli/session_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include "api/http_text.h"
#include "api/json_text.h"
#include "base/utf8.h"
#include "cli/interrupts.h"
#include "cli/report.h"
#include "cli/run_follower.h"
#include "cli/session_input.h"
#include "cli/steady_client.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostInput = 1U << 20;  // that a cell may be given with it

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
  json::object body{{"code", run.request.code}};
  const bool asks = run.input == 0 && ::isatty(0) != 0 && !options.what.json;  // a person, when the code wants a line
  if (asks) body["stdin"] = true;
  if (run.input == 0 && ::isatty(0) == 0) {
    const auto text = read_input(kMostInput);
    if (!text) return fail(text.error());
    if (!text->empty()) body["stdin"] = *text;
  }
  Interrupts interrupts(options.remote);
  InputGiver input(options.remote, options.id);
  interrupts.expect();
  auto client = SteadyClient::connect(options.remote);
  if (!client) return fail(client.error());
  const Report report;
  RunFollower follower(*client, report);
  follower.on_stage = [&](std::string_view type, const std::string& id) {
    if (type == "queued") interrupts.aim("/v1/runs/" + id + "/cancel");
    if (type == "started") interrupts.aim("/v1/sessions/" + options.id + "/interrupt");
    if (type == "finished") interrupts.done();
    if (type == "input_wanted" && asks) input.want_line();
  };
  const auto result = follow_run(follower, "/v1/sessions/" + options.id + "/runs", std::move(body),
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

int session_interrupt(const SessionOptions& options) {
  const auto answer = ask(options, "POST", "/v1/sessions/" + options.id + "/interrupt");
  if (!answer) return fail(answer.error());
  const bool interrupted = answer->at("interrupted").as_bool();
  fmt::print("{}\n", options.format == OutputFormat::json ? json_text(*answer)
                     : interrupted                        ? "interrupted"
                                                          : "nothing runs");
  return 0;
}

int session_restart(const SessionOptions& options) {
  const auto answer = ask(options, "POST", "/v1/sessions/" + options.id + "/restart");
  if (!answer) return fail(answer.error());
  fmt::print("{}\n", options.format == OutputFormat::json ? json_text(*answer) : "restarted");
  return 0;
}

int session_remove(const SessionOptions& options) {
  const auto answer = ask(options, "DELETE", "/v1/sessions/" + options.id);
  return answer ? 0 : fail(answer.error());
}

}  // namespace hutch
