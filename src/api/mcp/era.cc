#include "api/mcp/era.h"

#include <algorithm>
#include <array>

#include "api/base64.h"
#include "base/utf8.h"

namespace hutch::mcp {
namespace {

constexpr std::string_view kEncoded = "=?base64?";
constexpr std::size_t kLongestToken = 1'000;
constexpr std::size_t kMostCapabilities = 64;
constexpr std::size_t kLongestCapability = 100;

// Methods whose target is mirrored into Mcp-Name, and where it is in the message.
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kNamed{{{"tools/call", "name"},
                                                                               {"prompts/get", "name"},
                                                                               {"resources/read", "uri"},
                                                                               {"tasks/get", "taskId"},
                                                                               {"tasks/update", "taskId"},
                                                                               {"tasks/cancel", "taskId"}}};

std::string_view trimmed(std::string_view text) {
  const auto begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

std::unexpected<RpcError> mismatch(std::string_view header, std::string_view what) {
  return refuse(kHeaderMismatch, "Header mismatch: " + std::string(header) + " " + std::string(what), 400);
}

std::optional<json::value> token_of(const json::object& meta) {
  const auto* token = meta.if_contains("progressToken");
  if (token == nullptr) return std::nullopt;
  if (token->is_string() ? token->get_string().size() <= kLongestToken : token->is_int64() || token->is_uint64()) {
    return *token;
  }
  return std::nullopt;
}

}  // namespace

bool speaks_legacy(std::string_view version) {
  return std::ranges::find(kLegacyVersions, version) != kLegacyVersions.end();
}

json::array supported_versions() {
  json::array versions{kModernVersion};
  for (const auto version : kLegacyVersions) versions.emplace_back(version);
  return versions;
}

Capabilities names_of(const json::object& capabilities) {
  Capabilities names;
  for (const auto& field : capabilities) {
    if (names.size() == kMostCapabilities) break;
    if (field.key().size() <= kLongestCapability) names.emplace(field.key());
  }
  return names;
}

Era era_of_header(const std::optional<std::string>& version) {
  if (!version) return Era::legacy;
  const auto text = trimmed(*version);
  return speaks_legacy(text) || text == kOldestLegacy ? Era::legacy : Era::modern;
}

Era era_of_http(const RpcRequest& request, const std::optional<std::string>& version) {
  const auto* meta = find_object(request.params, "_meta");
  if (meta != nullptr && meta->contains(kMetaVersion)) return Era::modern;
  return era_of_header(version);
}

Era era_of_stdio(const RpcRequest& request) {
  return request.method == "server/discover" ? Era::modern : era_of_http(request, std::nullopt);
}

std::optional<std::string> decode_header(std::string_view value) {
  value = trimmed(value);
  if (!value.starts_with(kEncoded) || !value.ends_with("?=") || value.size() < kEncoded.size() + 2) {
    return std::string(value);
  }
  auto decoded = base64_decode(value.substr(kEncoded.size(), value.size() - kEncoded.size() - 2));
  if (!decoded || !is_utf8(*decoded)) return std::nullopt;
  return decoded;
}

Rpc<void> check_mirrored(const RpcRequest& request, const MirroredHeaders& headers) {
  const auto* meta = find_object(request.params, "_meta");
  const auto* version = meta != nullptr ? meta->if_contains(kMetaVersion) : nullptr;
  if (!headers.version) return mismatch("MCP-Protocol-Version", "is missing");
  if (version != nullptr && version->is_string() &&
      std::string_view(version->get_string()) != trimmed(*headers.version)) {
    return mismatch("MCP-Protocol-Version", "is not the version in the message");
  }
  if (!headers.method) return mismatch("Mcp-Method", "is missing");
  if (trimmed(*headers.method) != request.method) return mismatch("Mcp-Method", "is not the method of the message");
  const auto* named = std::ranges::find(kNamed, request.method, [](const auto& pair) { return pair.first; });
  if (named == kNamed.end()) return {};
  if (!headers.name) return mismatch("Mcp-Name", "is missing");
  const auto name = decode_header(*headers.name);
  if (!name) return mismatch("Mcp-Name", "is not valid base64");
  if (find_text(request.params, named->second) != *name) {
    return mismatch("Mcp-Name", "is not params." + std::string(named->second));
  }
  return {};
}

Rpc<RequestMeta> read_modern_meta(const json::object& params) {
  const auto* meta = find_object(params, "_meta");
  if (meta == nullptr) return refuse(kInvalidParams, "Invalid params: _meta is missing", 400);
  const auto version = find_text(*meta, kMetaVersion);
  if (!version) return refuse(kInvalidParams, "Invalid params: _meta lacks " + std::string(kMetaVersion), 400);
  const auto* capabilities = find_object(*meta, kMetaCapabilities);
  if (capabilities == nullptr) {
    return refuse(kInvalidParams, "Invalid params: _meta lacks " + std::string(kMetaCapabilities), 400);
  }
  if (*version != kModernVersion) {
    return std::unexpected(RpcError{.code = kUnsupportedVersion,
                                    .message = "Unsupported protocol version",
                                    .data = json::object{{"supported", supported_versions()}, {"requested", *version}},
                                    .http_status = 400});
  }
  RequestMeta result{.capabilities = names_of(*capabilities), .progress_token = token_of(*meta)};
  if (const auto* level = meta->if_contains(kMetaLogLevel)) {
    result.log_level = level->is_string() ? log_level(std::string_view(level->get_string())) : std::nullopt;
    if (!result.log_level) return refuse(kInvalidParams, "Invalid params: there is no such log level", 400);
  }
  return result;
}

RequestMeta read_legacy_meta(const json::object& params) {
  const auto* meta = find_object(params, "_meta");
  return {.progress_token = meta != nullptr ? token_of(*meta) : std::nullopt};
}

}  // namespace hutch::mcp
