#include "api/record_json.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <boost/json.hpp>
#include <chrono>

#include "api/base64.h"
#include "api/display_json.h"
#include "api/json_text.h"
#include "base/utf8.h"

namespace hutch {
namespace {

namespace json = boost::json;

}  // namespace

std::string_view name_of(wire::Status status) {
  switch (status) {
    case wire::Status::ok:
      return "ok";
    case wire::Status::error:
      return "error";
    case wire::Status::timeout:
      return "timeout";
    case wire::Status::cancelled:
      return "cancelled";
  }
  return "error";
}

std::string timestamp(std::int64_t ns) {
  const std::chrono::sys_time<std::chrono::nanoseconds> time{std::chrono::nanoseconds(ns)};
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(time - seconds).count();
  return fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)), ms);
}

namespace {

constexpr std::size_t kRecordFields = 40;

double milliseconds(std::uint64_t us) { return static_cast<double>(us) / 1000.0; }

std::string_view name_of(wire::Change change) {
  switch (change) {
    case wire::Change::created:
      return "created";
    case wire::Change::modified:
      return "modified";
    case wire::Change::deleted:
      return "deleted";
  }
  return "created";
}

json::value text_or_null(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(clean_utf8(text));
}

json::value to_json(const wire::PythonError& python) {
  json::array traceback;
  for (const auto& entry : python.traceback) traceback.emplace_back(clean_utf8(entry));
  return json::object{{"ename", clean_utf8(python.name)},
                      {"evalue", clean_utf8(python.value)},
                      {"line", python.line > 0 ? json::value(python.line) : json::value(nullptr)},
                      {"column", python.column > 0 ? json::value(python.column) : json::value(nullptr)},
                      {"cell_line", text_or_null(python.source_line)},
                      {"traceback", std::move(traceback)}};
}

}  // namespace

json::object error_object(const wire::RunError& error) {
  json::object result{{"category", error.category},  {"code", error.code}, {"message", clean_utf8(error.message)},
                      {"hint", error.hint},          {"fix", error.fix},   {"state", error.state},
                      {"retryable", error.retryable}};
  result["python"] = error.python ? to_json(*error.python) : json::value(nullptr);
  result["limit"] = error.limit_name.empty() ? json::value(nullptr)
                                             : json::value(json::object{{"name", error.limit_name},
                                                                        {"value", error.limit_value},
                                                                        {"used", error.limit_used},
                                                                        {"unit", error.limit_unit}});
  return result;
}

json::object file_object(const wire::FileEntry& file) {
  return {{"path", clean_utf8(file.path)},
          {"size", file.size},
          {"mime_type", text_or_null(file.mime_type)},
          {"sha256", text_or_null(file.sha256)},
          {"modified_at", file.modified_ns != 0 ? json::value(timestamp(file.modified_ns)) : json::value(nullptr)},
          {"change", name_of(file.change)}};
}

namespace {

json::array to_json(const std::vector<wire::FileEntry>& files) {
  json::array result;
  for (const auto& file : files) result.push_back(file_object(file));
  return result;
}

void add_usage(json::object& result, const wire::Record& record) {
  const auto& usage = record.usage;
  const double percent =
      usage.wall_us == 0 ? 0.0 : 100.0 * static_cast<double>(usage.cpu_us) / static_cast<double>(usage.wall_us);
  result["usage"] = {{"wall_ms", milliseconds(usage.wall_us)},
                     {"cpu_ms", milliseconds(usage.cpu_us)},
                     {"cpu_percent", percent},
                     {"peak_memory_bytes", usage.peak_memory},
                     {"memory_source", usage.memory_source},
                     {"scratch_bytes", usage.scratch_used},
                     {"output_bytes", usage.output}};
}

void add_streams(json::object& result, const std::vector<wire::OutputEvent>& events) {
  std::string streams[2];
  for (const auto& event : events) {
    if (!event.display) streams[static_cast<std::size_t>(event.stream)] += event.data;
  }
  result["stdout"] = clean_utf8(streams[0]);
  result["stderr"] = clean_utf8(streams[1]);
  if (!is_utf8(streams[0])) result["stdout_base64"] = base64_encode(streams[0]);
  if (!is_utf8(streams[1])) result["stderr_base64"] = base64_encode(streams[1]);
}

// What can be seen at the end is in `result` and `displays`, and not repeated here.
json::object display_event(const wire::OutputEvent& event, const FinalDisplays& final) {
  const auto& display = *event.display;
  json::object result{{"type", hutch::name_of(display.kind)}, {"time_ms", milliseconds(event.at_us)}};
  if (display.kind == wire::DisplayKind::clear) {
    result["wait"] = display.wait;
  } else if (const auto index = final.index_of(display)) {
    result["display"] = *index;
    result["id"] = text_or_null(display.id);
  } else if (&display != final.result) {
    for (auto& [name, value] : display_object(display)) result[name] = std::move(value);
  }
  return result;
}

}  // namespace

// Neighbouring pieces of one stream are one event unless a character would be cut in two between them.
json::array events_array(const std::vector<wire::OutputEvent>& events) {
  const FinalDisplays final(events);
  json::array result;
  std::string carried[2];
  std::size_t last[2] = {0, 0};
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (!events[i].display) last[static_cast<std::size_t>(events[i].stream)] = i;
  }
  for (std::size_t i = 0; i < events.size(); ++i) {
    const auto& event = events[i];
    if (event.display) {
      result.push_back(display_event(event, final));
      continue;
    }
    const auto stream = static_cast<std::size_t>(event.stream);
    std::string text = std::move(carried[stream]) + event.data;
    carried[stream].clear();
    if (i < last[stream]) {
      const std::size_t whole = complete_utf8_prefix(text);
      carried[stream] = text.substr(whole);
      text.resize(whole);
    }
    if (text.empty()) continue;
    result.push_back(json::object{{"type", stream == 0 ? "stdout" : "stderr"},
                                  {"time_ms", milliseconds(event.at_us)},
                                  {"text", clean_utf8(text)}});
  }
  return result;
}

json::object record_object(const wire::Record& record, const std::vector<wire::OutputEvent>& events,
                           const std::vector<wire::FileEntry>& files, const json::storage_ptr& where) {
  json::object result({{"execution_id", record.execution_id},
                       {"status", name_of(record.status)},
                       {"language", "python"},
                       {"template", record.template_name},
                       {"started_at", timestamp(record.started_at_ns)},
                       {"exit_code", record.exit_code},
                       {"start", record.warm ? "warm" : "cold"}},
                      kRecordFields, where);
  add_streams(result, events);
  FinalDisplays(events).add_to(result);
  result["truncated"] = {{"stdout", record.stdout_truncated},
                         {"stderr", record.stderr_truncated},
                         {"files", record.files_truncated},
                         {"displays", record.displays_truncated}};
  result["changes"] = changes_value(record.changes);
  result["error"] = record.error ? json::value(error_object(*record.error)) : json::value(nullptr);
  result["files"] = to_json(files);
  add_usage(result, record);
  result["phases"] = {{"setup_ms", milliseconds(record.phases.setup_us)},
                      {"validation_ms", milliseconds(record.phases.validation_us)},
                      {"execution_ms", milliseconds(record.phases.execution_us)},
                      {"collection_ms", milliseconds(record.phases.collection_us)},
                      {"total_ms", milliseconds(record.phases.total_us)}};
  auto& walls = result["walls"].emplace_array();
  walls.reserve(record.walls.size());
  for (const auto& wall : record.walls) {
    walls.emplace_back(json::value_ref{{"name", wall.name}, {"up", wall.up}, {"detail", wall.detail}});
  }
  auto& denials = result["denials"].emplace_array();
  for (const auto& denial : record.denials) {
    denials.push_back(json::object{{"syscall", denial.syscall},
                                   {"detail", text_or_null(denial.detail)},
                                   {"count", denial.count},
                                   {"hint", denial.hint}});
  }
  auto& steps = result["steps"].emplace_array();
  steps.reserve(record.steps.size());
  for (const auto& step : record.steps) {
    steps.emplace_back(json::value_ref{{"name", step.name}, {"ms", milliseconds(step.duration_us)}});
  }
  auto& notices = result["notices"].emplace_array();
  for (const auto& notice : record.notices) notices.emplace_back(notice);
  return result;
}

std::string record_to_json(const wire::Record& record, const std::vector<wire::OutputEvent>& events,
                           const std::vector<wire::FileEntry>& files) {
  json::object result = record_object(record, events, files);
  result["events"] = events_array(events);
  return json_text(result);
}

std::string failure_to_json(const wire::Failed& failure) {
  const bool cancelled = failure.code == "cancelled";
  const bool request = failure.code == "bad_arguments" || failure.code == "unknown_template";
  const bool full = failure.code == "capacity";
  json::object error{{"category", cancelled ? "cancelled"
                                  : request ? "invalid_request"
                                  : full    ? "capacity"
                                            : "internal"},
                     {"code", failure.code},
                     {"message", clean_utf8(failure.message)},
                     {"hint", clean_utf8(failure.hint)},
                     {"fix", cancelled ? "none"
                             : request ? "change_code"
                             : full    ? "wait_and_retry"
                                       : "ask_operator"},
                     {"state", "lost"},
                     {"retryable", cancelled || full},
                     {"retry_after_ms", full ? json::value(failure.retry_after_ms) : json::value(nullptr)},
                     {"step", text_or_null(failure.step)}};
  return json_text(
      json::object{{"status", cancelled ? "cancelled" : "error"}, {"exit_code", 125}, {"error", std::move(error)}});
}

}  // namespace hutch
