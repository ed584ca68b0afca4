#include "api/tools/definitions.h"

#include <algorithm>

#include "base/utf8.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr std::pair<std::string_view, ToolFormat> kFormats[] = {{"anthropic", ToolFormat::anthropic},
                                                                {"openai", ToolFormat::openai},
                                                                {"openai-responses", ToolFormat::openai_responses},
                                                                {"mcp", ToolFormat::mcp},
                                                                {"gemini", ToolFormat::gemini}};
constexpr int kMostCharacters = 60'000;  // of one result, for clients that would cut it

// Gemini knows fewer words.
void leave_out(json::value& value, std::span<const std::string_view> words) {
  if (auto* object = value.if_object()) {
    for (const auto word : words) {
      const auto* found = object->if_contains(word);
      if (found != nullptr && !found->is_object()) object->erase(word);
    }
    for (auto& member : *object) leave_out(member.value(), words);
  } else if (auto* array = value.if_array()) {
    for (auto& item : *array) leave_out(item, words);
  }
}

json::value for_gemini(const json::object& schema) {
  static constexpr std::string_view kUnknown[] = {"additionalProperties", "default"};
  json::value copy = schema;
  leave_out(copy, kUnknown);
  auto& object = copy.get_object();
  if (object.at("properties").as_object().empty()) return nullptr;  // it refuses an object without any
  if (object.at("required").as_array().empty()) object.erase("required");
  return copy;
}

}  // namespace

std::optional<ToolFormat> parse_tool_format(std::string_view name) {
  const auto* found = std::ranges::find(kFormats, name, &std::pair<std::string_view, ToolFormat>::first);
  return found == std::end(kFormats) ? std::nullopt : std::optional(found->second);
}

json::object definition_of(const Tool& tool, ToolFormat format) {
  switch (format) {
    case ToolFormat::anthropic:
      return {{"name", tool.name}, {"description", tool.description}, {"input_schema", tool.input_schema}};
    case ToolFormat::openai:
      return {
          {"type", "function"},
          {"function", {{"name", tool.name}, {"description", tool.description}, {"parameters", tool.input_schema}}}};
    case ToolFormat::openai_responses:
      return {{"type", "function"},
              {"name", tool.name},
              {"description", tool.description},
              {"parameters", tool.input_schema},
              {"strict", false}};  // strict has no optional parameters
    case ToolFormat::mcp:
      return {{"name", tool.name},
              {"title", tool.title},
              {"description", tool.description},
              {"inputSchema", tool.input_schema},
              {"outputSchema", tool.output_schema},
              {"annotations",
               {{"title", tool.title},
                {"readOnlyHint", tool.read_only},
                {"destructiveHint", tool.destructive},
                {"idempotentHint", tool.read_only},
                {"openWorldHint", false}}},
              {"_meta", {{"anthropic/maxResultSizeChars", kMostCharacters}}}};
    case ToolFormat::gemini: {
      json::object definition{{"name", tool.name}, {"description", tool.description}};
      json::value parameters = for_gemini(tool.input_schema);
      if (!parameters.is_null()) definition["parameters"] = std::move(parameters);
      return definition;
    }
  }
  return {};
}

Api<std::vector<const Tool*>> choose_tools(const ToolRegistry& registry, const std::vector<std::string>& names) {
  std::vector<const Tool*> chosen;
  const bool all = names.size() == 1 && names.front() == "all";
  if (names.empty() || all) {
    for (const auto& tool : registry.all()) {
      if (all || tool.everyday) chosen.push_back(&tool);
    }
    return chosen;
  }
  for (const auto& name : names) {
    const Tool* tool = registry.find(name);
    if (tool == nullptr) {
      std::string known;
      for (const auto& one : registry.all()) known += (known.empty() ? "" : ", ") + one.name;
      return std::unexpected(bad_request("There is no tool " + printable(name.substr(0, 64)) + ".",
                                         "The tools are: " + known + ".", "unknown_tool"));
    }
    chosen.push_back(tool);
  }
  return chosen;
}

json::array definitions_of(std::span<const Tool* const> tools, ToolFormat format) {
  json::array definitions;
  for (const auto* tool : tools) definitions.push_back(definition_of(*tool, format));
  if (format != ToolFormat::gemini) return definitions;
  return {json::object{{"functionDeclarations", std::move(definitions)}}};
}

}  // namespace hutch
