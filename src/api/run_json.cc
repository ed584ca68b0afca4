#include "api/run_json.h"

#include "api/api_error.h"
#include "api/display_json.h"
#include "api/json_text.h"
#include "api/record_json.h"
#include "base/utf8.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr const char* kNone = "none";  // where nothing was measured

json::value or_null(const std::string& text) {
  return text.empty() ? json::value(nullptr) : json::value(clean_utf8(text));
}
json::value time_or_null(std::int64_t ns) { return ns == 0 ? json::value(nullptr) : json::value(timestamp(ns)); }

// Checked when the sandbox sent it.
json::value input_of(const PendingToolCall& call) {
  boost::system::error_code failed;
  json::value input = json::parse(call.input, failed);
  return failed ? json::value(json::object{}) : input;
}

std::int64_t ms_left(const PendingToolCall& call, Clock::time_point at) {
  return std::max<std::int64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(call.deadline - at).count(), 0);
}

std::string_view name_of(ToolCallEnd how) {
  switch (how) {
    case ToolCallEnd::ok:
      return "ok";
    case ToolCallEnd::error:
      return "error";
    case ToolCallEnd::timeout:
      return "timeout";
    case ToolCallEnd::cancelled:
      return "cancelled";
  }
  return "cancelled";
}

json::array calls_of(const LiveRun& run) {
  json::array calls;
  const auto now = Clock::now();
  for (const auto& call : run.pending_tool_calls()) {
    calls.push_back(json::object{{"call_id", call->call_id},
                                 {"name", call->name},
                                 {"input", input_of(*call)},
                                 {"deadline_ms", ms_left(*call, now)}});
  }
  return calls;
}

// The hints were written for the command line.
void speak_http(json::object& run) {
  auto* error = run["error"].if_object();
  auto* hint = error != nullptr ? (*error)["hint"].if_string() : nullptr;
  if (hint != nullptr) *hint = in_terms_of_fields(std::string(*hint));
}

json::value log_of(const LiveRun& run) {
  if (!run.truncated(wire::Stream::out) && !run.truncated(wire::Stream::err)) return nullptr;
  const std::string base = "/v1/runs/" + run.identity().id + "/log?stream=";
  const auto link = [&](wire::Stream stream, const char* name) {
    return run.truncated(stream) ? json::value(base + name) : json::value(nullptr);
  };
  return json::object{{"stdout", link(wire::Stream::out, "stdout")},
                      {"stderr", link(wire::Stream::err, "stderr")},
                      {"stdout_bytes", run.written(wire::Stream::out)},
                      {"stderr_bytes", run.written(wire::Stream::err)}};
}

// A run that has no record of its own: it waits, it runs, or we failed it.
wire::Record record_so_far(const LiveRun& run) {
  wire::Record record{.execution_id = run.identity().id, .template_name = run.identity().template_name};
  record.started_at_ns = run.started_ns;
  record.warm = true;
  record.usage.memory_source = kNone;
  if (!run.failure()) return record;
  const ApiError error = from_failure(*run.failure());
  const bool cancelled = error.category == "cancelled";
  record.status = cancelled ? wire::Status::cancelled : wire::Status::error;
  record.exit_code = 125;
  record.error = wire::RunError{.category = error.category,
                                .code = error.code,
                                .message = error.message,
                                .hint = error.hint,
                                .fix = std::string(fix_of(error)),
                                .state = run.session_state.empty() ? "lost" : run.session_state,
                                .retryable = cancelled || error.retry_after.count() > 0};
  return record;
}

std::string_view name_of(wire::RunMode mode) { return mode == wire::RunMode::ipython ? "ipython" : "plain"; }

std::string_view name_of(SessionState state) {
  switch (state) {
    case SessionState::ready:
      return "ready";
    case SessionState::busy:
      return "busy";
    case SessionState::stopped:
      return "files_kept";
    case SessionState::lost:
      return "lost";
    case SessionState::ended:
      return "ended";
  }
  return "ended";
}

std::string render(const StreamEvent& event, Clock::time_point began) {
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(event.at - began).count();
  json::object result{{"seq", event.number},
                      {"type", event_name(event)},
                      {"run", or_null(event.run)},
                      {"time_ms", static_cast<double>(us) / 1000.0}};
  switch (event.type) {
    case EventType::queued:
    case EventType::started:
    case EventType::input_wanted:
      break;
    case EventType::output:
      result["text"] = event.text;
      break;
    case EventType::display:
      for (auto& [name, value] : display_object(*event.display)) result[name] = std::move(value);
      if (event.display->kind == wire::DisplayKind::clear) result["wait"] = event.display->wait;
      break;
    case EventType::truncated:
      result["stream"] = event.stream == wire::Stream::out ? "stdout" : "stderr";
      result["kept_bytes"] = event.kept_bytes;
      break;
    case EventType::file:
      if (event.file) result["file"] = file_object(*event.file);
      break;
    case EventType::finished:
      if (const auto run = event.result.lock()) return with_field(json_text(result), "result", run_text(*run));
      result["result"] = nullptr;
      break;
    case EventType::tool_call:
      result["call_id"] = event.call->call_id;
      result["name"] = event.call->name;
      result["input"] = input_of(*event.call);
      result["deadline_ms"] = ms_left(*event.call, event.at);
      break;
    case EventType::tool_call_done:
      result["call_id"] = event.text;
      result["status"] = name_of(event.call_end);
      break;
    case EventType::session:
      result["state"] = event.state;
      result["reason"] = or_null(event.text);
      break;
  }
  return json_text(result);
}

}  // namespace

std::string status_of(const LiveRun& run) {
  if (run.stage() == RunStage::queued) return "queued";
  if (run.stage() == RunStage::running) return "running";
  const auto status = run.record() ? run.record()->status : record_so_far(run).status;
  return std::string(name_of(status));
}

std::string run_text(const LiveRun& run) {
  const bool over = run.stage() == RunStage::finished;
  json::monotonic_resource arena(8U << 10);
  json::object result =
      record_object(run.record() ? *run.record() : record_so_far(run), run.output(), run.files(), &arena);
  result["status"] = status_of(run);
  result["started_at"] = time_or_null(run.started_ns);
  if (!over) {
    for (const char* name : {"exit_code", "usage", "phases"}) result[name] = nullptr;
    result["pending_tool_calls"] = calls_of(run);
  }
  result["session_id"] = or_null(run.identity().session_id);
  if (!run.source.empty()) result[run.is_command ? "command" : "code"] = clean_utf8(run.source);
  result["execution_count"] = run.execution_count == 0 ? json::value(nullptr) : json::value(run.execution_count);
  result["created_at"] = timestamp(run.created_ns);
  result["finished_at"] = time_or_null(run.finished_ns);
  result["cached"] = run.cached;
  result["cached_at"] = time_or_null(run.cached_ns);
  if (over) result["last_event"] = run.last_event;
  result["full_log"] = log_of(run);
  result["session"] = run.session_state.empty()
                          ? json::value(nullptr)
                          : json::value(json::object{{"state", run.session_state},
                                                     {"expires_at", time_or_null(run.session_expires_ns)}});
  speak_http(result);
  return json_text(result);
}

std::string with_field(std::string text, std::string_view name, std::string_view value) {
  text.pop_back();
  text += text.size() > 1 ? ",\"" : "\"";
  text += name;
  text += "\":";
  text += value;
  text += '}';
  return text;
}

std::string events_text(const LiveRun& run) { return json_text(events_array(run.output())); }

std::string interrupted_text(const StoredRun& run) {
  wire::Record record{.execution_id = run.id,
                      .status = wire::Status::error,
                      .template_name = run.template_name,
                      .started_at_ns = run.started_ns,
                      .exit_code = 125,
                      .warm = true};
  record.error = wire::RunError{.category = "internal",
                                .code = "worker_lost",
                                .message = "The daemon was stopped while this ran.",
                                .hint = "Run it again.",
                                .fix = "wait_and_retry",
                                .state = "lost",
                                .retryable = true};
  record.usage.memory_source = kNone;
  json::object result = record_object(record, {}, {});
  result["started_at"] = time_or_null(run.started_ns);
  result["session_id"] = or_null(run.session_id);
  result["execution_count"] = nullptr;
  result["created_at"] = timestamp(run.created_ns);
  result["finished_at"] = timestamp(system_now_ns());
  result["cached"] = false;
  result["cached_at"] = nullptr;
  result["full_log"] = nullptr;
  result["session"] = nullptr;
  return json_text(result);
}

json::object summary_of(const StoredRun& run) {
  return {{"execution_id", run.id},
          {"session_id", or_null(run.session_id)},
          {"status", run.status},
          {"template", run.template_name},
          {"created_at", timestamp(run.created_ns)},
          {"started_at", time_or_null(run.started_ns)},
          {"finished_at", time_or_null(run.finished_ns)},
          {"cpu_ms", static_cast<double>(run.cpu_us) / 1000.0},
          {"wall_ms", static_cast<double>(run.wall_us) / 1000.0},
          {"cached", run.cached}};
}

json::object summary_of(const LiveRun& run) {
  StoredRun stored{.id = run.identity().id,
                   .session_id = run.identity().session_id,
                   .status = status_of(run),
                   .template_name = run.identity().template_name,
                   .created_ns = run.created_ns,
                   .started_ns = run.started_ns,
                   .finished_ns = run.finished_ns,
                   .cached = run.cached};
  return summary_of(stored);
}

std::string_view event_name(const StreamEvent& event) {
  switch (event.type) {
    case EventType::queued:
      return "queued";
    case EventType::started:
      return "started";
    case EventType::output:
      return event.stream == wire::Stream::out ? "stdout" : "stderr";
    case EventType::display:
      return name_of(event.display->kind);
    case EventType::truncated:
      return "truncated";
    case EventType::file:
      return "file";
    case EventType::finished:
      return "finished";
    case EventType::session:
      return "session";
    case EventType::input_wanted:
      return "input_wanted";
    case EventType::tool_call:
      return "tool_call";
    case EventType::tool_call_done:
      return "tool_call_done";
  }
  return "session";
}

std::shared_ptr<const std::string> event_text(const StreamEvent& event, Clock::time_point began) {
  if (auto told = event.told.lock()) return told;
  auto text = std::make_shared<const std::string>(render(event, began));
  event.told = text;
  return text;
}

json::object limits_object(const wire::RunLimits& limits) {
  return {{"timeout", static_cast<double>(limits.wall_ms) / 1000.0},
          {"cpu_time", static_cast<double>(limits.cpu_ms) / 1000.0},
          {"memory", limits.memory},
          {"scratch", limits.scratch},
          {"output", limits.output},
          {"cpu_percent", limits.cpu_percent},
          {"processes", limits.processes},
          {"open_files", limits.open_files},
          {"inodes", limits.inodes}};
}

json::object session_object(const Session& session) {
  const auto memory = session.peak_memory();
  const auto& settings = session.settings();
  json::object labels;
  for (const auto& [name, value] : settings.labels) labels[name] = value;
  return {{"id", settings.id},
          {"name", or_null(settings.name)},
          {"labels", std::move(labels)},
          {"template", settings.template_name},
          {"mode", name_of(settings.mode)},
          {"state", name_of(session.state())},
          {"created_at", timestamp(session.created_ns)},
          {"last_used_at", timestamp(session.last_used_ns)},
          {"expires_at", timestamp(session.expires_ns())},
          {"ttl", settings.ttl.count()},
          {"max_age", settings.max_age.count()},
          {"persist", settings.persist},
          {"files_saved", settings.persist ? json::value(session.saved()) : json::value(nullptr)},
          {"execution_count", session.execution_count},
          {"queued", session.queued()},
          {"limits", limits_object(settings.limits)},
          {"memory_bytes", memory ? json::value(*memory) : json::value(nullptr)}};
}

json::object session_object(const StoredSession& session) {
  boost::system::error_code failed;
  auto labels = json::parse(session.labels, failed);
  auto options = json::parse(session.options, failed);
  return {{"id", session.id},
          {"name", or_null(session.name)},
          {"labels", labels.is_object() ? labels : json::value(json::object{})},
          {"template", session.template_name},
          {"mode", session.mode},
          {"state", session.state},
          {"created_at", timestamp(session.created_ns)},
          {"last_used_at", timestamp(session.last_used_ns)},
          {"expires_at", timestamp(session.expires_ns())},
          {"ttl", session.ttl_s},
          {"max_age", session.max_age_s},
          {"persist", session.persist},
          {"files_saved", nullptr},
          {"execution_count", session.execution_count},
          {"queued", 0},
          {"limits", options.is_object() && options.get_object().contains("limits") ? options.get_object()["limits"]
                                                                                    : json::value(json::object{})},
          {"memory_bytes", nullptr}};
}

}  // namespace hutch
