// Everything that is done to a message before anybody acts on it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/fuzzed_json.h"
#include "api/mcp/era.h"
#include "api/mcp/resource_uri.h"
#include "api/mcp/server.h"

namespace {

using namespace hutch::mcp;

constexpr std::string_view kWords[] = {"jsonrpc",
                                       "2.0",
                                       "id",
                                       "method",
                                       "params",
                                       "result",
                                       "error",
                                       "code",
                                       "message",
                                       "_meta",
                                       "progressToken",
                                       "name",
                                       "uri",
                                       "cursor",
                                       "arguments",
                                       "protocolVersion",
                                       "2025-11-25",
                                       "2026-07-28",
                                       "capabilities",
                                       "clientInfo",
                                       "initialize",
                                       "tools/call",
                                       "tools/list",
                                       "prompts/get",
                                       "resources/read",
                                       "subscriptions/listen",
                                       "notifications/cancelled",
                                       "sandbox://ses_1/files/a",
                                       "io.modelcontextprotocol/protocolVersion",
                                       "io.modelcontextprotocol/clientCapabilities",
                                       "io.modelcontextprotocol/logLevel",
                                       "analyze_data",
                                       "path"};

void act_on(std::string_view text) {
  const Message message = decode_message(text);
  if (const auto* problem = std::get_if<RpcProblem>(&message)) {
    std::ignore = error_text(problem->id, problem->error);
    return;
  }
  const auto* request = std::get_if<RpcRequest>(&message);
  if (request == nullptr) return;
  std::ignore = era_of_stdio(*request);
  std::ignore = era_of_http(*request, std::string(text.substr(0, 10)));
  std::ignore = check_mirrored(
      *request,
      {.version = std::string(kModernVersion), .method = request->method, .name = find_text(request->params, "name")});
  std::ignore = read_modern_meta(request->params);
  std::ignore = read_legacy_meta(request->params);
  std::ignore = page_of({1, 2, 3}, "items", request->params);
  if (const auto wishes = read_wishes(request->params)) std::ignore = write_wishes(*wishes);
  if (const auto uri = find_text(request->params, "uri")) std::ignore = parse_address(*uri);
  std::ignore = reply_text(request->id, get_prompt(request->params));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::ignore = parse_address(text);
  std::ignore = decode_header(text);
  act_on(text);
  FuzzedDataProvider bytes(data, size);
  auto object = hutch::FuzzedJson(bytes, kWords).object();
  object["jsonrpc"] = "2.0";
  act_on(boost::json::serialize(object));
  return 0;
}
