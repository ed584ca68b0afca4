// Files of a session. Reading is done here, beneath the workspace's descriptor; whatever changes something is done by
// the session's porter, inside.
#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/json.hpp>
#include <deque>

#include "api/event_writer.h"
#include "api/file_answer.h"
#include "api/json_fields.h"
#include "api/json_text.h"
#include "api/multipart.h"
#include "api/record_json.h"
#include "api/session_access.h"
#include "api/session_files.h"
#include "base/utf8.h"
#include "session/mime_types.h"
#include "session/workspace.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::uint32_t kMostUnpacked = 10'000;
constexpr Clock::duration kWatchInterval = std::chrono::milliseconds(250);
constexpr Clock::duration kLongestWatchInterval = std::chrono::seconds(2);
constexpr int kWatchPause = 10;   // times what the last look took: large directories are looked at less often
constexpr long kMostWatches = 8;  // of a key at once

ApiError upload_too_large() {
  return {.status = 413,
          .category = "invalid_request",
          .code = "too_large",
          .message = "The upload is larger than this daemon takes."};
}

ApiError broke_off(BodyProblem problem) {
  const bool slow = problem == BodyProblem::too_slow;
  return {.status = slow ? 408U : 400U,
          .category = "invalid_request",
          .code = slow ? "too_slow" : "bad_arguments",
          .message = "The upload broke off; nothing was changed."};
}

// The body, piece by piece; how it ended.
net::awaitable<Api<wire::PorterDone>> send_body(Request& request, Porter& porter) {
  std::uint64_t total = 0;
  for (;;) {
    const auto piece = co_await request.exchange.read_some();
    if (!piece) {
      co_await porter.send(wire::PorterTask::abort, wire::PorterNothing{});
      std::ignore = co_await porter.outcome();
      co_return std::unexpected(broke_off(piece.error()));
    }
    if (piece->empty()) break;
    total += piece->size();
    if (total > request.daemon.settings.most_upload || !co_await porter.send_data(*piece)) {
      co_await porter.send(wire::PorterTask::abort, wire::PorterNothing{});
      auto outcome = co_await porter.outcome();
      if (outcome) {
        co_return std::unexpected(upload_too_large());
      }
      co_return std::unexpected(from_refusal(outcome.error()));
    }
  }
  co_await porter.send(wire::PorterTask::end, wire::PorterNothing{});
  auto outcome = co_await porter.outcome();
  if (!outcome) co_return std::unexpected(from_refusal(outcome.error()));
  co_return *outcome;
}

Api<std::optional<wire::ArchiveFormat>> archive_of(const Request& request) {
  const auto* format = request.find("archive");
  if (format == nullptr) return std::nullopt;
  if (*format == "tar") return wire::ArchiveFormat::tar;
  if (*format == "zip") return wire::ArchiveFormat::zip;
  return std::unexpected(bad_request("archive must be tar or zip"));
}

net::awaitable<Handled> send_archive(Request& request, std::shared_ptr<Session> session, wire::ArchiveFormat format) {
  const auto& path = request.parameters[1];
  const bool tar = format == wire::ArchiveFormat::tar;
  const std::string name = (path.empty() ? "workspace" : path) + (tar ? ".tar" : ".zip");
  const Answer head{.content_type = tar ? "application/x-tar" : "application/zip",
                    .headers = {{"Content-Disposition", html_free_filename(name)},
                                {"Content-Security-Policy", "sandbox; default-src 'none'"}}};
  if (request.exchange.request().method == Method::head) {
    co_await request.exchange.begin(head, std::nullopt);
    co_return Handled{};
  }
  HUTCH_API_TRY(auto porter, co_await PorterLoan::take(session));
  if (!co_await porter->send(wire::PorterTask::pack, wire::PackTree{.path = path, .format = format})) {
    co_return std::unexpected(from_refusal({.code = "io_error", .message = {}}));
  }
  auto piece = co_await porter->next_piece();
  if (!piece) {
    auto outcome = co_await porter->outcome();
    if (!outcome) co_return std::unexpected(from_refusal(outcome.error()));
  }
  if (!co_await request.exchange.begin(head, std::nullopt)) co_return Handled{};
  while (piece) {
    // Where nobody reads, a porter in the middle of its work is not given back: it ends, and the next one is new.
    if (!co_await request.exchange.write(*piece)) co_return Handled{};
    piece = co_await porter->next_piece();
  }
  const bool whole = (co_await porter->outcome()).has_value();
  if (whole) co_await request.exchange.end();  // without it the client knows that something is missing
  co_return Handled{};
}

// Held while a watch is open; nothing when the key has as many as it may.
WatchToken begin_watch(Request& request) {
  auto& token = request.daemon.watches[request.caller.key.id];
  if (!token) token = std::make_shared<std::monostate>();
  return token.use_count() > kMostWatches ? nullptr : token;  // the daemon holds one, too
}

ApiError too_many_watches() {
  return {.status = 429,
          .category = "rate_limited",
          .code = "too_many_concurrent",
          .message = "This key has " + std::to_string(kMostWatches) + " watches open.",
          .hint = "End one, or watch a directory above: a watch tells of everything below.",
          .retry_after = std::chrono::seconds(5)};
}

std::string watch_event(const json::object& event, bool as_event_stream) {
  const std::string text = json_text(event);
  if (!as_event_stream) return text + "\n";
  const std::string number = std::to_string(event.at("seq").to_number<std::uint64_t>());
  return "id: " + number + "\nevent: " + std::string(event.at("type").as_string()) + "\ndata: " + text + "\n\n";
}

// By looking again and again: the sandbox has no way to tell, and a few stats are cheap.
net::awaitable<Handled> watch(Request& request, std::shared_ptr<Session> session) {
  const auto held = begin_watch(request);
  if (!held) co_return std::unexpected(too_many_watches());
  const auto format = parse_accept(request.exchange.request().header("accept"), Accepts::ndjson);
  const bool events = format == Accepts::event_stream;
  if (!co_await request.exchange.begin({.content_type = events ? "text/event-stream" : "application/x-ndjson"},
                                       std::nullopt)) {
    co_return Handled{};
  }
  if (request.exchange.request().method == Method::head) co_return Handled{};
  const std::string prefix = request.parameters[1].empty() ? "" : request.parameters[1] + "/";
  Census known;
  Clock::duration look_took{};
  const auto look = [&](Session& at) -> net::awaitable<Collection> {
    const UniqueFd workspace = at.share_workspace();
    if (!workspace) co_return Collection{};  // of the daemon's descriptors none is left: it is no change
    // Timed over there: how long a thread had other things to do says nothing about this directory.
    co_return co_await request.daemon.engine.workers().run(
        Workers::owner_of(request.caller.key.id), [&workspace, &known, &look_took] {
          const auto began = Clock::now();
          auto changed = collect_changes(workspace.get(), known, Look::stamps, Bytes{0});
          look_took = Clock::now() - began;
          return changed;
        });
  };
  std::ignore = co_await look(*session);
  bool incomplete = false;  // and told so
  net::steady_timer timer(request.daemon.engine.executor());
  boost::system::error_code ignored;
  std::uint64_t number = 0;
  auto last_word = Clock::now();
  bool open = co_await request.exchange.write(watch_event({{"seq", number}, {"type", "watching"}}, events));
  while (open && session->has_sandbox() && !request.daemon.stopping() && !request.exchange.client_gone() &&
         request.exchange.still_allowed()) {
    timer.expires_after(std::clamp(kWatchPause * look_took, kWatchInterval, kLongestWatchInterval));
    co_await timer.async_wait(net::redirect_error(net::use_awaitable, ignored));
    if (!session->has_sandbox()) break;  // its files went with it: nobody deleted them
    session->touch();
    std::string text;
    const Collection changed = co_await look(*session);
    for (const auto& file : changed.files) {
      if (!file.entry.path.starts_with(prefix)) continue;
      json::object entry = file_object(file.entry);
      text += watch_event({{"seq", ++number},
                           {"type", "change"},
                           {"path", entry["path"]},
                           {"change", entry["change"]},
                           {"size", entry["size"]}},
                          events);
    }
    if (changed.truncated && !incomplete) text += watch_event({{"seq", ++number}, {"type", "incomplete"}}, events);
    incomplete = changed.truncated;
    if (text.empty() && Clock::now() - last_word < std::chrono::seconds(15)) continue;
    if (text.empty()) text = events ? ": still here\n\n" : "\n";
    last_word = Clock::now();
    open = co_await request.exchange.write(text);
  }
  if (open) co_await request.exchange.end();
  co_return Handled{};
}

// The files of a form: either all of them are stored, or none is.
class FormUpload {
 public:
  FormUpload(Request& request, PorterLoan porter, MultipartParser parser)
      : request_(request), porter_(std::move(porter)), parser_(std::move(parser)) {}

  net::awaitable<Handled> receive() {
    co_await porter_->send(wire::PorterTask::write_files, wire::PorterNothing{});
    auto received = co_await receive_parts();
    co_await porter_->send(received ? wire::PorterTask::end : wire::PorterTask::abort, wire::PorterNothing{});
    auto outcome = co_await porter_->outcome();
    if (!outcome && (received || refused_)) co_return std::unexpected(from_refusal(outcome.error()));
    co_return received;
  }
  [[nodiscard]] const std::vector<std::string>& paths() const { return paths_; }

 private:
  net::awaitable<Handled> receive_parts() {
    std::uint64_t total = 0;
    for (;;) {
      const auto piece = co_await request_.exchange.read_some();
      if (!piece) co_return std::unexpected(broke_off(piece.error()));
      if (piece->empty()) break;
      total += piece->size();
      if (total > request_.daemon.settings.most_upload) co_return std::unexpected(upload_too_large());
      parser_.feed(*piece);
      HUTCH_API_CHECK(co_await take_events());
    }
    if (auto whole = parser_.finish(); !whole) co_return std::unexpected(bad_request(whole.error().message));
    co_return Handled{};
  }

  net::awaitable<Handled> take_events() {
    for (;;) {
      auto event = parser_.next();
      if (!event) co_return std::unexpected(bad_request(event.error().message));
      if (!*event) co_return Handled{};
      if (const auto* begin = std::get_if<PartBegin>(&**event)) {
        HUTCH_API_CHECK(co_await begin_file(*begin));
      } else if (const auto* data = std::get_if<PartData>(&**event)) {
        refused_ = !co_await porter_->send_data(data->bytes);
        if (refused_) co_return std::unexpected(from_refusal({.code = "io_error", .message = {}}));
      }
    }
  }

  net::awaitable<Handled> begin_file(const PartBegin& part) {
    if (!part.file_name) co_return std::unexpected(bad_request("Every part must be a file, with a filename."));
    const auto& directory = request_.parameters[1];
    std::string path = directory.empty() ? *part.file_name : directory + "/" + *part.file_name;
    HUTCH_API_CHECK(check_path(path, false));
    co_await porter_->send(wire::PorterTask::next_file, wire::NextFile{.path = path});
    paths_.push_back(std::move(path));
    co_return Handled{};
  }

  Request& request_;
  PorterLoan porter_;
  MultipartParser parser_;
  std::vector<std::string> paths_;
  bool refused_ = false;  // in the middle, and the outcome says why
};

net::awaitable<Handled> receive_forms(Request& request, std::shared_ptr<Session> session) {
  auto parser = MultipartParser::from_content_type(request.exchange.request().header("content-type"));
  if (!parser) co_return std::unexpected(bad_request(parser.error().message));
  if (request.exchange.request().length.value_or(0) > request.daemon.settings.most_upload) {
    co_return std::unexpected(upload_too_large());
  }
  HUTCH_API_TRY(auto porter, co_await PorterLoan::take(session));
  FormUpload upload(request, std::move(porter), std::move(*parser));
  HUTCH_API_CHECK(co_await upload.receive());
  co_await note_change(*session);
  json::array entries;
  for (const auto& path : upload.paths()) {
    if (auto info = describe_file(*session, path)) entries.push_back(std::move(*info));
  }
  co_await request.exchange.answer({.status = 201, .body = json_text(json::object{{"entries", std::move(entries)}})});
  co_return Handled{};
}

}  // namespace

net::awaitable<Handled> get_file(Request& request) {
  HUTCH_API_CHECK(request.only({"recursive", "archive", "watch"}));
  const auto& path = request.parameters[1];
  HUTCH_API_CHECK(check_path(path, true));
  HUTCH_API_TRY(const bool recursive, request.flag("recursive"));
  HUTCH_API_TRY(const bool watched, request.flag("watch"));
  HUTCH_API_TRY(const auto archive, archive_of(request));
  HUTCH_API_TRY(const auto session, co_await open_session(request));
  session->touch();
  const UniqueFd found = open_beneath(session->workspace(), path, O_PATH);
  struct stat status{};
  if (!found || ::fstat(found.get(), &status) != 0) co_return std::unexpected(not_there(errno));
  const bool directory = S_ISDIR(status.st_mode);
  if (archive) {
    if (!directory) co_return std::unexpected(file_error(409, "not_a_directory", "Only a directory can be packed."));
    co_return co_await send_archive(request, session, *archive);
  }
  if (watched) co_return co_await watch(request, session);
  if (directory) {
    const UniqueFd workspace = session->share_workspace();
    auto text = co_await request.daemon.engine.workers().run(
        Workers::owner_of(request.caller.key.id), [&workspace, &path, recursive] {
          auto listing = list_directory(workspace.get(), path, recursive ? kDeepestListing : 1);
          return json_text(
              json::object{{"path", path}, {"entries", std::move(listing.entries)}, {"truncated", listing.truncated}});
        });
    co_await request.exchange.answer({.body = std::move(text)});
    co_return Handled{};
  }
  if (!S_ISREG(status.st_mode)) co_return std::unexpected(file_error(409, "not_a_file", "That is not a regular file."));
  UniqueFd file = open_beneath(session->workspace(), path, O_RDONLY);
  if (!file) co_return std::unexpected(not_there(errno));
  std::string mime = mime_type_of(path, file.get());
  co_return co_await answer_file(request.exchange, std::move(file), path, std::move(mime));
}

net::awaitable<Handled> put_file(Request& request) {
  HUTCH_API_CHECK(request.only({"executable", "archive"}));
  const auto& path = request.parameters[1];
  HUTCH_API_TRY(const auto archive, archive_of(request));
  HUTCH_API_TRY(const bool executable, request.flag("executable"));
  HUTCH_API_CHECK(check_path(path, archive.has_value()));
  if (request.exchange.request().length.value_or(0) > request.daemon.settings.most_upload) {
    co_return std::unexpected(upload_too_large());
  }
  HUTCH_API_TRY(const auto session, co_await open_session(request));
  HUTCH_API_TRY(auto porter, co_await PorterLoan::take(session));
  if (archive) {
    co_await porter->send(wire::PorterTask::unpack,
                          wire::UnpackTree{.path = path, .format = *archive, .most_files = kMostUnpacked});
    HUTCH_API_TRY(const auto done, co_await send_body(request, *porter.operator->()));
    co_await note_change(*session);
    co_await request.exchange.answer({.body = json_text(json::object{{"path", path}, {"files", done.count}})});
    co_return Handled{};
  }
  co_await porter->send(wire::PorterTask::write, wire::WriteFile{.path = path, .executable = executable});
  HUTCH_API_TRY(const auto done, co_await send_body(request, *porter.operator->()));
  co_await note_change(*session);
  HUTCH_API_TRY(const auto info, describe_file(*session, path));
  co_await request.exchange.answer({.status = done.created ? 201U : 200U, .body = json_text(info)});
  co_return Handled{};
}

net::awaitable<Handled> post_file(Request& request) {
  HUTCH_API_CHECK(request.only({}));
  const auto& path = request.parameters[1];
  const bool forms = request.exchange.request().header("content-type").starts_with("multipart/form-data");
  HUTCH_API_CHECK(check_path(path, forms));
  HUTCH_API_TRY(const auto session, co_await open_session(request));
  if (forms) co_return co_await receive_forms(request, session);
  HUTCH_API_TRY(const auto body, co_await read_json(request.exchange, 64U << 10));
  JsonFields fields(body, "");
  std::string operation;
  std::string to;
  bool overwrite = false;
  fields.text("operation", operation, 20);
  fields.text("to", to, 1024);
  fields.boolean("overwrite", overwrite);
  if (operation != "mkdir" && operation != "move") fields.refuse("operation must be mkdir or move");
  HUTCH_API_CHECK(fields.finish());
  const bool moving = operation == "move";
  if (moving) {
    HUTCH_API_CHECK(check_path(to, false));
  }
  HUTCH_API_TRY(auto porter, co_await PorterLoan::take(session));
  if (moving) {
    co_await porter->send(wire::PorterTask::move, wire::MovePath{.from = path, .to = to, .overwrite = overwrite});
  } else {
    co_await porter->send(wire::PorterTask::make_directory, wire::MakeDirectory{.path = path});
  }
  auto outcome = co_await porter->outcome();
  if (!outcome) co_return std::unexpected(from_refusal(outcome.error()));
  co_await note_change(*session);
  HUTCH_API_TRY(const auto info, describe_file(*session, moving ? to : path));
  co_await request.exchange.answer({.status = moving || !outcome->created ? 200U : 201U, .body = json_text(info)});
  co_return Handled{};
}

net::awaitable<Handled> delete_file(Request& request) {
  HUTCH_API_CHECK(request.only({"recursive"}));
  const auto& path = request.parameters[1];
  HUTCH_API_CHECK(check_path(path, false));
  HUTCH_API_TRY(const bool recursive, request.flag("recursive"));
  HUTCH_API_TRY(const auto session, co_await open_session(request));
  HUTCH_API_TRY(auto porter, co_await PorterLoan::take(session));
  co_await porter->send(wire::PorterTask::remove, wire::RemovePath{.path = path, .recursive = recursive});
  auto outcome = co_await porter->outcome();
  if (!outcome) co_return std::unexpected(from_refusal(outcome.error()));
  co_await note_change(*session);
  co_await request.exchange.answer({.status = 204, .content_type = ""});
  co_return Handled{};
}

}  // namespace hutch
