#include "cli/remote.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <optional>

#include "api/base64.h"
#include "cli/arguments.h"
#include "cli/bring_out.h"
#include "cli/input_files.h"
#include "cli/interrupts.h"
#include "cli/output_files.h"
#include "cli/report.h"
#include "cli/run_follower.h"
#include "cli/steady_client.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostInput = 8U << 20;

Result<json::object> limits_of(const RunOptions& options) {
  json::object limits;
  if (!options.timeout.empty()) {
    HUTCH_TRY(const auto time, parse_seconds(options.timeout));
    limits["timeout"] = static_cast<double>(time.count()) / 1000.0;
  }
  if (!options.cpu_time.empty()) {
    HUTCH_TRY(const auto time, parse_seconds(options.cpu_time));
    limits["cpu_time"] = static_cast<double>(time.count()) / 1000.0;
  }
  for (const auto& [name, text] :
       {std::pair{"memory", &options.memory}, {"scratch", &options.scratch}, {"output", &options.output}}) {
    if (text->empty()) continue;
    HUTCH_TRY(const auto size, parse_size(*text));
    limits[name] = size.count;
  }
  for (const auto& [name, count] : {std::pair{"cpu_percent", options.cpu_percent},
                                    {"processes", options.processes},
                                    {"open_files", options.open_files},
                                    {"inodes", options.inodes}}) {
    if (count) limits[name] = *count;
  }
  return limits;
}

Result<json::object> request_body(const RunOptions& options) {
  ClientRun run;
  HUTCH_TRY(add_program(options, run));
  HUTCH_TRY(auto inputs, read_inputs(options.inputs, 1_GiB));
  json::object body{{"code", run.request.code}};
  json::array files;
  std::string path;
  std::string content;
  const auto flush = [&] {
    if (!path.empty()) files.push_back(json::object{{"path", path}, {"content_base64", base64_encode(content)}});
  };
  for (const auto& file : inputs) {  // pieces of one file follow each other
    if (!file.append) {
      flush();
      content.clear();
    }
    path = file.path;
    content += file.data;
  }
  flush();
  if (!files.empty()) body["files"] = std::move(files);
  if (!options.template_name.empty()) body["template"] = options.template_name;
  if (options.as_cell) body["mode"] = "cell";
  HUTCH_TRY(auto limits, limits_of(options));
  if (!limits.empty()) body["limits"] = std::move(limits);
  json::array arguments;
  for (const auto& argument : options.arguments) arguments.emplace_back(argument);
  if (!arguments.empty()) body["args"] = std::move(arguments);
  json::object environment;
  for (const auto& variable : options.environment) {
    const std::size_t equals = variable.find('=');
    if (equals == std::string::npos) return make_error(ErrorCode::invalid_argument, "write --env NAME=VALUE");
    environment[variable.substr(0, equals)] = variable.substr(equals + 1);
  }
  if (!environment.empty()) body["env"] = std::move(environment);
  if (run.input == 0 && ::isatty(0) == 0) {
    HUTCH_TRY(const auto text, read_input(kMostInput));
    if (!text.empty()) body["stdin"] = text;
  }
  return body;
}

}  // namespace

Result<HttpClient> reach_daemon(const RemoteOptions& options) {
  const auto given = [](const std::string& option, const char* variable) -> std::string {
    if (!option.empty()) return option;
    const char* value = std::getenv(variable);
    return value != nullptr ? value : "";
  };
  return HttpClient::connect(given(options.server, "HUTCH_SERVER"), given(options.key, "HUTCH_KEY"));
}

Result<json::object> expect_object(const Result<HttpReply>& reply) {
  if (!reply) return reply.error();
  HUTCH_TRY(auto object, parse_object(reply->body.empty() ? "{}" : reply->body));
  if (reply->status < 400) return object;
  const auto* error = object.if_contains("error");
  if (error == nullptr || !error->is_object()) return make_error(ErrorCode::protocol, "the daemon refused");
  return make_error(ErrorCode::invalid_argument, text_at(error->get_object(), "message"))
      .with_hint(text_at(error->get_object(), "hint"));
}

std::string text_at(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

Result<json::object> parse_object(std::string_view text) {
  constexpr std::size_t kDeepest = 512;
  boost::system::error_code failed;
  json::parse_options options;
  options.max_depth = kDeepest;
  auto parsed = json::parse({text.data(), text.size()}, failed, {}, options);
  if (failed || !parsed.is_object()) return make_error(ErrorCode::protocol, "the daemon's answer is not JSON");
  return std::move(parsed.get_object());
}

Result<std::string> read_input(std::size_t most) {
  std::string text;
  std::string chunk(64U << 10, '\0');
  for (;;) {
    const ssize_t got = ::read(0, chunk.data(), chunk.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno != EBADF) return system_error(errno).during("read standard input");
    if (got <= 0) return text;  // also where there is none
    text.append(chunk, 0, static_cast<std::size_t>(got));
    if (text.size() > most) {
      return make_error(ErrorCode::invalid_argument, "standard input is longer than " + show_size(most))
          .with_hint("let the code read a file instead");
    }
  }
}

Result<json::object> follow_run(RunFollower& follower, const std::string& path, json::object body, Shown shown) {
  if (shown == Shown::output) return follower.run(path, json::serialize(body));
  const auto reply = follower.run_silently(path, std::move(body));
  if (reply) fmt::print("{}\n", reply->body);
  return expect_object(reply);
}

int report_result(const json::object& result, bool quiet) {
  const auto* error = result.if_contains("error");
  if (!quiet && error != nullptr && error->is_object()) {
    Report().run_error({.category = text_at(error->get_object(), "category"),
                        .code = text_at(error->get_object(), "code"),
                        .message = text_at(error->get_object(), "message"),
                        .hint = text_at(error->get_object(), "hint")});
  }
  const auto* code = result.if_contains("exit_code");
  return code != nullptr && code->is_int64() ? static_cast<int>(code->get_int64()) : kOwnFailure;
}

int remote_run_command(const RunOptions& options, const RemoteOptions& remote) {
  const Report report;
  const auto fail = [&](const Error& error) {
    report.error(error.message, error.hint);
    return kOwnFailure;
  };
  auto body = request_body(options);
  if (!body) return fail(body.error());
  std::optional<OutputDirectory> directory;
  if (!options.output_directory.empty()) {
    auto opened = OutputDirectory::open(options.output_directory);
    if (!opened) return fail(opened.error());
    directory = std::move(*opened);
  }
  Interrupts interrupts(remote);
  interrupts.expect();
  auto client = SteadyClient::connect(remote);
  if (!client) return fail(client.error());
  RunFollower follower(*client, report);
  follower.on_stage = [&](std::string_view type, const std::string& run) {
    type == "finished" ? interrupts.done() : interrupts.aim("/v1/runs/" + run + "/cancel");
  };
  const auto result = follow_run(follower, "/v1/run", std::move(*body), options.json ? Shown::json : Shown::output);
  if (!result) return fail(result.error());
  bool whole = follower.showed_all();
  if (directory) {
    const Told told = options.quiet || options.json ? Told::losses : Told::everything;
    whole = bring_out(*client, *result, *directory, report, told) && whole;
  }
  const int code = report_result(*result, options.quiet || options.json);
  return whole || code != 0 ? code : kOwnFailure;
}

}  // namespace hutch
