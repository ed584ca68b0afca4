// The text editor on a session's files, and an edit with a run after it.
#include <algorithm>

#include "api/json_text.h"
#include "api/session_files.h"
#include "api/tools/handlers.h"
#include "api/tools/place.h"
#include "api/tools/run_result.h"
#include "api/tools/text_view.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostViewed = 40'000;  // characters
constexpr std::size_t kMostHistories = 64;   // of sessions whose edits can be undone, of all keys together

ApiError refused(const EditRefusal& refusal) {
  const bool arguments = refusal.code == EditProblem::bad_arguments;
  return {.status = arguments ? 400U : 409U,
          .category = arguments ? "invalid_request" : "file_error",
          .code = std::string(name(refusal.code)),
          .message = refusal.text};
}

// The file API's words for what is wrong with a path, in the editor's.
ApiError path_problem(const ApiError& error, const std::string& path) {
  static constexpr std::pair<std::string_view, EditProblem> kKnown[] = {
      {"file_not_found", EditProblem::file_not_found}, {"is_directory", EditProblem::is_directory},
      {"not_a_file", EditProblem::not_a_file},         {"permission_denied", EditProblem::permission_denied},
      {"too_large", EditProblem::too_large},           {"invalid_path", EditProblem::invalid_path}};
  for (const auto& [code, problem] : kKnown) {
    if (error.code == code) return refused(refuse_path(problem, path));
  }
  return error;
}

struct Editing {
  ToolCall& call;
  std::shared_ptr<Session> session;
  std::string path;   // relative
  std::string shown;  // as the model knows it
  json::object more;  // for dialects that want details

  [[nodiscard]] Api<std::string> read() const {
    auto content = read_whole(*session, path, static_cast<std::size_t>(kMostEditable.count));
    if (!content) return std::unexpected(path_problem(content.error(), shown));
    return content;
  }

  net::awaitable<Handled> write(std::optional<std::string> before, std::string content) {
    auto written = co_await write_whole(session, path, std::move(content));
    if (!written) co_return std::unexpected(path_problem(written.error(), shown));
    auto& edits = call.daemon.edits;
    const auto& id = session->settings().id;
    if (edits.size() >= kMostHistories && !edits.contains(id)) edits.erase(edits.begin());
    edits[id].remember(path, std::move(before));
    co_return Handled{};
  }
};

net::awaitable<Api<std::string>> view_directory_of(Editing& editing) {
  const UniqueFd workspace = editing.session->share_workspace();
  const Listing listing = co_await editing.call.daemon.engine.workers().run(
      Workers::owner_of(editing.call.caller.key.id), [&] { return list_directory(workspace.get(), editing.path, 2); });
  std::vector<DirectoryEntry> entries;
  const std::size_t prefix = editing.path.empty() ? 0 : editing.path.size() + 1;
  for (const auto& value : listing.entries) {
    const auto& entry = value.get_object();
    entries.push_back({.path = std::string(entry.at("path").as_string()).substr(prefix),
                       .is_directory = entry.at("type").as_string() == "directory",
                       .size = Bytes{entry.at("size").to_number<std::uint64_t>()}});
  }
  editing.more = {{"file_type", "text"}, {"num_lines", nullptr}, {"start_line", nullptr}, {"total_lines", nullptr}};
  co_return view_directory(editing.shown, entries);
}

net::awaitable<Api<std::string>> view(Editing& editing) {
  std::optional<ViewRange> range;
  if (const auto* given = editing.call.arguments.if_contains("view_range")) {
    const auto& both = given->get_array();
    if (both.size() != 2) co_return std::unexpected(refused(not_a_view_range()));
    range = ViewRange{.first = both[0].to_number<std::int64_t>(), .last = both[1].to_number<std::int64_t>()};
  }
  auto content = editing.read();
  if (!content && content.error().code == "is_directory" && !range) co_return co_await view_directory_of(editing);
  if (!content) co_return std::unexpected(content.error());
  auto viewed = view_text(editing.shown, *content, range, kMostViewed);
  if (!viewed) co_return std::unexpected(refused(viewed.error()));
  editing.more = {{"file_type", "text"},
                  {"content", viewed->content},
                  {"num_lines", viewed->line_count},
                  {"start_line", viewed->start_line},
                  {"total_lines", viewed->total_lines}};
  co_return viewed->text;
}

net::awaitable<Api<std::string>> create(Editing& editing) {
  if (!has_argument(editing.call, "file_text")) {
    co_return std::unexpected(bad_request("Invalid arguments: file_text is missing, which create needs."));
  }
  std::string content = text_argument(editing.call, "file_text");
  if (auto fits = check_editable(content); !fits) co_return std::unexpected(refused(fits.error()));
  auto before = editing.read();
  const bool existed = before.has_value();
  if (!existed && before.error().code != "file_not_found" && before.error().code != "not_text") {
    co_return std::unexpected(before.error());
  }
  HUTCH_API_CHECK(
      co_await editing.write(existed ? std::optional(std::move(*before)) : std::nullopt, std::move(content)));
  editing.more = {{"is_file_update", existed}};
  co_return created_text(editing.shown);
}

net::awaitable<Api<std::string>> replace(Editing& editing) {
  if (!has_argument(editing.call, "old_str")) {
    co_return std::unexpected(bad_request("Invalid arguments: old_str is missing, which str_replace needs."));
  }
  HUTCH_API_TRY(auto content, editing.read());
  auto replaced = replace_text(content, text_argument(editing.call, "old_str"), text_argument(editing.call, "new_str"));
  if (!replaced) co_return std::unexpected(refused(replaced.error()));
  const auto& diff = replaced->diff;
  json::array lines;
  for (const auto& line : diff.lines) lines.emplace_back(line);
  editing.more = {{"old_start", diff.old_start},
                  {"old_lines", diff.old_lines},
                  {"new_start", diff.new_start},
                  {"new_lines", diff.new_lines},
                  {"lines", std::move(lines)}};
  std::string text = replaced_text(*replaced, editing.shown);
  HUTCH_API_CHECK(co_await editing.write(std::move(content), std::move(replaced->content)));
  co_return text;
}

net::awaitable<Api<std::string>> insert(Editing& editing) {
  const char* field = has_argument(editing.call, "insert_text") ? "insert_text" : "new_str";
  if (!has_argument(editing.call, "insert_line") || !has_argument(editing.call, field)) {
    co_return std::unexpected(bad_request("Invalid arguments: insert needs insert_line and insert_text."));
  }
  HUTCH_API_TRY(auto content, editing.read());
  auto inserted =
      insert_text(content, number_argument(editing.call, "insert_line"), text_argument(editing.call, field));
  if (!inserted) co_return std::unexpected(refused(inserted.error()));
  std::string text = inserted_text(*inserted, editing.shown);
  HUTCH_API_CHECK(co_await editing.write(std::move(content), std::move(inserted->content)));
  co_return text;
}

net::awaitable<Handled> remove(Editing& editing) {
  HUTCH_API_TRY(auto porter, co_await PorterLoan::take(editing.session));
  co_await porter->send(wire::PorterTask::remove, wire::RemovePath{.path = editing.path, .recursive = false});
  auto outcome = co_await porter->outcome();
  if (!outcome) co_return std::unexpected(from_refusal(outcome.error()));
  co_await note_change(*editing.session);
  co_return Handled{};
}

net::awaitable<Api<std::string>> undo(Editing& editing) {
  auto& edits = editing.call.daemon.edits;
  EditHistory none;
  const auto found = edits.find(editing.session->settings().id);
  auto before = (found != edits.end() ? found->second : none).undo(editing.path);
  if (!before) co_return std::unexpected(refused(before.error()));
  auto done = *before ? co_await write_whole(editing.session, editing.path, **before) : co_await remove(editing);
  if (!done) {
    edits[editing.session->settings().id].remember(editing.path, std::move(*before));
    co_return std::unexpected(path_problem(done.error(), editing.shown));
  }
  co_return undone_text(editing.shown);
}

net::awaitable<Api<std::string>> edit(Editing& editing) {
  const std::string command = text_argument(editing.call, "command");
  if (command == "view") co_return co_await view(editing);
  if (command == "create") co_return co_await create(editing);
  if (command == "str_replace") co_return co_await replace(editing);
  if (command == "insert") co_return co_await insert(editing);
  co_return co_await undo(editing);
}

// As `python FILE` would, with what the session has imported already.
std::string code_to_run(const std::string& path) {
  const std::string quoted = json_text(json::value("/workspace/" + path));
  return "with open(" + quoted + ", 'rb') as _file:\n    _code = compile(_file.read(), " + quoted +
         ", 'exec')\nexec(_code, {'__name__': '__main__', '__file__': " + quoted + ", '__builtins__': __builtins__})";
}

}  // namespace

net::awaitable<Api<ToolResult>> edit_file_tool(ToolCall& call) {
  const bool execute = flag_argument(call, "execute");
  const std::string command = text_argument(call, "command");
  HUTCH_API_TRY(const auto path, workspace_path(text_argument(call, "path"), command == "view"));
  if (execute) {
    HUTCH_API_CHECK(call.daemon.may_run(call.caller));
  }
  HUTCH_API_TRY(auto session, co_await session_for_files(call));
  Editing editing{.call = call, .session = session, .path = path, .shown = text_argument(call, "path"), .more = {}};
  HUTCH_API_TRY(auto text, co_await edit(editing));
  ToolResult result{.text = std::move(text)};
  result.structured = {{"status", "ok"},      {"session_id", session->settings().id}, {"path", editing.shown},
                       {"text", result.text}, {"details", std::move(editing.more)},   {"execution", nullptr}};
  if (!execute) co_return result;
  CellTask task{.what = {.code = code_to_run(path)},
                .timeout = std::chrono::seconds(number_argument(call, "timeout", 30))};
  HUTCH_API_TRY(const auto run, co_await run_in_session(call, *session, std::move(task)));
  ToolResult ran = result_of(run, session.get());
  result.text += "\n" + ran.text;
  result.structured["status"] = ran.structured["status"];
  result.structured["execution"] = std::move(ran.structured);
  result.pictures = std::move(ran.pictures);
  result.run = run;
  co_return result;
}

}  // namespace hutch
