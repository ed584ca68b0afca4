#include "api/run_request.h"

#include <algorithm>
#include <cmath>

#include "api/base64.h"
#include "api/daemon.h"
#include "api/json_text.h"
#include "base/sha256.h"
#include "wire/codec.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostFiles = 1'000;
constexpr std::size_t kLongestName = 100;
constexpr std::uint64_t kLongestWait = 300'000;
constexpr double kLongestTime = 1e9;
constexpr std::size_t kDeepestInput = 32;

void read_seconds(JsonFields& fields, std::string_view name, std::uint64_t& into_ms) {
  double seconds = 0;
  if (fields.number(name, seconds, 0, kLongestTime)) into_ms = static_cast<std::uint64_t>(std::llround(seconds * 1000));
}

void read_count(JsonFields& fields, std::string_view name, std::uint32_t& into) {
  std::uint64_t number = 0;
  if (fields.integer(name, number, 0, 0xffff'ffffU)) into = static_cast<std::uint32_t>(number);
}

Handled read_limits(const json::object& object, wire::RunLimits& limits) {
  JsonFields fields(object, "limits");
  read_seconds(fields, "timeout", limits.wall_ms);
  limits.cpu_ms = std::max(limits.cpu_ms, limits.wall_ms);  // unless it says otherwise
  read_seconds(fields, "cpu_time", limits.cpu_ms);
  fields.integer("memory", limits.memory, 0, ~0ULL >> 1);
  fields.integer("scratch", limits.scratch, 0, ~0ULL >> 1);
  fields.integer("output", limits.output, 0, ~0ULL >> 1);
  read_count(fields, "cpu_percent", limits.cpu_percent);
  read_count(fields, "processes", limits.processes);
  read_count(fields, "open_files", limits.open_files);
  read_count(fields, "inodes", limits.inodes);
  return fields.finish();
}

Handled apply_limits(JsonFields& fields, wire::RunLimits& limits, const Key& key) {
  if (const auto* object = fields.object("limits")) {
    if (auto read = read_limits(*object, limits); !read) return read;
  }
  if (!key.limits.memory_bytes || limits.memory <= *key.limits.memory_bytes) return {};
  limits.memory = *key.limits.memory_bytes;
  return {};
}

void read_environment(JsonFields& fields, wire::Environment& into) {
  const auto* object = fields.object("env");
  if (object == nullptr) return;
  for (const auto& [name, value] : *object) {
    if (!value.is_string()) return fields.refuse("every value of env must be a string");
    into.emplace_back(std::string(name), std::string(value.get_string()));
  }
}

void read_labels(JsonFields& fields, std::map<std::string, std::string>& into) {
  const auto* object = fields.object("labels");
  if (object == nullptr) return;
  if (object->size() > 16) return fields.refuse("labels has more than 16 entries");
  for (const auto& [name, value] : *object) {
    if (!value.is_string() || name.empty() || name.size() > 64 || value.get_string().size() > 256) {
      return fields.refuse("labels must have names of 1 to 64 bytes and values of at most 256");
    }
    into[std::string(name)] = std::string(value.get_string());
  }
}

Handled read_file(const json::value& value, std::vector<wire::PutFile>& into) {
  if (!value.is_object()) return std::unexpected(bad_request("every entry of files must be an object"));
  JsonFields fields(value.get_object(), "files");
  wire::PutFile file;
  std::string encoded;
  if (!fields.text("path", file.path, 1024)) fields.refuse("files.path is missing");
  const bool plain = fields.text("content", file.data, ~0ULL);
  const bool base64 = fields.text("content_base64", encoded, ~0ULL);
  fields.boolean("executable", file.executable);
  if (plain == base64) fields.refuse("a file needs exactly one of content and content_base64");
  if (base64) {
    auto bytes = base64_decode(encoded);
    if (!bytes) fields.refuse("files.content_base64 is not base64");
    if (bytes) file.data = std::move(*bytes);
  }
  if (auto done = fields.finish(); !done) return done;
  // In pieces that a frame can carry.
  std::string data = std::move(file.data);
  std::size_t at = 0;
  do {
    file.data = data.substr(at, wire::kFileChunk);
    file.append = at > 0;
    at += wire::kFileChunk;
    into.push_back(file);
  } while (at < data.size());
  return {};
}

// What a sandbox gives a tool: an object, and not one that is too deep for those who read it.
bool is_tool_input(std::string_view text) {
  boost::system::error_code failed;
  json::monotonic_resource arena(16U << 10);
  json::parse_options options;
  options.max_depth = kDeepestInput;
  const json::value input = json::parse(text, failed, &arena, options);
  return !failed && input.is_object();
}

Api<json::object> read_tool(const json::value& value, ToolOffer& offer) {
  if (!value.is_object()) return std::unexpected(bad_request("every entry of tools must be an object"));
  JsonFields fields(value.get_object(), "tools");
  std::string name;
  std::string description;
  if (!fields.text("name", name, HostCallCaps{}.name)) fields.refuse("tools.name is missing");
  if (!is_tool_name(name)) fields.refuse("tools.name must have letters, digits and _, and no digit first");
  fields.text("description", description, HostCallCaps{}.definitions.count);
  const auto* schema = fields.object("input_schema");
  if (std::ranges::find(offer.names, name) != offer.names.end()) fields.refuse("tools has a name twice");
  if (auto done = fields.finish(); !done) return std::unexpected(done.error());
  offer.names.push_back(name);
  return json::object{{"name", name},
                      {"description", description},
                      {"input_schema", schema != nullptr ? *schema : json::object{{"type", "object"}}}};
}

// What the code may call. The runner gets what we read, written anew.
Handled read_tools(JsonFields& fields, ToolOffer& offer) {
  constexpr HostCallCaps kCaps;
  std::uint64_t seconds = 0;
  if (fields.integer("tool_timeout", seconds, kCaps.shortest_timeout.count(), kCaps.longest_timeout.count())) {
    offer.timeout = std::chrono::seconds(seconds);
  }
  const auto* tools = fields.array("tools", kCaps.tools);
  if (tools == nullptr || tools->empty()) return {};
  json::array definitions;
  for (const auto& tool : *tools) {
    auto read = read_tool(tool, offer);
    if (!read) return std::unexpected(read.error());
    definitions.push_back(std::move(*read));
  }
  offer.definitions = json_text(definitions);
  offer.is_input = is_tool_input;
  if (offer.definitions.size() > kCaps.definitions.count) fields.refuse("tools has more than 256 KiB");
  return {};
}

void read_wait(JsonFields& fields, Wait& wait) {
  fields.boolean("return_on_tool_call", wait.or_called);
  std::uint64_t ms = 0;
  if (fields.integer("wait_ms", ms, 0, kLongestWait)) wait.most = std::chrono::milliseconds(ms);
}

}  // namespace

wire::RunLimits default_limits(const ServeSettings& settings) {
  const auto numbers = LimitNumbers::from(settings.limits);
  return {.wall_ms = numbers.wall_ms,
          .cpu_ms = numbers.cpu_ms,
          .memory = numbers.memory,
          .scratch = numbers.scratch,
          .output = numbers.output,
          .cpu_percent = numbers.cpu_percent,
          .processes = numbers.processes,
          .open_files = numbers.open_files,
          .inodes = numbers.inodes};
}

wire::RunLimits limits_from(const json::value& options, const ServeSettings& settings) {
  wire::RunLimits limits = default_limits(settings);
  const auto* found = options.is_object() ? options.get_object().if_contains("limits") : nullptr;
  if (found != nullptr && found->is_object()) std::ignore = read_limits(found->get_object(), limits);
  return limits;
}

Api<OneShotAsked> read_one_shot(const json::object& body, const ServeSettings& settings, const Key& key) {
  OneShotAsked asked;
  auto& request = asked.what.request;
  JsonFields fields(body, "");
  request.limits = default_limits(settings);
  request.weaker_limits = settings.weaker_limits;
  request.template_name = settings.template_name;
  request.file_name = "<string>";
  asked.cache = key.limits.cache;
  if (!fields.text("code", request.code, settings.most_code)) fields.refuse("code is missing");
  fields.text("template", request.template_name, kLongestName);
  std::string mode;
  if (fields.text("mode", mode, 10)) {
    if (mode != "script" && mode != "cell") fields.refuse("mode must be \"script\" or \"cell\"");
    request.as_cell = mode == "cell";
  }
  fields.text("stdin", asked.what.input, 8U << 20);
  if (const auto* arguments = fields.array("args", 1'000)) {
    for (const auto& argument : *arguments) {
      if (!argument.is_string()) {
        fields.refuse("every entry of args must be a string");
        break;
      }
      request.arguments.emplace_back(argument.get_string());
    }
  }
  read_environment(fields, request.environment);
  fields.boolean("cache", asked.cache);
  fields.boolean("keep_files", asked.what.keep_files);
  read_wait(fields, asked.wait);
  if (auto read = read_tools(fields, asked.what.tools); !read) return std::unexpected(read.error());
  if (!asked.what.tools.names.empty()) {
    if (!request.as_cell) fields.refuse("tools are for cells: mode must be \"cell\"");
    asked.cache = false;  // what the client answers is no part of the request
  }
  if (auto applied = apply_limits(fields, request.limits, key); !applied) return std::unexpected(applied.error());
  if (const auto* files = fields.array("files", kMostFiles)) {
    for (const auto& file : *files) {
      if (auto read = read_file(file, asked.what.files); !read) return std::unexpected(read.error());
    }
  }
  if (auto done = fields.finish(); !done) return std::unexpected(done.error());
  return asked;
}

Api<SessionAsked> read_session(const json::object& body, const ServeSettings& settings, const Key& key) {
  SessionAsked asked;
  auto& how = asked.settings;
  JsonFields fields(body, "");
  how.limits = default_limits(settings);
  how.weaker_limits = settings.weaker_limits;
  how.template_name = settings.template_name;
  fields.text("name", how.name, kLongestName);
  read_labels(fields, how.labels);
  fields.text("template", how.template_name, kLongestName);
  std::string mode;
  if (fields.text("mode", mode, 10)) {
    asked.mode_given = true;
    if (mode != "ipython" && mode != "plain") fields.refuse("mode must be \"ipython\" or \"plain\"");
    how.mode = mode == "plain" ? wire::RunMode::shell : wire::RunMode::ipython;
  }
  read_environment(fields, how.environment);
  if (auto applied = apply_limits(fields, how.limits, key); !applied) return std::unexpected(applied.error());
  std::uint64_t seconds = 0;
  if (fields.integer("ttl", seconds, 10, 604'800)) how.ttl = std::chrono::seconds(seconds);
  if (fields.integer("max_age", seconds, 10, 2'592'000)) how.max_age = std::chrono::seconds(seconds);
  fields.boolean("persist", how.persist);
  if (auto done = fields.finish(); !done) return std::unexpected(done.error());
  return asked;
}

Api<CellAsked> read_cell(const json::object& body, const ServeSettings& settings) {
  CellAsked asked;
  auto& what = asked.task.what;
  JsonFields fields(body, "");
  const bool code = fields.text("code", what.code, settings.most_code);
  std::string command;
  what.is_command = fields.text("command", command, settings.most_code);
  if (code == what.is_command) fields.refuse("exactly one of code and command is needed");
  if (what.is_command) {
    if (command.find('\0') != std::string::npos) fields.refuse("command must not have null bytes");
    what.code = std::move(command);
  }
  double timeout = 0;
  const double most = static_cast<double>(settings.engine.ceiling.wall.count()) / 1000.0;
  if (fields.number("timeout", timeout, 0.1, most)) {
    asked.task.timeout = std::chrono::milliseconds(std::llround(timeout * 1000));
  }
  if (const auto* input = fields.value("stdin")) {
    if (input->is_string() && input->get_string().size() <= (1U << 20)) {
      what.input = wire::CellInput::text;
      what.input_text = std::string(input->get_string());
    } else if (input->is_bool()) {
      what.input = input->get_bool() ? wire::CellInput::live : wire::CellInput::none;
    } else {
      fields.refuse("stdin must be a text of at most 1 MiB, or true");
    }
  }
  read_wait(fields, asked.wait);
  if (auto read = read_tools(fields, asked.task.tools); !read) return std::unexpected(read.error());
  if (what.is_command && !asked.task.tools.names.empty()) fields.refuse("tools are for code, not for a command");
  if (auto done = fields.finish(); !done) return std::unexpected(done.error());
  return asked;
}

Api<SessionChange> read_session_change(const json::object& body) {
  SessionChange change;
  JsonFields fields(body, "");
  std::string name;
  if (fields.text("name", name, kLongestName)) change.name = std::move(name);
  if (body.contains("labels")) {
    change.labels.emplace();
    read_labels(fields, *change.labels);
  }
  std::uint64_t seconds = 0;
  if (fields.integer("ttl", seconds, 10, 604'800)) change.ttl = std::chrono::seconds(seconds);
  if (auto done = fields.finish(); !done) return std::unexpected(done.error());
  return change;
}

Api<ToolOffer> read_tool_offer(const json::array& tools) {
  const json::object body{{"tools", tools}};
  JsonFields fields(body, "");
  ToolOffer offer;
  if (auto read = read_tools(fields, offer); !read) return std::unexpected(read.error());
  if (auto done = fields.finish(); !done) return std::unexpected(done.error());
  return offer;
}

std::string cache_digest(const OneShot& what, const std::string& template_fingerprint) {
  Sha256 hash;
  const auto add = [&](std::string_view text) {  // with its length, so that no two requests run together
    hash.update(std::to_string(text.size()) + ":");
    hash.update(text);
  };
  add(template_fingerprint);
  wire::RunRequest request = what.request;
  add(wire::encode(request));
  add(what.input);
  add(what.keep_files ? "files" : "");
  for (const auto& file : what.files) add(wire::encode(file));
  return hash.hex();
}

}  // namespace hutch
