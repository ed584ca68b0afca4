// The words of the Model Context Protocol that more than one file needs: revisions, error codes, names in _meta.
#pragma once

#include <array>
#include <boost/json.hpp>
#include <expected>
#include <optional>
#include <string>
#include <string_view>

namespace hutch::mcp {

namespace json = boost::json;

// Until 2025-11-25 a client shakes hands and has a session; since 2026-07-28 every request stands for itself.
enum class Era : std::uint8_t { legacy, modern };

inline constexpr std::string_view kModernVersion = "2026-07-28";
inline constexpr std::array<std::string_view, 3> kLegacyVersions{"2025-11-25", "2025-06-18", "2025-03-26"};
inline constexpr std::string_view kOldestLegacy = "2024-11-05";  // known, and no longer spoken

inline constexpr std::string_view kMetaVersion = "io.modelcontextprotocol/protocolVersion";
inline constexpr std::string_view kMetaCapabilities = "io.modelcontextprotocol/clientCapabilities";
inline constexpr std::string_view kMetaLogLevel = "io.modelcontextprotocol/logLevel";
inline constexpr std::string_view kMetaServerInfo = "io.modelcontextprotocol/serverInfo";
inline constexpr std::string_view kMetaSubscription = "io.modelcontextprotocol/subscriptionId";

inline constexpr int kParseError = -32700;
inline constexpr int kInvalidRequest = -32600;
inline constexpr int kMethodNotFound = -32601;
inline constexpr int kInvalidParams = -32602;
inline constexpr int kInternalError = -32603;
inline constexpr int kBusy = -32000;
inline constexpr int kResourceNotFound = -32002;  // legacy; kInvalidParams in the modern era
inline constexpr int kHeaderMismatch = -32020;
inline constexpr int kMissingCapability = -32021;
inline constexpr int kUnsupportedVersion = -32022;

struct RpcError {
  int code = kInvalidRequest;
  std::string message;
  std::optional<json::value> data;
  unsigned http_status = 200;  // of the answer over HTTP; legacy requests that were understood always get 200
};

template <class T>
using Rpc = std::expected<T, RpcError>;
using Reply = Rpc<json::object>;

inline std::unexpected<RpcError> refuse(int code, std::string message, unsigned http_status = 200) {
  return std::unexpected(RpcError{.code = code, .message = std::move(message), .http_status = http_status});
}

// In the order of their weight.
inline constexpr std::array<std::string_view, 8> kLogLevels{"debug", "info",     "notice", "warning",
                                                            "error", "critical", "alert",  "emergency"};
std::optional<std::size_t> log_level(std::string_view name);

}  // namespace hutch::mcp
