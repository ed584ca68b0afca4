#include "api/session_files.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <deque>

#include "api/record_json.h"
#include "base/log.h"
#include "base/utf8.h"
#include "session/mime_types.h"
#include "session/workspace.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostListed = 10'000;

std::string_view type_of(mode_t mode) {
  if (S_ISREG(mode)) return "file";
  if (S_ISDIR(mode)) return "directory";
  return S_ISLNK(mode) ? "symlink" : "other";
}

json::object info_of(const std::string& path, const struct stat& status, const std::string& mime) {
  const std::int64_t modified = std::int64_t{status.st_mtim.tv_sec} * 1'000'000'000 + status.st_mtim.tv_nsec;
  char mode[8];
  std::snprintf(mode, sizeof(mode), "%04o", static_cast<unsigned>(status.st_mode & 0777));
  return {{"path", clean_utf8(path)},
          {"name", clean_utf8(path.substr(path.rfind('/') + 1))},
          {"type", type_of(status.st_mode)},
          {"size", static_cast<std::uint64_t>(status.st_size)},
          {"mime_type", mime.empty() ? json::value(nullptr) : json::value(mime)},
          {"modified_at", timestamp(modified)},
          {"mode", mode}};
}

}  // namespace

Handled check_path(const std::string& path, bool may_be_empty) {
  if (path.empty() && may_be_empty) return {};
  const auto checked = check_workspace_path(path);
  if (checked) return {};
  return std::unexpected(
      ApiError{.status = 400, .category = "file_error", .code = "invalid_path", .message = checked.error().message});
}

ApiError not_there(int number) {
  if (number == ELOOP || number == EXDEV) {
    return file_error(409, "not_a_file", "There is a link on the way, and links are not followed.");
  }
  if (number == ENOTDIR) return file_error(404, "file_not_found", "A part of the path is not a directory.");
  if (number == EACCES) return file_error(403, "permission_denied", "The program has made it unreadable.");
  return file_error(404, "file_not_found", "There is no such file or directory.");
}

ApiError from_refusal(const Porter::Refusal& refusal) {
  const auto& code = refusal.code;
  const unsigned status = code == "file_not_found"                          ? 404
                          : code == "invalid_path" || code == "bad_archive" ? 400
                          : code == "permission_denied"                     ? 403
                          : code == "disk_full" || code == "too_many_files" ? 507
                          : code == "io_error"                              ? 503
                                                                            : 409;
  if (status == 507) {
    return {.status = 507,
            .category = "resource_limit",
            .code = "disk_full",
            .message = "The session's space is full.",
            .hint = "Delete files, or make a session with more (limits.scratch)."};
  }
  if (status == 503) {
    return {.status = 503,
            .category = "capacity",
            .code = "sandbox_unavailable",
            .message = "The sandbox did not do it: it is out of memory, or its program stopped everything.",
            .hint = "Interrupt or restart the session, then try again.",
            .retry_after = std::chrono::seconds(1)};
  }
  return file_error(status, code, refusal.message);
}

net::awaitable<void> note_change(Session& session) {
  session.note_files_changed();
  // The change itself is made; that it is not on disk is told by `files_saved` of the session.
  if (const auto saved = co_await session.save(); !saved) {
    log::warning("files not saved", {{"session", session.settings().id}, {"reason", saved.error().message}});
  }
}

Api<json::object> describe_file(Session& session, const std::string& path) {
  const UniqueFd file = open_beneath(session.workspace(), path, O_PATH);
  struct stat status{};
  if (!file || ::fstat(file.get(), &status) != 0) return std::unexpected(not_there(errno));
  std::string mime;
  if (S_ISREG(status.st_mode)) {
    if (const UniqueFd content = open_beneath(session.workspace(), path, O_RDONLY)) {
      mime = mime_type_of(path, content.get());
    }
  }
  return info_of(path, status, mime);
}

Listing list_directory(int workspace, const std::string& top, std::size_t deepest) {
  Listing listing;
  std::deque<std::pair<std::string, std::size_t>> pending{{top, 0}};
  while (!pending.empty()) {
    const auto [path, depth] = std::move(pending.front());
    pending.pop_front();
    UniqueFd opened = open_beneath(workspace, path, O_RDONLY | O_DIRECTORY);
    const int directory_fd = opened.get();
    DIR* directory = opened ? ::fdopendir(opened.get()) : nullptr;
    if (directory == nullptr) continue;
    (void)opened.release();  // closedir closes it
    while (const dirent* entry = ::readdir(directory)) {
      const std::string name = entry->d_name;
      if (name == "." || name == "..") continue;
      struct stat status{};
      if (::fstatat(directory_fd, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0) continue;
      if (listing.entries.size() >= kMostListed) {
        listing.truncated = true;
        break;
      }
      const std::string full = path.empty() ? name : path + "/" + name;
      listing.entries.push_back(info_of(full, status, S_ISREG(status.st_mode) ? mime_type_of(full, -1) : ""));
      if (S_ISDIR(status.st_mode) && depth + 1 < deepest) pending.emplace_back(full, depth + 1);
    }
    ::closedir(directory);
  }
  std::ranges::sort(listing.entries, {},
                    [](const json::value& entry) { return std::string(entry.get_object().at("path").as_string()); });
  return listing;
}

Api<std::string> read_part(Session& session, const std::string& path, std::uint64_t offset, std::size_t most) {
  const UniqueFd found = open_beneath(session.workspace(), path, O_PATH);
  struct stat status{};
  if (!found || ::fstat(found.get(), &status) != 0) return std::unexpected(not_there(errno));
  if (S_ISDIR(status.st_mode)) return std::unexpected(file_error(409, "is_directory", "That is a directory."));
  if (!S_ISREG(status.st_mode)) return std::unexpected(file_error(409, "not_a_file", "That is not a regular file."));
  const UniqueFd file = open_beneath(session.workspace(), path, O_RDONLY);
  if (!file) return std::unexpected(not_there(errno));
  std::string content;
  char piece[64U << 10];
  while (content.size() < most) {
    const std::size_t wanted = std::min(sizeof(piece), most - content.size());
    const ssize_t count = ::pread(file.get(), piece, wanted, static_cast<off_t>(offset + content.size()));
    if (count < 0) return std::unexpected(file_error(409, "io_error", "The file cannot be read."));
    if (count == 0) break;
    content.append(piece, static_cast<std::size_t>(count));
  }
  return content;
}

Api<std::string> read_whole(Session& session, const std::string& path, std::size_t most) {
  auto content = read_part(session, path, 0, most + 1);
  if (content && content->size() > most) {
    return std::unexpected(file_error(413, "too_large", "The file is larger than " + std::to_string(most) + " bytes."));
  }
  return content;
}

net::awaitable<Handled> write_whole(std::shared_ptr<Session> session, std::string path, std::string content) {
  HUTCH_API_TRY(auto porter, co_await PorterLoan::take(session));
  co_await porter->send(wire::PorterTask::write, wire::WriteFile{.path = path, .executable = false});
  bool taken = true;
  for (std::size_t at = 0; taken && at < content.size(); at += wire::kFileChunk) {
    taken = co_await porter->send_data(std::string_view(content).substr(at, wire::kFileChunk));
  }
  co_await porter->send(taken ? wire::PorterTask::end : wire::PorterTask::abort, wire::PorterNothing{});
  auto outcome = co_await porter->outcome();
  if (!outcome) co_return std::unexpected(from_refusal(outcome.error()));
  if (!taken) co_return std::unexpected(from_refusal({.code = "io_error", .message = {}}));
  co_await note_change(*session);
  co_return Handled{};
}

}  // namespace hutch
