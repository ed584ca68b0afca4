// Which of the two eras a request belongs to, and whether a modern one says everything that it must. Pure: headers and
// a message in, an answer out.
#pragma once

#include <optional>
#include <set>
#include <string>

#include "api/mcp/message.h"

namespace hutch::mcp {

// Those that a modern client mirrors from the message, as they came.
struct MirroredHeaders {
  std::optional<std::string> version;  // MCP-Protocol-Version
  std::optional<std::string> method;   // Mcp-Method
  std::optional<std::string> name;     // Mcp-Name
};

// What a client can take, by name; of what it says about each nothing is of use to us. It is kept for as long as the
// client is, and so it is bounded: names that nobody knows are what is left out.
using Capabilities = std::set<std::string, std::less<>>;
Capabilities names_of(const json::object& capabilities);

// What a request says about its sender, of either era.
struct RequestMeta {
  Capabilities capabilities;             // modern; a legacy client has told us when it shook hands
  std::optional<std::size_t> log_level;  // modern
  std::optional<json::value> progress_token;
};

Era era_of_header(const std::optional<std::string>& version);
Era era_of_http(const RpcRequest& request, const std::optional<std::string>& version);
Era era_of_stdio(const RpcRequest& request);

// The first that is wrong is told: header and message that differ, then the message itself, then its version.
Rpc<void> check_mirrored(const RpcRequest& request, const MirroredHeaders& headers);
Rpc<RequestMeta> read_modern_meta(const json::object& params);
RequestMeta read_legacy_meta(const json::object& params);

// The value of a mirrored header: =?base64?...?= is decoded. Nothing when that is broken.
std::optional<std::string> decode_header(std::string_view value);

json::array supported_versions();
bool speaks_legacy(std::string_view version);

}  // namespace hutch::mcp
