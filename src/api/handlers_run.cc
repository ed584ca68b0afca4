// Runs of their own, and what is kept of every run.
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>

#include "api/base64.h"
#include "api/event_writer.h"
#include "api/file_answer.h"
#include "api/json_text.h"
#include "api/routes.h"
#include "api/run_answer.h"
#include "api/run_json.h"
#include "api/run_request.h"
#include "base/id.h"
#include "base/log.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr auto kLongestRun = std::chrono::hours(24);

const std::string& fingerprint_of(Daemon& daemon, const std::string& name) {
  static const std::string none;
  const auto& templates = daemon.engine.options().templates;
  const auto found = std::ranges::find(templates, name, &Template::name);
  return found == templates.end() ? none : found->fingerprint;
}

bool was_cut(const json::object& record, const std::string& stream) {
  const auto* truncated = record.if_contains("truncated");
  const auto* cut =
      truncated != nullptr && truncated->is_object() ? truncated->get_object().if_contains(stream) : nullptr;
  return cut != nullptr && cut->is_bool() && cut->get_bool();
}

// The files and logs of the first run, under the name of another too. False when one of them is not there any more.
bool share_leftovers(const std::filesystem::path& directory, const std::string& first, const std::string& id,
                     const json::object& record) {
  std::error_code failed;
  const auto share = [&](const std::string& name) {
    std::filesystem::create_hard_link(directory / (first + name), directory / (id + name), failed);
    return !failed;
  };
  for (const std::string stream : {"stdout", "stderr"}) {
    if (was_cut(record, stream) && !share("." + stream)) return false;
  }
  const auto& files = record.at("files").as_array();
  if (!files.empty()) std::filesystem::create_directory(directory / (id + ".files"), failed);
  for (std::size_t i = 0; i < files.size(); ++i) {
    const bool expected = files[i].as_object().at("sha256").is_string();  // else there may never have been a content
    if (!share(".files/" + std::to_string(i)) && expected) return false;
  }
  return true;
}

void rename_logs(json::object& full_log, const std::string& first, const std::string& id) {
  for (const char* stream : {"stdout", "stderr"}) {
    auto* link = full_log[stream].if_string();
    if (link == nullptr) continue;
    std::string text(*link);
    if (const auto at = text.find(first); at != std::string::npos) text.replace(at, first.size(), id);
    *link = text;
  }
}

// The same answer under a new name, with the files of the first.
net::awaitable<bool> answer_from_cache(Request& request, const std::string& digest) {
  Daemon& daemon = request.daemon;
  const auto& key_id = request.caller.key.id;
  const auto cached = daemon.stores.cache.lookup(key_id, digest);
  if (!cached || !*cached) {
    ++daemon.metrics.cache_misses;
    co_return false;
  }
  boost::system::error_code failed;
  auto parsed = json::parse((*cached)->record, failed);
  if (failed || !parsed.is_object()) co_return false;
  auto& record = parsed.get_object();
  const std::string first(record["execution_id"].as_string());
  const std::string id = random_id("exe");
  std::error_code ignored;
  if (!share_leftovers(daemon.settings.caps.directory, first, id, record)) {
    for (const char* suffix : {".stdout", ".stderr", ".files"}) {
      std::filesystem::remove_all(daemon.settings.caps.directory / (id + suffix), ignored);
    }
    co_return false;  // something is gone meanwhile: run it again
  }
  if (record["full_log"].is_object()) rename_logs(record["full_log"].get_object(), first, id);
  const std::int64_t now = system_now_ns();
  record["execution_id"] = id;
  record["cached"] = true;
  record["cached_at"] = record["finished_at"];
  StoredRun stored{.id = id,
                   .key_id = key_id,
                   .status = "ok",
                   .template_name = std::string(record["template"].as_string()),
                   .created_ns = now,
                   .started_ns = now,
                   .finished_ns = now,
                   .cached = true,
                   .record = json_text(record),
                   .events = (*cached)->events};
  if (auto kept = daemon.stores.runs.finish(stored, 0); !kept) {
    log::error("cached result not stored",
               {{"request", request.exchange.request_id}, {"run", id}, {"error", kept.error().message}});
  }
  ++daemon.metrics.cache_hits;
  co_await request.exchange.answer({.body = with_field(stored.record, "events", stored.events)});
  co_return true;
}

ApiError unknown_before() { return bad_request("before must be the id of a run that is kept"); }

// Of a key, newest first. What is stored of them is as old as their beginning.
Api<json::array> under_way(Daemon& daemon, const std::string& key_id, const RunFilter& filter) {
  using Place = std::pair<std::int64_t, std::string>;
  std::optional<Place> before;
  if (!filter.before.empty()) {
    const auto run = daemon.hub.find_run(filter.before, key_id);
    const auto stored = daemon.stores.runs.get(filter.before, key_id);
    if (!run && (!stored || !*stored)) return std::unexpected(unknown_before());
    before = Place(run ? run->created_ns : (*stored)->created_ns, filter.before);
  }
  std::map<Place, json::object, std::greater<>> found;
  daemon.hub.for_each_run([&](LiveRun& run) {
    const Place place(run.created_ns, run.identity().id);
    if (run.identity().key_id != key_id || status_of(run) != filter.status || (before && place >= *before)) return;
    if (!filter.session_id.empty() && run.identity().session_id != filter.session_id) return;
    found.emplace(place, summary_of(run));
  });
  json::array runs;
  for (auto& [place, run] : found) {
    if (runs.size() < filter.limit) runs.push_back(std::move(run));
  }
  return runs;
}

// Those under way are stored first, so that each has its place among the others.
Api<json::array> stored_with_live(Daemon& daemon, const std::string& key_id, const RunFilter& filter) {
  std::vector<LiveRun*> begun;
  daemon.hub.for_each_run([&](LiveRun& run) {
    if (run.stage() != RunStage::finished && run.identity().key_id == key_id) begun.push_back(&run);
  });
  daemon.note_begun(begun);
  const auto stored = daemon.stores.runs.list(key_id, filter);
  if (!stored && stored.error().code == ErrorCode::invalid_argument) return std::unexpected(unknown_before());
  if (!stored) return std::unexpected(ApiError{.message = "The runs cannot be read."});
  json::array runs;
  for (const auto& run : *stored) {
    const auto live = daemon.hub.find_run(run.id, key_id);
    runs.push_back(live && live->stage() != RunStage::finished ? summary_of(*live) : summary_of(run));
  }
  return runs;
}

}  // namespace

net::awaitable<Handled> answer_run(Request& request, std::shared_ptr<LiveRun> run, Wait wait) {
  const auto format = parse_accept(request.exchange.request().header("accept"));
  if (format != Accepts::json) {
    co_await write_events(request.exchange, run, run->events(), 0, format);
    co_return Handled{};
  }
  const auto deadline = Clock::now() + (wait.most ? Clock::duration(*wait.most) : Clock::duration(kLongestRun));
  if (wait.or_called) co_await run->wait_finished_or_called(deadline);
  const bool over = run->stage() == RunStage::finished || (!wait.or_called && co_await run->wait_finished(deadline));
  if (!over) {
    request.daemon.note_begun(*run);
    co_await request.exchange.answer({.status = 202, .body = with_field(run_text(*run), "events", events_text(*run))});
    co_return Handled{};
  }
  if (run->failure() && run->failure()->error.code != ErrorCode::disconnected) {
    co_return std::unexpected(from_failure(*run->failure()));
  }
  co_await request.exchange.answer({.body = with_field(run->rendered, "events", run->rendered_events)});
  co_return Handled{};
}

namespace {

net::awaitable<Api<OneShotAsked>> read_run(Request& request) {
  const auto& settings = request.daemon.settings;
  HUTCH_API_TRY(const auto body, co_await read_json(request.exchange, settings.most_body));
  co_return read_one_shot(body, settings, request.caller.key);
}

}  // namespace

net::awaitable<Handled> post_run(Request& request) {
  Daemon& daemon = request.daemon;
  HUTCH_API_CHECK(request.only({}));
  HUTCH_API_TRY(auto asked, co_await read_run(request));
  asked.what.kept = std::move(request.exchange.body_share);  // of the body files and input are left
  asked.what.request_id = request.exchange.request_id;
  HUTCH_API_CHECK(daemon.may_run(request.caller));
  std::string digest;
  const auto format = parse_accept(request.exchange.request().header("accept"));
  if (asked.cache && format == Accepts::json) {
    digest = cache_digest(asked.what, fingerprint_of(daemon, asked.what.request.template_name));
    if (co_await answer_from_cache(request, digest)) co_return Handled{};
  }
  auto run = daemon.hub.run_once(std::move(asked.what), request.caller.key.id);
  if (!run) co_return std::unexpected(from_error(run.error()));
  if (!digest.empty()) {
    (*run)->on_stored = [&daemon, digest, key = request.caller.key.id](LiveRun& live) {
      if (!live.record() || live.record()->status != wire::Status::ok || !live.record()->denials.empty()) return;
      const auto kept = daemon.stores.cache.insert(
          key, digest, {.record = live.rendered, .events = live.rendered_events, .created_ns = live.finished_ns});
      if (kept) return;
      const auto& of = live.identity();
      log::error("result not cached", {{"request", of.request_id}, {"run", of.id}, {"error", kept.error().message}});
    };
  }
  co_return co_await answer_run(request, *run, asked.wait);
}

net::awaitable<Handled> list_runs_of(Request& request, std::string session_id) {
  Daemon& daemon = request.daemon;
  const auto& key_id = request.caller.key.id;
  HUTCH_API_TRY(const auto limit, request.number("limit", 20, 100));
  if (limit == 0) co_return std::unexpected(bad_request("limit must be from 1 to 100"));
  RunFilter filter{.session_id = std::move(session_id), .limit = limit + 1};  // one more, to know of it
  if (const auto* status = request.find("status")) {
    constexpr std::array<std::string_view, 6> kKnown{"queued", "running", "ok", "error", "timeout", "cancelled"};
    if (std::ranges::find(kKnown, *status) == kKnown.end()) {
      co_return std::unexpected(bad_request("status must be queued, running, ok, error, timeout or cancelled"));
    }
    filter.status = *status;
  }
  if (const auto* before = request.find("before")) filter.before = *before;
  HUTCH_API_TRY(auto runs, filter.status == "queued" || filter.status == "running"
                               ? under_way(daemon, key_id, filter)
                               : stored_with_live(daemon, key_id, filter));
  const bool more = runs.size() > limit;
  if (more) runs.resize(limit);
  const json::value next = more ? runs.back().get_object().at("execution_id") : json::value(nullptr);
  co_await request.exchange.answer({.body = json_text(json::object{{"runs", std::move(runs)}, {"next", next}})});
  co_return Handled{};
}

net::awaitable<Handled> list_runs(Request& request) {
  HUTCH_API_CHECK(request.only({"session", "status", "limit", "before"}));
  const auto* session = request.find("session");
  co_return co_await list_runs_of(request, session != nullptr ? *session : "");
}

net::awaitable<Handled> show_run_of(Request& request, std::string id, std::string session_id) {
  Daemon& daemon = request.daemon;
  HUTCH_API_CHECK(request.only({"wait_ms", "return_on_tool_call"}));
  HUTCH_API_TRY(const bool or_called, request.flag("return_on_tool_call"));
  HUTCH_API_TRY(const auto wait, request.number("wait_ms", 0, 300'000));
  if (const auto run = daemon.hub.find_run(id, request.caller.key.id)) {
    if (!session_id.empty() && run->identity().session_id != session_id) co_return std::unexpected(run_missing());
    const auto deadline = Clock::now() + std::chrono::milliseconds(wait);
    if (wait > 0 && or_called) co_await run->wait_finished_or_called(deadline);
    if (wait > 0 && !or_called) co_await run->wait_finished(deadline);
    const bool over = run->stage() == RunStage::finished;
    co_await request.exchange.answer({.body = over ? with_field(run->rendered, "events", run->rendered_events)
                                                   : with_field(run_text(*run), "events", events_text(*run))});
    co_return Handled{};
  }
  const auto stored = daemon.stores.runs.get(id, request.caller.key.id);
  if (!stored || !*stored || (!session_id.empty() && (*stored)->session_id != session_id)) {
    co_return std::unexpected(run_missing());
  }
  const auto& events = (*stored)->events;
  co_await request.exchange.answer({.body = with_field((*stored)->record, "events", events.empty() ? "[]" : events)});
  co_return Handled{};
}

net::awaitable<Handled> show_run(Request& request) {
  co_return co_await show_run_of(request, request.parameters[0], "");
}

namespace {

// Of a run that nobody saw end, it is one that no run reaches: its readers have missed what was told before.
std::uint64_t last_event_of(const StoredRun& run) {
  constexpr std::uint64_t kBeyondAll = 1'000'000'000;
  constexpr std::size_t kDeepest = 512;  // what is shown may be nested
  boost::system::error_code failed;
  json::parse_options options;
  options.max_depth = kDeepest;
  const auto record = json::parse(run.record, failed, {}, options);
  const auto* last = record.is_object() ? record.get_object().if_contains("last_event") : nullptr;
  return last != nullptr && last->is_int64() ? static_cast<std::uint64_t>(last->get_int64()) : kBeyondAll;
}

}  // namespace

net::awaitable<Handled> stream_run(Request& request) {
  Daemon& daemon = request.daemon;
  HUTCH_API_CHECK(request.only({"after"}));
  HUTCH_API_TRY(const auto after, resume_point(request));
  const auto format = parse_accept(request.exchange.request().header("accept"), Accepts::event_stream);
  const auto wanted = format == Accepts::json ? Accepts::event_stream : format;
  if (const auto run = daemon.hub.find_run(request.parameters[0], request.caller.key.id)) {
    co_await write_events(request.exchange, run, run->events(), after, wanted);
    co_return Handled{};
  }
  const auto stored = daemon.stores.runs.get(request.parameters[0], request.caller.key.id);
  if (!stored || !*stored) co_return std::unexpected(run_missing());
  // Long over: its output is in its record, and all that is left to tell is how it ended.
  const std::uint64_t last = last_event_of(**stored);
  std::string text;
  const auto add = [&](std::string_view name, std::uint64_t number, const std::string& event) {
    text += wanted == Accepts::ndjson ? "" : fmt::format("id: {}\nevent: {}\ndata: ", number, name);
    text += event + (wanted == Accepts::ndjson ? "\n" : "\n\n");
  };
  if (after + 1 < last) add("gap", last - 1, gap_text(after + 1, last - 1));
  if (after < last) {
    const std::string head =
        fmt::format(R"({{"seq":{},"type":"finished","run":"{}","time_ms":0}})", last, (*stored)->id);
    add("finished", last, with_field(head, "result", (*stored)->record));
  }
  const bool lines = wanted == Accepts::ndjson;
  if (co_await request.exchange.begin({.content_type = lines ? "application/x-ndjson" : "text/event-stream"},
                                      std::nullopt)) {
    if (!text.empty()) co_await request.exchange.write(text);
    co_await request.exchange.end();
  }
  co_return Handled{};
}

// Whether the caller may see this run at all.
Handled check_run(Request& request) {
  if (request.daemon.hub.find_run(request.parameters[0], request.caller.key.id)) return {};
  const auto stored = request.daemon.stores.runs.get(request.parameters[0], request.caller.key.id);
  if (stored && *stored) return {};
  return std::unexpected(run_missing());
}

std::string record_of(Request& request) {
  if (const auto run = request.daemon.hub.find_run(request.parameters[0], request.caller.key.id)) {
    return run->rendered.empty() ? run_text(*run) : run->rendered;
  }
  const auto stored = request.daemon.stores.runs.get(request.parameters[0], request.caller.key.id);
  return stored && *stored ? (*stored)->record : "";
}

// What the run itself has of a stream; nothing when that is not all of it.
std::optional<std::string> whole_output(Request& request, const std::string& stream) {
  boost::system::error_code failed;
  const auto parsed = json::parse(record_of(request), failed);
  if (failed || !parsed.is_object()) return "";
  const auto& record = parsed.get_object();
  if (was_cut(record, stream)) return std::nullopt;
  const auto* encoded = record.if_contains(stream + "_base64");
  if (encoded != nullptr && encoded->is_string()) {
    return base64_decode(std::string_view(encoded->get_string())).value_or("");
  }
  const auto* text = record.if_contains(stream);
  return text != nullptr && text->is_string() ? std::string(text->get_string()) : "";
}

net::awaitable<Handled> show_log(Request& request) {
  HUTCH_API_CHECK(request.only({"stream"}));
  HUTCH_API_CHECK(check_run(request));
  const auto* stream = request.find("stream");
  if (stream != nullptr && *stream != "stdout" && *stream != "stderr") {
    co_return std::unexpected(bad_request("stream must be stdout or stderr"));
  }
  const std::string which = stream == nullptr ? "stdout" : *stream;
  const std::string name = request.parameters[0] + "." + which;
  UniqueFd file{::open((request.daemon.settings.caps.directory / name).c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  if (!file) {
    const auto text = whole_output(request, which);
    if (!text) {
      co_return std::unexpected(
          file_error(404, "file_not_found", "The log is not kept any more; the run itself has the beginning of it."));
    }
    file.reset(::memfd_create("log", MFD_CLOEXEC));
    if (!file || ::write(file.get(), text->data(), text->size()) != static_cast<ssize_t>(text->size())) {
      co_return std::unexpected(ApiError{.message = "The log cannot be read."});
    }
  }
  co_return co_await answer_file(request.exchange, std::move(file), name, "text/plain; charset=utf-8");
}

net::awaitable<Handled> show_run_file(Request& request) {
  Daemon& daemon = request.daemon;
  HUTCH_API_CHECK(request.only({}));
  HUTCH_API_CHECK(check_run(request));
  const std::string record = record_of(request);
  boost::system::error_code failed;
  const auto parsed = json::parse(record.empty() ? "{}" : record, failed);
  const auto* files = parsed.is_object() ? parsed.get_object().if_contains("files") : nullptr;
  if (files != nullptr && files->is_array()) {
    for (std::size_t i = 0; i < files->get_array().size(); ++i) {
      const auto& entry = files->get_array()[i].get_object();
      if (entry.at("path").as_string() != request.parameters[1]) continue;
      const auto path = daemon.settings.caps.directory / (request.parameters[0] + ".files") / std::to_string(i);
      UniqueFd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
      if (!file) break;
      const auto* type = entry.at("mime_type").if_string();
      co_return co_await answer_file(request.exchange, std::move(file), request.parameters[1],
                                     type != nullptr ? std::string(*type) : "application/octet-stream");
    }
  }
  co_return std::unexpected(file_error(404, "file_not_found", "The run left no such file."));
}

net::awaitable<Handled> cancel_run(Request& request) {
  HUTCH_API_CHECK(request.only({}));
  HUTCH_API_CHECK(check_run(request));
  std::string status = "finished";
  if (const auto run = request.daemon.hub.find_run(request.parameters[0], request.caller.key.id)) {
    if (run->cancel) run->cancel();
    status = status_of(*run);
  } else if (const auto stored = request.daemon.stores.runs.get(request.parameters[0], request.caller.key.id);
             stored && *stored) {
    status = (*stored)->status;
  }
  co_await request.exchange.answer(
      {.status = 202, .body = json_text(json::object{{"execution_id", request.parameters[0]}, {"status", status}})});
  co_return Handled{};
}

}  // namespace hutch
