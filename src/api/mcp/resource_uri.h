// sandbox://{session}/files/{path} and sandbox://{session}/executions/{run}/{stdout|stderr}: the addresses of what is
// in a sandbox. Pure.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <variant>

namespace hutch::mcp {

struct FileAddress {
  std::string session, path;
};
struct OutputAddress {
  std::string session, run, stream;  // stdout or stderr
};
using ResourceAddress = std::variant<FileAddress, OutputAddress>;

std::optional<ResourceAddress> parse_address(std::string_view uri);

inline constexpr std::string_view kFileTemplate = "sandbox://{session_id}/files/{+path}";
inline constexpr std::string_view kOutputTemplate = "sandbox://{session_id}/executions/{execution_id}/{stream}";

}  // namespace hutch::mcp
