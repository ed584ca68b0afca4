// Everything that is done to a message before anybody acts on it.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "api/mcp/era.h"
#include "api/mcp/resource_uri.h"
#include "api/mcp/server.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace hutch::mcp;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  std::ignore = parse_address(text);
  std::ignore = decode_header(text);
  const Message message = decode_message(text);
  if (const auto* problem = std::get_if<RpcProblem>(&message)) {
    std::ignore = error_text(problem->id, problem->error);
    return 0;
  }
  const auto* request = std::get_if<RpcRequest>(&message);
  if (request == nullptr) return 0;
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
  return 0;
}
