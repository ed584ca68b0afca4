#include "cli/bring_out.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>

#include "api/http_text.h"
#include "base/utf8.h"

namespace hutch {
namespace {

namespace json = boost::json;

Result<UniqueFd> open_temporary() {
  const char* place = std::getenv("TMPDIR");
  UniqueFd file{::open(place != nullptr && *place != '\0' ? place : "/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600)};
  if (!file) return system_error(errno).during("make a temporary file");
  return file;
}

Result<void> write_whole(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return system_error(errno).during("write a temporary file");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return {};
}

Result<wire::FileEntry> bring_one(SteadyClient& client, const std::string& run, const std::string& path,
                                  OutputDirectory& directory) {
  HUTCH_TRY(const auto content, open_temporary());
  wire::FileEntry entry{.path = path};
  Result<void> stored;
  const auto reply =
      client.download("/v1/runs/" + run + "/files/" + percent_encode_path(path), 0, [&](std::string_view piece) {
        if (stored) stored = write_whole(content.get(), piece);
        entry.size += piece.size();
      });
  if (!reply) return reply.error();
  if (reply->status >= 400) {
    HUTCH_TRY(std::ignore, expect_object(reply));
  }
  HUTCH_TRY(std::move(stored));
  HUTCH_TRY(directory.put(entry, content.get()));
  return entry;
}

}  // namespace

bool bring_out(SteadyClient& client, const json::object& run, OutputDirectory& directory, const Report& report,
               Told told) {
  bool all = true;
  const auto* files = run.if_contains("files");
  const std::string id = text_at(run, "execution_id");
  for (const auto& value : files != nullptr && files->is_array() ? files->get_array() : json::array{}) {
    if (!value.is_object() || text_at(value.get_object(), "change") == "deleted") continue;
    const std::string path = text_at(value.get_object(), "path");
    if (const auto entry = bring_one(client, id, path, directory); !entry) {
      all = false;
      report.error("left behind: " + printable(path) + ": " + entry.error().message, entry.error().hint);
    } else if (told == Told::everything) {
      report.file_brought_out(directory.path() + "/" + path, entry->size);
    }
  }
  const auto* truncated = run.if_contains("truncated");
  const auto* cut =
      truncated != nullptr && truncated->is_object() ? truncated->get_object().if_contains("files") : nullptr;
  if (cut != nullptr && *cut == json::value(true)) {
    all = false;
    report.error("left behind: the program left more files than are listed",
                 "pack them into one archive in the program, and bring that out");
  }
  return all;
}

}  // namespace hutch
