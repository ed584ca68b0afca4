// Code and commands, and what becomes of those that take long.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>

#include "api/tool_results.h"
#include "api/tools/handlers.h"
#include "api/tools/place.h"
#include "api/tools/run_result.h"
#include "base/utf8.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostOfLog = 1U << 20;  // bytes of one piece

std::chrono::milliseconds seconds_argument(const ToolCall& call, std::string_view name, std::int64_t otherwise) {
  return std::chrono::seconds(number_argument(call, name, otherwise));
}

net::awaitable<Api<std::shared_ptr<LiveRun>>> wait_for(ToolCall& call, std::shared_ptr<LiveRun> run) {
  if (call.on_run) call.on_run(run);
  const auto patience = flag_argument(call, "background") ? std::chrono::milliseconds(0) : call.patience;
  co_await run->wait_finished_or_called(Clock::now() + patience);
  if (run->stage() != RunStage::finished) {
    call.daemon.note_begun(*run);
    co_return run;
  }
  if (run->failure()) co_return std::unexpected(from_failure(*run->failure()));
  co_return run;
}

// What a run wrote from an offset on, wherever it is now.
std::string written_from(const Daemon& daemon, const LiveRun& run, wire::Stream stream, std::uint64_t from,
                         std::size_t most) {
  const char* name = stream == wire::Stream::out ? ".stdout" : ".stderr";
  const auto path = daemon.settings.caps.directory / (run.identity().id + name);
  const UniqueFd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  std::string text;
  if (!file) {
    const Streams streams = streams_of(run);
    const std::string& whole = stream == wire::Stream::out ? streams.out : streams.err;
    return from < whole.size() ? whole.substr(from, most) : "";
  }
  text.resize(most);
  const ssize_t count = ::pread(file.get(), text.data(), most, static_cast<off_t>(from));
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

// Cut at a character's end, so that the next piece begins with a whole one.
std::string whole_characters(std::string text, bool more_follows) {
  if (more_follows) text.resize(complete_utf8_prefix(text));
  return text;
}

ApiError execution_missing() {
  return {.status = 404,
          .category = "invalid_request",
          .code = "unknown_execution",
          .message = "There is no execution with this id.",
          .hint = "Use the execution_id of an earlier result; results are kept for a while only."};
}

// A run that is over and forgotten by all but the database.
Api<ToolResult> stored_result(ToolCall& call, const std::string& id) {
  const auto stored = call.daemon.stores.runs.get(id, call.caller.key.id);
  if (!stored || !*stored) return std::unexpected(execution_missing());
  boost::system::error_code failed;
  const auto parsed = json::parse((*stored)->record, failed);
  if (failed || !parsed.is_object()) return std::unexpected(execution_missing());
  const auto& record = parsed.get_object();
  const auto part = [&](const char* name) {
    const auto* found = record.if_contains(name);
    return found != nullptr ? *found : json::value(nullptr);
  };
  ToolResult result;
  json::object truncated;
  json::object logs;
  result.structured = {{"status", part("status")},
                       {"exit_code", part("exit_code")},
                       {"execution_time", static_cast<double>((*stored)->wall_us) / 1e6},
                       {"result", nullptr},
                       {"error", part("error")},
                       {"files", json::array{}},
                       {"images", 0},
                       {"session_id", part("session_id")},
                       {"execution_id", id}};
  for (const auto& [name, most] : {std::pair("stdout", kMostOut), std::pair("stderr", kMostErr)}) {
    const json::value text = part(name);
    const std::string_view whole = text.is_string() ? std::string_view(text.get_string()) : "";
    const std::string first = first_characters(whole, most);
    const bool cut = first.size() < whole.size();
    result.structured[name] = first;
    truncated[name] = cut;
    logs[name] = cut ? json::value("/v1/runs/" + id + "/log?stream=" + name) : json::value(nullptr);
  }
  result.structured["truncated"] = std::move(truncated);
  result.structured["full_log"] = std::move(logs);
  if (auto* error = result.structured["error"].if_object()) {
    (*error)["hint"] = in_terms_of_tools(json::value_to<std::string>((*error)["hint"]));
    result.is_error = (*error)["category"] == "internal";
  }
  tell(result);
  return result;
}

}  // namespace

OneShot one_shot_of(const ToolCall& call, std::string code, std::chrono::milliseconds timeout) {
  OneShot what;
  what.request.limits = default_limits(call.daemon.settings);
  what.request.limits.wall_ms = static_cast<std::uint64_t>(timeout.count());
  what.request.limits.cpu_ms = std::max(what.request.limits.cpu_ms, what.request.limits.wall_ms);
  if (const auto& most = call.caller.key.limits.memory_bytes) {
    what.request.limits.memory = std::min(what.request.limits.memory, *most);
  }
  what.request.weaker_limits = call.daemon.settings.weaker_limits;
  what.request.template_name = call.daemon.settings.template_name;
  what.request.file_name = "<string>";
  what.request.as_cell = true;
  what.request.code = std::move(code);
  return what;
}

net::awaitable<Api<std::shared_ptr<LiveRun>>> run_fresh(ToolCall& call, OneShot what) {
  what.request_id = call.caller.request_id;
  auto run = call.daemon.hub.run_once(std::move(what), call.caller.key.id);
  if (!run) co_return std::unexpected(from_error(run.error()));
  co_return co_await wait_for(call, *run);
}

net::awaitable<Api<std::shared_ptr<LiveRun>>> run_in_session(ToolCall& call, Session& session, CellTask task) {
  task.request_id = call.caller.request_id;
  auto run = call.daemon.hub.run_in(session, std::move(task));
  if (!run) co_return std::unexpected(from_error(run.error()));
  co_return co_await wait_for(call, *run);
}

net::awaitable<Api<ToolResult>> run_python_tool(ToolCall& call) {
  const auto timeout = seconds_argument(call, "timeout", 30);
  std::string code = text_argument(call, "code");
  ToolOffer offer;
  if (const auto* tools = call.arguments.if_contains("tools")) {
    HUTCH_API_TRY(offer, read_tool_offer(tools->get_array()));
  }
  HUTCH_API_TRY(const auto session, co_await place_of(call));
  if (session) {
    CellTask task{.what = {.code = std::move(code)}, .timeout = timeout};
    task.tools = std::move(offer);
    HUTCH_API_TRY(const auto run, co_await run_in_session(call, *session, std::move(task)));
    co_return result_of(run, session.get());
  }
  OneShot what = one_shot_of(call, std::move(code), timeout);
  what.tools = std::move(offer);
  HUTCH_API_TRY(const auto run, co_await run_fresh(call, std::move(what)));
  co_return result_of(run, nullptr);
}

net::awaitable<Api<ToolResult>> answer_tool_calls_tool(ToolCall& call) {
  const auto run = call.daemon.hub.find_run(text_argument(call, "execution_id"), call.caller.key.id);
  if (!run) co_return std::unexpected(execution_missing());
  std::vector<ToolAnswer> answers;
  for (const auto& given : call.arguments["results"].as_array()) {
    HUTCH_API_CHECK(read_tool_answer(given.get_object(), answers));
  }
  HUTCH_API_CHECK(give_tool_answers(*run, std::move(answers)));
  HUTCH_API_TRY(const auto again, co_await wait_for(call, run));
  co_return result_of(again, nullptr);
}

net::awaitable<Api<ToolResult>> run_shell_tool(ToolCall& call) {
  const bool restart = flag_argument(call, "restart");
  std::string command = text_argument(call, "command");
  if (command.empty() && !restart) co_return std::unexpected(bad_request("Invalid arguments: command is missing."));
  if (command.find('\0') != std::string::npos) {
    co_return std::unexpected(bad_request("Invalid arguments: command must not have null bytes."));
  }
  const bool own = text_argument(call, "session_id").empty() && call.without_session == WithoutSession::fresh_sandbox;
  HUTCH_API_TRY(const auto session, co_await session_of(call));
  if (restart) {
    if (auto restarted = co_await session->restart(); !restarted) {
      co_return std::unexpected(from_failure(restarted.error()));
    }
    if (command.empty()) {
      ToolResult result{.text = "The session was restarted: variables are gone, files are kept."};
      result.structured = {{"status", "ok"}, {"session_id", session->settings().id}};
      co_return result;
    }
  }
  CellTask task{.what = {.code = std::move(command), .is_command = true},
                .timeout = seconds_argument(call, "timeout", 30)};
  auto run = co_await run_in_session(call, *session, std::move(task));
  ToolResult result;
  if (run) result = result_of(*run, own ? nullptr : session.get());
  if (own && run && (*run)->stage() == RunStage::finished) {
    result.structured["session_id"] = nullptr;
    co_await call.daemon.hub.end_session(session, "its command is over");
  }
  if (!run) co_return std::unexpected(run.error());
  co_return result;
}

net::awaitable<Api<ToolResult>> get_execution_tool(ToolCall& call) {
  const std::string id = text_argument(call, "execution_id");
  const auto run = call.daemon.hub.find_run(id, call.caller.key.id);
  if (!run) co_return stored_result(call, id);
  if (call.on_run) call.on_run(run);
  const auto wait = std::min(seconds_argument(call, "wait_seconds", 0), call.patience);
  if (wait.count() > 0) co_await run->wait_finished(Clock::now() + wait);
  if (run->failure()) co_return std::unexpected(from_failure(*run->failure()));
  ToolResult result = result_of(run, nullptr);
  json::object next;
  for (const auto stream : {wire::Stream::out, wire::Stream::err}) {
    const std::string name = stream == wire::Stream::out ? "stdout" : "stderr";
    const auto from = static_cast<std::uint64_t>(number_argument(call, name + "_from", 0));
    const std::size_t most = stream == wire::Stream::out ? kMostOut : kMostErr;
    std::string piece = written_from(call.daemon, *run, stream, from, std::min(most, kMostOfLog));
    const bool more = from + piece.size() < run->written(stream);
    piece = whole_characters(std::move(piece), more || run->stage() != RunStage::finished);
    next[name + "_from"] = from + piece.size();
    if (has_argument(call, name + "_from") && (from > 0 || more)) {
      result.structured[name] = clean_utf8(piece);
      result.structured["truncated"].as_object()[name] = more;
      result.text = "<" + name + ">" + clean_utf8(piece) + "</" + name + ">\n" + result.text;
    }
  }
  result.structured["next"] = std::move(next);
  co_return result;
}

net::awaitable<Api<ToolResult>> cancel_execution_tool(ToolCall& call) {
  const std::string id = text_argument(call, "execution_id");
  const auto run = call.daemon.hub.find_run(id, call.caller.key.id);
  if (!run) {
    HUTCH_API_TRY(auto result, stored_result(call, id));
    result.text = "It is over already.\n" + result.text;
    co_return result;
  }
  if (run->cancel && run->stage() != RunStage::finished) run->cancel();
  co_await run->wait_finished(Clock::now() + std::chrono::seconds(5));
  if (run->failure() && run->failure()->error.code != ErrorCode::disconnected) {
    co_return std::unexpected(from_failure(*run->failure()));
  }
  co_return result_of(run, nullptr);
}

}  // namespace hutch
