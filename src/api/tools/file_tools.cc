// Files of a session, listed, read and written.
#include <algorithm>

#include "api/base64.h"
#include "api/session_access.h"
#include "api/session_files.h"
#include "api/tools/handlers.h"
#include "api/tools/pictures.h"
#include "api/tools/place.h"
#include "base/utf8.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::size_t kMostTold = 1'000;

std::string shown_path(const std::string& relative) {
  return relative.empty() ? "/workspace" : "/workspace/" + clean_utf8(relative);
}

}  // namespace

net::awaitable<Api<ToolResult>> list_files_tool(ToolCall& call) {
  HUTCH_API_TRY(const auto path, workspace_path(text_argument(call, "path"), true));
  HUTCH_API_TRY(const auto session, co_await existing_session(call));
  const UniqueFd workspace = session->share_workspace();
  const std::size_t depth = flag_argument(call, "recursive") ? kDeepestListing : 1;
  HUTCH_API_TRY(const auto about,
                path.empty() ? Api<json::object>(json::object{{"type", "directory"}}) : describe_file(*session, path));
  if (about.at("type").as_string() != "directory") {
    co_return std::unexpected(file_error(409, "not_a_directory", "That is not a directory."));
  }
  Listing listing = co_await call.daemon.engine.workers().run(
      Workers::owner_of(call.caller.key.id),
      [&workspace, &path, depth] { return list_directory(workspace.get(), path, depth); });
  const bool cut = listing.truncated || listing.entries.size() > kMostTold;
  if (listing.entries.size() > kMostTold) listing.entries.resize(kMostTold);
  ToolResult result;
  for (auto& value : listing.entries) {
    auto& entry = value.as_object();
    const std::string relative(entry.at("path").as_string());
    entry["path"] = shown_path(relative);
    result.text += std::string(entry.at("path").as_string());
    result.text += entry.at("type").as_string() == "directory"
                       ? "/\n"
                       : " (" + std::to_string(entry.at("size").to_number<std::uint64_t>()) + " bytes)\n";
  }
  if (result.text.empty()) result.text = shown_path(path) + " is empty.";
  if (cut) result.text += "[there are more]\n";
  result.structured = {{"status", "ok"},
                       {"session_id", session->settings().id},
                       {"path", shown_path(path)},
                       {"entries", std::move(listing.entries)},
                       {"truncated", cut}};
  co_return result;
}

net::awaitable<Api<ToolResult>> read_file_tool(ToolCall& call) {
  HUTCH_API_TRY(const auto path, workspace_path(text_argument(call, "path")));
  HUTCH_API_TRY(const auto session, co_await existing_session(call));
  HUTCH_API_TRY(const auto about, describe_file(*session, path));
  const auto size = about.at("size").to_number<std::uint64_t>();
  const auto* type = about.at("mime_type").if_string();
  const std::string mime = type != nullptr ? std::string(*type) : "application/octet-stream";
  const auto offset = static_cast<std::uint64_t>(number_argument(call, "offset"));
  ToolResult result;
  result.structured = {{"status", "ok"},           {"session_id", session->settings().id},
                       {"path", shown_path(path)}, {"size", size},
                       {"mime_type", mime},        {"text", nullptr},
                       {"base64", nullptr},        {"truncated", false},
                       {"next_offset", nullptr}};
  if (is_picture(mime) && offset == 0) {
    HUTCH_API_TRY(auto bytes, read_part(*session, path, 0, kLargestPicture + 1));
    const auto unfit = unfit_picture(mime, bytes);
    result.text = shown_path(path) + ": a picture of " + std::to_string(size) + " bytes" +
                  (unfit ? "\n[it is not shown: " + *unfit + "]" : "");
    if (!unfit) result.pictures.push_back({.mime = mime, .bytes = std::move(bytes)});
    co_return result;
  }
  const auto limit = static_cast<std::size_t>(number_argument(call, "limit", 40'000));
  HUTCH_API_TRY(auto piece, read_part(*session, path, offset, limit));
  if (const std::size_t complete = complete_utf8_prefix(piece); complete > 0) piece.resize(complete);
  const bool is_text = is_utf8(piece) && piece.find('\0') == std::string::npos;
  const std::uint64_t next = offset + piece.size();
  result.structured[is_text ? "text" : "base64"] = is_text ? piece : base64_encode(piece);
  result.text = is_text ? piece : base64_encode(piece);
  if (next < size && !piece.empty()) {
    result.structured["truncated"] = true;
    result.structured["next_offset"] = next;
    result.text +=
        "\n[" + std::to_string(size - next) + " bytes follow: read_file with offset " + std::to_string(next) + "]";
  }
  co_return result;
}

net::awaitable<Api<ToolResult>> write_file_tool(ToolCall& call) {
  HUTCH_API_TRY(const auto path, workspace_path(text_argument(call, "path")));
  if (has_argument(call, "content") == has_argument(call, "content_base64")) {
    co_return std::unexpected(bad_request("Invalid arguments: exactly one of content and content_base64 is needed."));
  }
  std::string content = text_argument(call, "content");
  if (has_argument(call, "content_base64")) {
    auto decoded = base64_decode(text_argument(call, "content_base64"));
    if (!decoded) co_return std::unexpected(bad_request("Invalid arguments: content_base64 is not base64."));
    content = std::move(*decoded);
  }
  const std::size_t size = content.size();
  HUTCH_API_TRY(const auto session, co_await session_for_files(call));
  HUTCH_API_CHECK(co_await write_whole(session, path, std::move(content)));
  ToolResult result{.text = "Wrote " + std::to_string(size) + " bytes to " + shown_path(path) + " [session_id \"" +
                            session->settings().id + "\"]"};
  result.structured = {
      {"status", "ok"}, {"session_id", session->settings().id}, {"path", shown_path(path)}, {"size", size}};
  co_return result;
}

}  // namespace hutch
