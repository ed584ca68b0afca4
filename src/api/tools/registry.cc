#include "api/tools/registry.h"

#include <array>
#include <utility>

#include "api/tools/handlers.h"

namespace hutch {
namespace {

namespace json = boost::json;

constexpr char kDefinitions[] = {
#embed "tools.json"
};

constexpr std::pair<std::string_view, ToolHandler> kHandlers[] = {
    {"run_python", run_python_tool},
    {"answer_tool_calls", answer_tool_calls_tool},
    {"code_execution", code_execution_tool},
    {"execute_python", execute_python_tool},
    {"run_shell", run_shell_tool},
    {"get_execution", get_execution_tool},
    {"cancel_execution", cancel_execution_tool},
    {"edit_file", edit_file_tool},
    {"list_files", list_files_tool},
    {"read_file", read_file_tool},
    {"write_file", write_file_tool},
    {"list_sessions", list_sessions_tool},
    {"reset_session", reset_session_tool},
    {"close_session", close_session_tool},
};

// Names under which models were trained to use such a tool.
constexpr std::pair<std::string_view, std::string_view> kOtherNames[] = {
    {"bash", "run_shell"},
    {"run_bash", "run_shell"},
    {"str_replace_based_edit_tool", "edit_file"},
    {"str_replace_editor", "edit_file"},
};

// Numbers that the operator decides stand in the definitions as words.
void fill_in(json::value& value, const json::object& words) {
  if (auto* object = value.if_object()) {
    for (auto& member : *object) fill_in(member.value(), words);
  } else if (auto* array = value.if_array()) {
    for (auto& item : *array) fill_in(item, words);
  } else if (const auto* text = value.if_string(); text != nullptr && text->starts_with('$')) {
    if (const auto* meant = words.if_contains(std::string_view(*text))) value = *meant;
  }
}

bool flag(const json::object& definition, std::string_view name) {
  const auto* found = definition.if_contains(name);
  return found != nullptr && found->is_bool() && found->get_bool();
}

Scope scope_of(const json::object& definition) {
  const auto* scope = definition.if_contains("scope");
  return scope != nullptr && scope->as_string() == "files" ? Scope::files : Scope::run;
}

}  // namespace

ToolRegistry::ToolRegistry(const ServeSettings& settings) {
  json::value all = json::parse({kDefinitions, sizeof(kDefinitions)});
  const auto longest = settings.engine.ceiling.wall.count();
  fill_in(all, {{"$code", settings.most_tool_code},
                {"$longest", longest / 1000},
                {"$longest_ms", longest},
                {"$run", all.at("run_result")}});
  for (auto& entry : all.at("tools").as_array()) {
    auto& definition = entry.as_object();
    Tool tool{.name = std::string(definition.at("name").as_string()),
              .title = std::string(definition.at("title").as_string()),
              .description = std::string(definition.at("description").as_string()),
              .input_schema = std::move(definition.at("input_schema").as_object()),
              .output_schema = std::move(definition.at("output_schema").as_object()),
              .read_only = flag(definition, "read_only"),
              .destructive = flag(definition, "destructive"),
              .runs_code = flag(definition, "runs_code"),
              .everyday = flag(definition, "everyday"),
              .scope = scope_of(definition)};
    for (const auto& [name, handler] : kHandlers) {
      if (tool.name == name) tool.handler = handler;
    }
    tools_.push_back(std::move(tool));
  }
}

const Tool* ToolRegistry::find(std::string_view name) const {
  for (const auto& [other, ours] : kOtherNames) {
    if (name == other) name = ours;
  }
  for (const auto& tool : tools_) {
    if (tool.name == name) return &tool;
  }
  return nullptr;
}

}  // namespace hutch
