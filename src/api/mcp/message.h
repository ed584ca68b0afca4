// JSON-RPC 2.0 as the protocol uses it: one object per message, ids that are strings or whole numbers, parameters by
// name, no batches. What is not that is told so, with the id if there is one.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "api/mcp/protocol.h"

namespace hutch::mcp {

struct RpcRequest {
  json::value id;
  std::string method;
  json::object params;
};

struct RpcNotification {
  std::string method;
  json::object params;
};

// To something that we asked; we never ask.
struct RpcResponse {
  json::value id;
};

struct RpcProblem {
  RpcError error;
  json::value id;  // null: none could be read
};

using Message = std::variant<RpcRequest, RpcNotification, RpcResponse, RpcProblem>;

inline constexpr std::size_t kDeepestMessage = 32;

Message decode_message(std::string_view text);

std::string result_text(const json::value& id, const json::object& result);
std::string error_text(const json::value& id, const RpcError& error);
std::string reply_text(const json::value& id, const Reply& reply);
json::object notification(std::string_view method, json::object params);

// A member of this kind; nothing when it is missing or of another.
const json::object* find_object(const json::object& object, std::string_view name);
std::optional<std::string> find_text(const json::object& object, std::string_view name);

}  // namespace hutch::mcp
