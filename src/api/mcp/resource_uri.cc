#include "api/mcp/resource_uri.h"

#include "api/http_text.h"
#include "session/workspace.h"

namespace hutch::mcp {
namespace {

constexpr std::string_view kScheme = "sandbox://";

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= 100 &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") ==
             std::string_view::npos;
}

std::string_view take_part(std::string_view& rest) {
  const auto slash = std::min(rest.find('/'), rest.size());
  const auto part = rest.substr(0, slash);
  rest.remove_prefix(std::min(slash + 1, rest.size()));
  return part;
}

}  // namespace

std::optional<ResourceAddress> parse_address(std::string_view uri) {
  if (!uri.starts_with(kScheme)) return std::nullopt;
  uri.remove_prefix(kScheme.size());
  const std::string session{take_part(uri)};
  if (!is_name(session)) return std::nullopt;
  const auto kind = take_part(uri);
  if (kind == "files") {
    auto path = percent_decode(uri);
    if (!path || !check_workspace_path(*path)) return std::nullopt;
    return FileAddress{.session = session, .path = std::move(*path)};
  }
  if (kind != "executions") return std::nullopt;
  const std::string run{take_part(uri)};
  if (!is_name(run) || (uri != "stdout" && uri != "stderr")) return std::nullopt;
  return OutputAddress{.session = session, .run = run, .stream = std::string(uri)};
}

}  // namespace hutch::mcp
