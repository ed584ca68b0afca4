#include "api/notebook_record.h"

#include <boost/json.hpp>

#include "api/base64.h"
#include "api/json_text.h"
#include "session/display_rules.h"

namespace hutch {
namespace {

namespace json = boost::json;

std::string text_at(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr && value->is_string() ? std::string(value->get_string()) : "";
}

const json::object* object_at(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  return value != nullptr ? value->if_object() : nullptr;
}

std::int64_t number_at(const json::object& object, std::string_view name) {
  const auto* value = object.if_contains(name);
  if (value == nullptr) return 0;
  boost::system::error_code failed;
  const auto number = value->is_number() ? value->to_number<std::int64_t>(failed) : 0;
  return failed ? 0 : number;
}

std::optional<json::value> parse(std::string_view text) {
  json::parse_options options;
  options.max_depth = 128;  // displays are at most half as deep
  boost::system::error_code failed;
  auto value = json::parse(text, failed, {}, options);
  return failed ? std::nullopt : std::optional(std::move(value));
}

wire::PythonError python_error(const json::object& object) {
  wire::PythonError python{.name = text_at(object, "ename"),
                           .value = text_at(object, "evalue"),
                           .line = static_cast<std::int32_t>(number_at(object, "line"))};
  const auto* lines = object.if_contains("traceback");
  if (lines != nullptr && lines->is_array()) {
    for (const auto& line : lines->get_array()) {
      if (line.is_string()) python.traceback.emplace_back(line.get_string());
    }
  }
  return python;
}

wire::RunError run_error(const json::object& object) {
  wire::RunError error{
      .category = text_at(object, "category"), .code = text_at(object, "code"), .message = text_at(object, "message")};
  if (const auto* python = object_at(object, "python")) error.python = python_error(*python);
  return error;
}

std::optional<wire::DisplayKind> kind_of(std::string_view type) {
  if (type == "display") return wire::DisplayKind::display;
  if (type == "result") return wire::DisplayKind::result;
  if (type == "display_update") return wire::DisplayKind::update;
  if (type == "clear_output") return wire::DisplayKind::clear;
  return std::nullopt;
}

void fill(wire::Display& display, const json::object& from) {
  display.id = text_at(from, "id");
  if (const auto* metadata = object_at(from, "metadata")) display.metadata = json_text(*metadata);
  const auto* mime = object_at(from, "mime");
  if (mime == nullptr) return;
  for (const auto& [name, value] : *mime) {
    const auto content = mime_content(name);
    if (content == MimeContent::json) {
      display.items.emplace_back(name, json_text(value));
    } else if (content && value.is_string()) {
      std::string text(value.get_string());
      if (content == MimeContent::binary) text = base64_decode(text).value_or("");
      display.items.emplace_back(name, std::move(text));
    }
  }
}

// What could be seen at the end is in the record, and only referred to by the event.
const json::object* content_of(const json::object& event, const json::object& record) {
  if (event.contains("mime")) return &event;
  if (!event.contains("display")) return object_at(record, "result");
  const auto* shown = record.if_contains("displays");
  const auto index = static_cast<std::size_t>(number_at(event, "display"));
  if (shown == nullptr || !shown->is_array() || index >= shown->get_array().size()) return nullptr;
  return shown->get_array()[index].if_object();
}

std::optional<wire::OutputEvent> output_event(const json::object& event, const json::object& record) {
  const std::string type = text_at(event, "type");
  if (type == "stdout" || type == "stderr") {
    return wire::OutputEvent{.stream = type == "stdout" ? wire::Stream::out : wire::Stream::err,
                             .data = text_at(event, "text")};
  }
  const auto kind = kind_of(type);
  if (!kind) return std::nullopt;
  wire::Display display{.kind = *kind};
  if (*kind == wire::DisplayKind::clear) {
    const auto* wait = event.if_contains("wait");
    display.wait = wait != nullptr && wait->is_bool() && wait->get_bool();
  } else if (const auto* content = content_of(event, record)) {
    fill(display, *content);
  }
  return wire::OutputEvent{.display = std::make_shared<const wire::Display>(std::move(display))};
}

}  // namespace

std::optional<StoredCell> read_stored_cell(std::string_view record_text, std::string_view events_text) {
  const auto parsed = parse(record_text);
  if (!parsed || !parsed->is_object()) return std::nullopt;
  const auto& record = parsed->get_object();
  if (!record.contains("code")) return std::nullopt;
  StoredCell cell{.code = text_at(record, "code")};
  cell.record.execution_count = static_cast<std::uint32_t>(number_at(record, "execution_count"));
  cell.record.exit_code = static_cast<std::int32_t>(number_at(record, "exit_code"));
  if (const auto* truncated = object_at(record, "truncated")) {
    const auto flag = [&](std::string_view name) {
      const auto* value = truncated->if_contains(name);
      return value != nullptr && value->is_bool() && value->get_bool();
    };
    cell.record.stdout_truncated = flag("stdout");
    cell.record.stderr_truncated = flag("stderr");
    cell.record.displays_truncated = flag("displays");
  }
  if (const auto* error = object_at(record, "error")) cell.record.error = run_error(*error);
  const auto events = parse(events_text.empty() ? "[]" : events_text);
  if (!events || !events->is_array()) return cell;
  for (const auto& event : events->get_array()) {
    auto read = event.is_object() ? output_event(event.get_object(), record) : std::nullopt;
    if (read) cell.events.push_back(std::move(*read));
  }
  return cell;
}

}  // namespace hutch
