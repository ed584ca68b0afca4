// Notebooks: run as a whole in a session of their own, and a session as a notebook.
#include <algorithm>
#include <boost/json.hpp>

#include "api/json_text.h"
#include "api/notebook_download.h"
#include "api/notebook_parameters.h"
#include "api/notebook_run.h"
#include "api/run_request.h"
#include "api/session_access.h"
#include "base/utf8.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::size_t kDepthAround = 1;                // the body's own
constexpr auto kLongestCell = std::chrono::hours(24);  // its own limit is much shorter

struct NotebookAsked {
  Notebook notebook = Notebook::make();
  NotebookOptions options;
  SessionAsked session;
  std::optional<std::chrono::milliseconds> timeout;  // of each cell
};

ApiError bad_notebook(const Error& error) { return bad_request(error.message, error.hint); }

// What a session is asked for is read as for a session.
Api<SessionAsked> read_session_part(const json::object& body, const Daemon& daemon, const Key& key) {
  json::object part;
  for (const std::string_view name : {"template", "mode", "env", "limits"}) {
    if (const auto* value = body.if_contains(name)) part[name] = *value;
  }
  return read_session(part, daemon.settings, key);
}

Api<NotebookAsked> read_asked(json::object body, const Daemon& daemon, const Key& key) {
  NotebookAsked asked;
  auto session = read_session_part(body, daemon, key);
  if (!session) return std::unexpected(session.error());
  asked.session = std::move(*session);
  JsonFields fields(body, "");
  for (const std::string_view name : {"template", "mode", "env", "limits"}) fields.value(name);
  fields.boolean("allow_errors", asked.options.allow_errors);
  bool hutch_data = false;
  fields.boolean("hutch_data", hutch_data);
  asked.options.data = hutch_data ? HutchData::keep : HutchData::leave_out;
  double timeout = 0;
  const double most = static_cast<double>(daemon.settings.engine.ceiling.wall.count()) / 1000.0;
  if (fields.number("timeout", timeout, 0.1, most)) {
    asked.timeout = std::chrono::milliseconds(static_cast<std::int64_t>(timeout * 1000));
  }
  const json::object* parameters = fields.object("parameters");
  const json::object* notebook = fields.object("notebook");
  if (notebook == nullptr) fields.refuse("notebook is missing");
  if (auto done = fields.finish(); !done) return std::unexpected(done.error());
  const json::object given = parameters != nullptr ? *parameters : json::object{};
  auto read = Notebook::from_document(std::move(body["notebook"].get_object()));
  if (!read) return std::unexpected(bad_notebook(read.error()));
  if (auto checked = check_language(*read); !checked) return std::unexpected(bad_notebook(checked.error()));
  if (auto put = inject_parameters(*read, given); !put) return std::unexpected(bad_request(put.error().message));
  asked.notebook = std::move(*read);
  return asked;
}

wire::Record record_of(const LiveRun& cell) {
  if (cell.record()) return *cell.record();
  wire::Record record;
  const ApiError error = cell.failure() ? from_failure(*cell.failure()) : ApiError{.message = "The cell did not run."};
  record.error = wire::RunError{.category = error.category, .code = error.code, .message = error.message};
  return record;
}

// Between two cells.
Handled may_go_on(Request& request) {
  Daemon& daemon = request.daemon;
  if (!request.exchange.still_allowed()) {
    return std::unexpected(ApiError{.status = 401,
                                    .category = "unauthorized",
                                    .code = "bad_token",
                                    .message = "The key was revoked or rotated while its notebook ran."});
  }
  if (!daemon.stopping() && daemon.budget_used(request.caller.key) < 1) return {};
  return daemon.may_run(request.caller);
}

// Nothing when every cell that could be run was; otherwise why the daemon would not go on.
net::awaitable<Handled> run_cells(Request& request, Session& session, NotebookRun& run,
                                  std::optional<std::chrono::milliseconds> timeout) {
  Daemon& daemon = request.daemon;
  while (auto source = run.next()) {
    if (run.cells_run() > 0) {
      HUTCH_API_CHECK(may_go_on(request));
    }
    auto cell = daemon.hub.run_in(
        session, {.what = {.code = std::move(*source)}, .timeout = timeout, .request_id = request.exchange.request_id});
    if (!cell) co_return std::unexpected(from_error(cell.error()));
    co_await (*cell)->wait_finished(Clock::now() + kLongestCell);
    for (const auto& event : (*cell)->output()) run.add(event);
    const bool lives = (*cell)->record() && (*cell)->session_state == "kept";
    run.finish(record_of(**cell), lives ? AfterCell::interpreter_lives : AfterCell::interpreter_gone);
  }
  co_return Handled{};
}

}  // namespace

net::awaitable<Handled> run_notebook(Request& request) {
  Daemon& daemon = request.daemon;
  HUTCH_API_CHECK(request.only({}));
  HUTCH_API_TRY(auto body, co_await read_json(request.exchange,
                                              std::min<std::size_t>(daemon.settings.most_body, kMostNotebookBytes),
                                              kMostNotebookDepth + kDepthAround));
  HUTCH_API_TRY(auto asked, read_asked(std::move(body), daemon, request.caller.key));
  HUTCH_API_CHECK(daemon.may_run(request.caller));
  const auto began = Clock::now();
  HUTCH_API_TRY(const auto session, co_await start_session(daemon, request.caller, std::move(asked.session)));
  asked.options.most_outputs = kMostNotebookEvents;
  const auto share = std::make_shared<BodyBudget::Share>(daemon.notebook_outputs, request.caller.key.id);
  asked.options.share = share;  // and ours until all has been sent
  NotebookRun run(std::move(asked.notebook), asked.options);
  auto stopped = co_await run_cells(request, *session, run, asked.timeout);
  co_await daemon.hub.end_session(session, "its notebook is over");
  if (!stopped) co_return std::unexpected(std::move(stopped).error());
  json::object answer = run.summary();
  answer["template"] = session->settings().template_name;
  answer["session_id"] = session->settings().id;
  answer["wall_ms"] = std::chrono::duration<double, std::milli>(Clock::now() - began).count();
  answer["notebook"] = std::move(run).take_notebook().take_document();
  std::string text = json_text(answer);
  answer = json::object();  // not both, for as long as it takes its reader
  co_await request.exchange.answer({.body = std::move(text)});
  co_return Handled{};
}

// Its variables may be gone, and the session too: what it ran is still known.
net::awaitable<Handled> download_notebook(Request& request) {
  HUTCH_API_CHECK(request.only({}));
  HUTCH_API_TRY(auto text, co_await notebook_of(request.daemon, request.caller, request.parameters[0]));
  co_await request.exchange.answer(
      {.body = std::move(text),
       .content_type = "application/x-ipynb+json",
       .headers = {{"Content-Disposition", "attachment; filename=\"" + request.parameters[0] + ".ipynb\""}}});
  co_return Handled{};
}

}  // namespace hutch
