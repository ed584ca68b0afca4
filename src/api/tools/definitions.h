// The tools as each kind of client wants to be told of them.
#pragma once

#include <boost/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "api/tools/registry.h"

namespace hutch {

enum class ToolFormat : std::uint8_t { anthropic, openai, openai_responses, mcp, gemini };

std::optional<ToolFormat> parse_tool_format(std::string_view name);
inline constexpr std::string_view kToolFormats = "anthropic, openai, openai-responses, mcp or gemini";

boost::json::object definition_of(const Tool& tool, ToolFormat format);
// Those of this name, in this order; everyday ones when no name is given, all for "all".
Api<std::vector<const Tool*>> choose_tools(const ToolRegistry& registry, const std::vector<std::string>& names);
boost::json::array definitions_of(std::span<const Tool* const> tools, ToolFormat format);

}  // namespace hutch
