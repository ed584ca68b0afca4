// Sessions: made, watched, used and ended.
#include <algorithm>
#include <boost/json.hpp>

#include "api/engine_setup.h"
#include "api/event_writer.h"
#include "api/json_text.h"
#include "api/run_answer.h"
#include "api/run_json.h"
#include "api/session_access.h"
#include "base/id.h"
#include "base/log.h"

namespace hutch {
namespace {

namespace json = boost::json;

wire::RunMode usual_mode_of(Daemon& daemon, const std::string& template_name) {
  const auto& templates = daemon.engine.options().templates;
  const auto found = std::ranges::find(templates, template_name, &Template::name);
  return found != templates.end() ? usual_mode(*found) : wire::RunMode::shell;
}

ApiError not_opened(const Daemon& daemon, const Session& session, const StartFailure& failure) {
  return session.state() == SessionState::ended ? session_over(daemon) : from_failure(failure);
}

}  // namespace

Api<std::shared_ptr<Session>> find_session(Daemon& daemon, const Caller& caller, const std::string& id) {
  auto session = daemon.hub.find_session(id, caller.key.id);
  if (session) return session;
  const auto stored = daemon.stores.sessions.get(id, caller.key.id);
  if (!stored || !*stored) return std::unexpected(session_missing());
  return std::unexpected(ApiError{.status = 410,
                                  .category = "session_not_found",
                                  .code = "lost",
                                  .message = "The daemon was restarted, and nothing of this session was kept.",
                                  .hint = "Make a new one; sessions with `persist` keep their files."});
}

net::awaitable<Api<std::shared_ptr<Session>>> open_session(Daemon& daemon, const Caller& caller, std::string id) {
  HUTCH_API_TRY(auto session, find_session(daemon, caller, id));
  if (session->has_sandbox() && !session->opening()) co_return session;
  if (auto opened = co_await session->open(); !opened) {
    co_return std::unexpected(not_opened(daemon, *session, opened.error()));
  }
  co_return session;
}

net::awaitable<Api<std::shared_ptr<Session>>> start_session(Daemon& daemon, const Caller& caller, SessionAsked asked) {
  const auto& key_id = caller.key.id;
  if (daemon.hub.sessions_of(key_id).size() >= daemon.settings.sessions_per_key) {
    co_return std::unexpected(ApiError{.status = 429,
                                       .category = "rate_limited",
                                       .code = "too_many_concurrent",
                                       .message = "This key has too many sessions.",
                                       .hint = "End one with DELETE /v1/sessions/{session}, or let it expire.",
                                       .retry_after = std::chrono::seconds(10)});
  }
  auto& how = asked.settings;
  how.id = random_id("ses");
  how.key_id = key_id;
  how.saved_files = daemon.hub.saved_files_of(how.id);
  if (!asked.mode_given) how.mode = usual_mode_of(daemon, how.template_name);
  auto session = daemon.hub.add_session(std::move(how));
  if (auto opened = co_await session->open(); !opened) {
    const ApiError error = not_opened(daemon, *session, opened.error());
    if (error.status >= 500) {
      log::error("session not started", {{"request", caller.request_id},
                                         {"key", key_id},
                                         {"session", session->settings().id},
                                         {"error", opened.error().error.message}});
    }
    co_await daemon.hub.end_session(session, "it could not be started");
    co_return std::unexpected(error);
  }
  daemon.store_session(*session, session->settings().persist ? "files_kept" : "lost");
  log::info("session created", {{"request", caller.request_id}, {"key", key_id}, {"session", session->settings().id}});
  daemon.audit(key_id, "session_created", session->settings().id);
  co_return session;
}

net::awaitable<Handled> create_session(Request& request) {
  Daemon& daemon = request.daemon;
  HUTCH_API_CHECK(request.only({}));
  HUTCH_API_TRY(const auto body, co_await read_json(request.exchange, daemon.settings.most_body));
  HUTCH_API_TRY(auto asked, read_session(body, daemon.settings, request.caller.key));
  HUTCH_API_CHECK(daemon.may_run(request.caller));
  HUTCH_API_TRY(const auto session, co_await start_session(daemon, request.caller, std::move(asked)));
  co_await request.exchange.answer({.status = 201, .body = json_text(session_object(*session))});
  co_return Handled{};
}

namespace {

// Which of its sessions a client wants to see.
struct SessionFilter {
  std::string label;  // empty: all
  std::string value;
  std::string state;  // empty: all

  static Api<SessionFilter> from(const Request& request) {
    SessionFilter filter;
    if (const auto* label = request.find("label")) {
      const std::size_t equals = label->find('=');
      if (equals == std::string::npos) return std::unexpected(bad_request("label must be NAME=VALUE"));
      filter.label = label->substr(0, equals);
      filter.value = label->substr(equals + 1);
    }
    if (const auto* state = request.find("state")) {
      if (std::ranges::find(kStates, *state) == std::end(kStates)) {
        return std::unexpected(bad_request("state must be ready, busy, files_kept or lost"));
      }
      filter.state = *state;
    }
    return filter;
  }

  [[nodiscard]] bool matches(const json::object& session) const {
    if (!state.empty() && session.at("state").as_string() != state) return false;
    if (label.empty()) return true;
    const auto* found = session.at("labels").as_object().if_contains(label);
    return found != nullptr && found->is_string() && found->as_string() == value;
  }

  static constexpr std::string_view kStates[] = {"ready", "busy", "files_kept", "lost"};
};

}  // namespace

// Those that a restart ended, too: as `lost`, until they would have expired.
net::awaitable<Handled> list_sessions(Request& request) {
  HUTCH_API_CHECK(request.only({"label", "state", "limit"}));
  HUTCH_API_TRY(const auto limit, request.number("limit", 100, 1'000));
  HUTCH_API_TRY(const auto filter, SessionFilter::from(request));
  Daemon& daemon = request.daemon;
  const auto& key_id = request.caller.key.id;
  const auto stored = daemon.stores.sessions.list(key_id);
  if (!stored) co_return std::unexpected(ApiError{.message = "The sessions cannot be read."});
  std::vector<std::pair<std::int64_t, json::object>> found;  // by creation
  for (const auto& session : daemon.hub.sessions_of(key_id)) {
    found.emplace_back(session->created_ns, session_object(*session));
  }
  for (const auto& session : *stored) {
    if (!daemon.hub.find_session(session.id, key_id)) found.emplace_back(session.created_ns, session_object(session));
  }
  std::erase_if(found, [&](const auto& one) { return !filter.matches(one.second); });
  std::ranges::sort(found, std::greater{}, [](const auto& one) { return one.first; });
  json::array sessions;
  for (auto& [created_ns, session] : found) {
    if (sessions.size() < limit) sessions.push_back(std::move(session));
  }
  co_await request.exchange.answer({.body = json_text(json::object{{"sessions", std::move(sessions)}})});
  co_return Handled{};
}

net::awaitable<Handled> show_session(Request& request) {
  HUTCH_API_CHECK(request.only({}));
  if (const auto session = request.daemon.hub.find_session(request.parameters[0], request.caller.key.id)) {
    co_await request.exchange.answer({.body = json_text(session_object(*session))});
    co_return Handled{};
  }
  const auto stored = request.daemon.stores.sessions.get(request.parameters[0], request.caller.key.id);
  if (!stored || !*stored) co_return std::unexpected(session_missing());
  co_await request.exchange.answer({.body = json_text(session_object(**stored))});  // lost, and said so
  co_return Handled{};
}

net::awaitable<Handled> change_session(Request& request) {
  HUTCH_API_CHECK(request.only({}));
  HUTCH_API_TRY(const auto session, find_session(request));
  HUTCH_API_TRY(const auto body, co_await read_json(request.exchange, 64U << 10));
  HUTCH_API_TRY(auto change, read_session_change(body));
  if (session->state() == SessionState::ended) co_return std::unexpected(session_over(request.daemon));
  auto& settings = session->settings();
  if (change.name) settings.name = std::move(*change.name);
  if (change.labels) settings.labels = std::move(*change.labels);
  if (change.ttl) settings.ttl = *change.ttl;
  session->touch();
  request.daemon.store_session(*session, settings.persist ? "files_kept" : "lost");
  co_await request.exchange.answer({.body = json_text(session_object(*session))});
  co_return Handled{};
}

net::awaitable<Handled> delete_session(Request& request) {
  HUTCH_API_CHECK(request.only({}));
  auto session = find_session(request);
  if (!session && session.error().status == 410) {  // only its name is left
    std::ignore = request.daemon.stores.sessions.remove(request.parameters[0]);
  } else if (!session) {
    co_return std::unexpected(session.error());
  } else {
    co_await request.daemon.hub.end_session(*session, "deleted");
  }
  co_await request.exchange.answer({.status = 204, .content_type = ""});
  co_return Handled{};
}

namespace {

net::awaitable<Api<CellAsked>> read_session_run(Request& request) {
  const auto& settings = request.daemon.settings;
  HUTCH_API_TRY(const auto body, co_await read_json(request.exchange, settings.most_body));
  co_return read_cell(body, settings);
}

}  // namespace

net::awaitable<Handled> post_session_run(Request& request) {
  Daemon& daemon = request.daemon;
  HUTCH_API_CHECK(request.only({}));
  HUTCH_API_TRY(const auto session, find_session(request));
  HUTCH_API_TRY(auto asked, co_await read_session_run(request));
  request.exchange.body_share.reset();  // the body is gone before the run waits for its turn
  HUTCH_API_CHECK(daemon.may_run(request.caller));
  if (session->state() == SessionState::ended) co_return std::unexpected(session_over(daemon));
  asked.task.request_id = request.exchange.request_id;
  auto run = daemon.hub.run_in(*session, std::move(asked.task));
  if (!run) co_return std::unexpected(from_error(run.error()));
  co_return co_await answer_run(request, *run, asked.wait);
}

net::awaitable<Handled> list_session_runs(Request& request) {
  HUTCH_API_CHECK(request.only({"status", "limit", "before"}));
  HUTCH_API_CHECK(find_session(request));
  co_return co_await list_runs_of(request, request.parameters[0]);
}

net::awaitable<Handled> show_session_run(Request& request) {
  co_return co_await show_run_of(request, request.parameters[1], request.parameters[0]);
}

net::awaitable<Handled> interrupt_session(Request& request) {
  HUTCH_API_CHECK(request.only({}));
  HUTCH_API_TRY(const auto session, find_session(request));
  const bool interrupted = session->interrupt();
  co_await request.exchange.answer({.status = 202, .body = json_text(json::object{{"interrupted", interrupted}})});
  co_return Handled{};
}

net::awaitable<Handled> restart_session(Request& request) {
  HUTCH_API_CHECK(request.only({}));
  HUTCH_API_TRY(const auto session, find_session(request));
  if (auto restarted = co_await session->restart(); !restarted) {
    co_return std::unexpected(not_opened(request.daemon, *session, restarted.error()));
  }
  co_await request.exchange.answer({.body = json_text(session_object(*session))});
  co_return Handled{};
}

net::awaitable<Handled> send_stdin(Request& request) {
  HUTCH_API_CHECK(request.only({}));
  HUTCH_API_TRY(const auto session, find_session(request));
  HUTCH_API_TRY(const auto body, co_await read_json(request.exchange, 1U << 20));
  JsonFields fields(body, "");
  std::string text;
  if (!fields.text("text", text, 64U << 10)) fields.refuse("text is missing");
  HUTCH_API_CHECK(fields.finish());
  if (auto given = session->give_input(text); !given) {
    co_return std::unexpected(ApiError{.status = 409,
                                       .category = "session_busy",
                                       .code = "not_reading",
                                       .message = given.error().message,
                                       .hint = given.error().hint});
  }
  co_await request.exchange.answer({.status = 202, .body = R"({"accepted":true})"});
  co_return Handled{};
}

net::awaitable<Handled> stream_session(Request& request) {
  HUTCH_API_CHECK(request.only({"after"}));
  HUTCH_API_TRY(const auto session, find_session(request));
  HUTCH_API_TRY(const auto after, resume_point(request));
  const auto format = parse_accept(request.exchange.request().header("accept"), Accepts::event_stream);
  co_await write_events(request.exchange, session, session->events(), after,
                        format == Accepts::json ? Accepts::event_stream : format);
  co_return Handled{};
}

}  // namespace hutch
