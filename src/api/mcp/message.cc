#include "api/mcp/message.h"

#include <algorithm>

#include "api/json_text.h"
#include "base/utf8.h"

namespace hutch::mcp {
namespace {

constexpr std::size_t kLongestMethod = 200;
constexpr std::size_t kLongestId = 1'000;

bool is_id(const json::value& value) {
  if (value.is_string()) return value.get_string().size() <= kLongestId;
  return value.is_int64() || value.is_uint64();
}

RpcProblem invalid(std::string why, json::value id = nullptr) {
  return {.error = {.code = kInvalidRequest, .message = std::move(why), .http_status = 400}, .id = std::move(id)};
}

Message decode_object(json::object& object) {
  json::value id = nullptr;
  const auto* given = object.if_contains("id");
  if (given != nullptr && is_id(*given)) id = *given;
  const auto* version = object.if_contains("jsonrpc");
  if (version == nullptr || !version->is_string() || version->get_string() != "2.0") {
    return invalid("Invalid request: jsonrpc must be \"2.0\"", std::move(id));
  }
  if (given != nullptr && id.is_null()) return invalid("Invalid request: id must be a string or a whole number");
  const auto* method = object.if_contains("method");
  if (method == nullptr) {
    if (given != nullptr && (object.contains("result") || object.contains("error"))) return RpcResponse{std::move(id)};
    return invalid("Invalid request: there is no method", std::move(id));
  }
  if (!method->is_string() || method->get_string().empty() || method->get_string().size() > kLongestMethod) {
    return invalid("Invalid request: method must be a string of at most 200 bytes", std::move(id));
  }
  std::string name{std::string_view(method->get_string())};
  json::object params;
  if (auto* with = object.if_contains("params"); with != nullptr) {
    if (!with->is_object()) return invalid("Invalid request: params must be an object", std::move(id));
    params = std::move(with->get_object());
  }
  if (given == nullptr) return RpcNotification{.method = std::move(name), .params = std::move(params)};
  return RpcRequest{.id = std::move(id), .method = std::move(name), .params = std::move(params)};
}

}  // namespace

std::optional<std::size_t> log_level(std::string_view name) {
  const auto found = std::ranges::find(kLogLevels, name);
  if (found == kLogLevels.end()) return std::nullopt;
  return static_cast<std::size_t>(found - kLogLevels.begin());
}

Message decode_message(std::string_view text) {
  boost::system::error_code failed;
  json::parse_options options;
  options.max_depth = kDeepestMessage;
  auto value = json::parse(text, failed, {}, options);
  if (failed) {
    return RpcProblem{
        .error = {.code = kParseError, .message = "Parse error: " + failed.message(), .http_status = 400}};
  }
  if (value.is_array()) return invalid("Invalid request: batches are not supported");
  if (!value.is_object()) return invalid("Invalid request: a message is an object");
  return decode_object(value.get_object());
}

std::string result_text(const json::value& id, const json::object& result) {
  return R"({"jsonrpc":"2.0","id":)" + json_text(id) + R"(,"result":)" + json_text(result) + "}";
}

std::string error_text(const json::value& id, const RpcError& error) {
  json::object body{{"code", error.code}, {"message", clean_utf8(error.message)}};
  if (error.data) body["data"] = *error.data;
  const std::string with_id = id.is_null() ? "" : R"("id":)" + json_text(id) + ",";
  return R"({"jsonrpc":"2.0",)" + with_id + R"("error":)" + json_text(body) + "}";
}

std::string reply_text(const json::value& id, const Reply& reply) {
  return reply ? result_text(id, *reply) : error_text(id, reply.error());
}

json::object notification(std::string_view method, json::object params) {
  return {{"jsonrpc", "2.0"}, {"method", method}, {"params", std::move(params)}};
}

const json::object* find_object(const json::object& object, std::string_view name) {
  const auto* found = object.if_contains(name);
  return found != nullptr ? found->if_object() : nullptr;
}

std::optional<std::string> find_text(const json::object& object, std::string_view name) {
  const auto* found = object.if_contains(name);
  if (found == nullptr || !found->is_string()) return std::nullopt;
  return std::string(std::string_view(found->get_string()));
}

}  // namespace hutch::mcp
