#include "cli/remote.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <cstdlib>

#include "api/base64.h"
#include "api/http_text.h"
#include "api/json_text.h"
#include "cli/arguments.h"
#include "cli/input_files.h"
#include "cli/output_files.h"
#include "cli/report.h"

namespace hutch {
namespace {

namespace json = boost::json;

void write_out(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t size = ::write(fd, text.data(), text.size());
    if (size < 0 && errno == EINTR) continue;
    if (size <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(size));
  }
}

std::string text_at(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

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

Result<std::string> request_body(const RunOptions& options) {
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
    std::string text;
    std::string chunk(64U << 10, '\0');
    for (ssize_t got = 0; (got = ::read(0, chunk.data(), chunk.size())) > 0;) {
      text.append(chunk, 0, static_cast<std::size_t>(got));
    }
    if (!text.empty()) body["stdin"] = std::move(text);
  }
  return json::serialize(body);
}

Result<void> bring_out(HttpClient& client, const json::object& result, const std::string& directory,
                       const Report& report) {
  HUTCH_TRY(auto out, OutputDirectory::open(directory));
  const auto* files = result.if_contains("files");
  if (files == nullptr || !files->is_array()) return {};
  for (const auto& value : files->get_array()) {
    if (!value.is_object() || text_at(value.get_object(), "change") == "deleted") continue;
    wire::FileEntry entry{.path = text_at(value.get_object(), "path")};
    HUTCH_TRY(const auto reply, client.request("GET", "/v1/runs/" + text_at(result, "execution_id") + "/files/" +
                                                          percent_encode_path(entry.path)));
    if (reply.status != 200) continue;
    const UniqueFd content{::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
    write_out(content.get(), reply.body);
    ::lseek(content.get(), 0, SEEK_SET);
    entry.size = reply.body.size();
    if (auto put = out.put(entry, content.get()); !put) return put;
    report.file_brought_out(out.path() + "/" + entry.path, entry.size);
  }
  return {};
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
  boost::system::error_code failed;
  auto parsed = json::parse(reply->body.empty() ? "{}" : reply->body, failed);
  if (failed || !parsed.is_object()) return make_error(ErrorCode::protocol, "the daemon's answer is not JSON");
  auto& object = parsed.get_object();
  if (reply->status < 400) return std::move(object);
  const auto* error = object.if_contains("error");
  if (error == nullptr || !error->is_object()) return make_error(ErrorCode::protocol, "the daemon refused");
  return make_error(ErrorCode::invalid_argument, text_at(error->get_object(), "message"))
      .with_hint(text_at(error->get_object(), "hint"));
}

void RunPrinter::show(std::string_view line) {
  boost::system::error_code failed;
  const auto parsed = json::parse({line.data(), line.size()}, failed);
  if (failed || !parsed.is_object()) return;
  const auto& event = parsed.get_object();
  const std::string type = text_at(event, "type");
  if (type == "stdout") write_out(1, text_at(event, "text"));
  if (type == "stderr") write_out(2, text_at(event, "text"));
  if (type == "result" || type == "display") {
    const auto* mime = event.if_contains("mime");
    if (mime != nullptr && mime->is_object()) {
      const std::string text = text_at(mime->get_object(), "text/plain");
      if (!text.empty()) write_out(1, text + "\n");
    }
  }
  if (type != "finished") return;
  if (const auto* result = event.if_contains("result"); result != nullptr && result->is_object()) {
    result_ = result->get_object();
  }
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
  auto client = reach_daemon(remote);
  if (!client) return fail(client.error());
  json::object result;
  if (options.json) {
    const auto reply = client->request("POST", "/v1/run", std::move(*body));
    if (reply) fmt::print("{}\n", reply->body);
    auto object = expect_object(reply);
    if (!object) return fail(object.error());
    result = std::move(*object);
  } else {
    RunPrinter printer;
    const auto reply =
        client->stream("POST", "/v1/run", std::move(*body), [&](std::string_view line) { printer.show(line); });
    if (auto object = expect_object(reply); !object) return fail(object.error());
    result = printer.result();
  }
  if (!options.output_directory.empty()) {
    if (auto brought = bring_out(*client, result, options.output_directory, report); !brought)
      return fail(brought.error());
  }
  return report_result(result, options.quiet || options.json);
}

}  // namespace hutch
