// What sandboxes hold, as resources: files of the caller's sessions, and the output of runs.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base64.h"
#include "api/mcp/resource_uri.h"
#include "api/mcp/server.h"
#include "api/session_access.h"
#include "api/session_files.h"
#include "api/tools/run_result.h"
#include "base/utf8.h"
#include "session/mime_types.h"

namespace hutch::mcp {
namespace {

constexpr std::size_t kMostListed = 200;
constexpr std::size_t kMostSessions = 20;  // that are looked into, the last used first
constexpr std::size_t kLevels = 8;
constexpr std::size_t kMostText = 1U << 20;
constexpr std::size_t kMostRead = 8U << 20;

struct Found {
  std::string session;
  json::object file;
};

// Nobody wants to see what interpreters and libraries keep for themselves.
bool is_hidden(std::string_view path) {
  return path.starts_with('.') || path.find("/.") != std::string_view::npos ||
         path.find("__pycache__") != std::string_view::npos;
}

std::string member(const json::object& object, std::string_view name) { return find_text(object, name).value_or(""); }

RpcError not_found(const std::string& uri, const Call& call, std::string why = "There is no such resource.") {
  return {.code = call.modern() ? kInvalidParams : kResourceNotFound,
          .message = "Resource not found: " + std::move(why),
          .data = json::object{{"uri", clean_utf8(uri)}}};
}

json::object contents_of(const std::string& uri, std::string type, const std::string& bytes) {
  const bool text = bytes.size() <= kMostText && is_utf8(bytes);
  if (type.empty()) type = text ? "text/plain" : "application/octet-stream";
  json::object content{{"uri", uri}, {"mimeType", std::move(type)}};
  if (text) {
    content["text"] = bytes;
  } else {
    content["blob"] = base64_encode(bytes);
  }
  return {{"contents", json::array{std::move(content)}}};
}

net::awaitable<Reply> read_file(const FileAddress& address, const std::string& uri, Call& call) {
  if (!has_scope(call.caller, Scope::files)) co_return refuse(kInvalidParams, "This key may not read files.");
  const auto session = co_await open_session(call.daemon, call.caller, address.session);
  if (!session) co_return std::unexpected(not_found(uri, call, session.error().message));
  const auto content = read_whole(**session, address.path, kMostRead);
  if (content) co_return contents_of(uri, mime_type_of(address.path, -1), *content);
  if (content.error().code == "too_large") {
    co_return refuse(kInvalidParams,
                     "The file is larger than 8 MiB: read parts of it with code, or download it with "
                     "GET /v1/sessions/{session}/files/{path}.");
  }
  co_return std::unexpected(not_found(uri, call, content.error().message));
}

// What was cut off is on disk; otherwise all of it is in the record.
Rpc<std::string> read_log(const std::filesystem::path& path, std::string otherwise) {
  const UniqueFd file{::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  if (!file) return otherwise;
  struct stat status{};
  if (::fstat(file.get(), &status) != 0 || static_cast<std::uint64_t>(status.st_size) > kMostRead) {
    return refuse(kInvalidParams, "The output is larger than 8 MiB: download it with GET /v1/runs/{run}/log.");
  }
  std::string text(static_cast<std::size_t>(status.st_size), '\0');
  const auto count = ::pread(file.get(), text.data(), text.size(), 0);
  text.resize(count > 0 ? static_cast<std::size_t>(count) : 0);
  return text;
}

Reply read_output(const OutputAddress& address, const std::string& uri, Call& call) {
  const auto& key_id = call.caller.key.id;
  std::string kept;
  if (const auto run = call.daemon.hub.find_run(address.run, key_id)) {
    if (run->identity().session_id != address.session) return std::unexpected(not_found(uri, call));
    Streams streams = streams_of(*run);
    kept = address.stream == "stdout" ? std::move(streams.out) : std::move(streams.err);
  } else {
    const auto stored = call.daemon.stores.runs.get(address.run, key_id);
    if (!stored || !*stored || (*stored)->session_id != address.session) {
      return std::unexpected(not_found(uri, call));
    }
    boost::system::error_code failed;
    const auto record = json::parse((*stored)->record, failed);
    if (failed || !record.is_object()) return std::unexpected(not_found(uri, call));
    kept = base64_decode(member(record.get_object(), address.stream + "_base64")).value_or("");
    if (kept.empty()) kept = member(record.get_object(), address.stream);
  }
  auto text = read_log(call.daemon.settings.caps.directory / (address.run + "." + address.stream), std::move(kept));
  if (!text) return std::unexpected(text.error());
  return contents_of(uri, "text/plain", *text);
}

}  // namespace

net::awaitable<json::array> list_resources(Call& call) {
  json::array resources;
  if (!has_scope(call.caller, Scope::files)) co_return resources;
  auto sessions = call.daemon.hub.sessions_of(call.caller.key.id);
  std::ranges::sort(sessions, std::greater{}, [](const auto& session) { return session->last_used_ns; });
  if (sessions.size() > kMostSessions) sessions.resize(kMostSessions);
  std::vector<Found> found;
  for (const auto& session : sessions) {
    if (!session->has_sandbox()) continue;
    const UniqueFd workspace = session->share_workspace();
    Listing listing = co_await call.daemon.engine.workers().run(
        Workers::owner_of(call.caller.key.id), [&workspace] { return list_directory(workspace.get(), "", kLevels); });
    for (auto& entry : listing.entries) {
      if (!entry.is_object() || member(entry.get_object(), "type") != "file") continue;
      if (is_hidden(member(entry.get_object(), "path"))) continue;
      found.push_back({.session = session->settings().id, .file = std::move(entry.get_object())});
    }
  }
  std::ranges::sort(found, std::greater{}, [](const Found& one) { return member(one.file, "modified_at"); });
  if (found.size() > kMostListed) found.resize(kMostListed);
  for (const auto& [session, file] : found) {
    const std::string path = member(file, "path");
    const std::string type = member(file, "mime_type");
    json::object resource{
        {"uri", file_uri(session, path)}, {"name", path}, {"description", "A file of session " + session}};
    if (!type.empty()) resource["mimeType"] = type;
    if (const auto* size = file.if_contains("size")) resource["size"] = *size;
    resource["annotations"] = json::object{{"lastModified", member(file, "modified_at")}};
    resources.push_back(std::move(resource));
  }
  co_return resources;
}

json::array resource_templates() {
  return {json::object{{"uriTemplate", kFileTemplate},
                       {"name", "session_file"},
                       {"title", "File of a session"},
                       {"description", "A file that code has written, or that was uploaded, relative to /workspace"}},
          json::object{{"uriTemplate", kOutputTemplate},
                       {"name", "execution_output"},
                       {"title", "Output of a run"},
                       {"description", "All that a run has written to stdout or stderr, also what its result left out"},
                       {"mimeType", "text/plain"}}};
}

net::awaitable<Reply> read_resource(std::string uri, Call& call) {
  if (uri.size() > kLongestUri) co_return refuse(kInvalidParams, "Invalid params: uri is too long");
  const auto address = parse_address(uri);
  if (!address) co_return std::unexpected(not_found(uri, call));
  if (const auto* file = std::get_if<FileAddress>(&*address)) co_return co_await read_file(*file, uri, call);
  co_return read_output(std::get<OutputAddress>(*address), uri, call);
}

}  // namespace hutch::mcp
