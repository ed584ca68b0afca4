// A call of a tool, from JSON to checked arguments, and the answer to it.
#include <cstdint>

#include "api/fuzzed_json.h"
#include "api/json_text.h"
#include "api/tools/dialect.h"
#include "api/tools/schema.h"

namespace {

constexpr std::string_view kWords[] = {"type",
                                       "tool_use",
                                       "server_tool_use",
                                       "function",
                                       "function_call",
                                       "functionCall",
                                       "id",
                                       "call_id",
                                       "name",
                                       "input",
                                       "arguments",
                                       "args",
                                       "session_id",
                                       "caller",
                                       "run_python",
                                       "run_shell",
                                       "edit_file",
                                       "code_execution",
                                       "bash_code_execution",
                                       "text_editor_code_execution",
                                       "code",
                                       "command",
                                       "timeout",
                                       "path",
                                       "view_range",
                                       "restart",
                                       "tools",
                                       "results",
                                       "view",
                                       "new"};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const hutch::ToolRegistry registry{hutch::ServeSettings{}};
  FuzzedDataProvider bytes(data, size);
  const auto call = hutch::read_call(hutch::FuzzedJson(bytes, kWords).object());
  if (!call) return 0;
  const auto* tool = registry.find(call->name);
  if (tool == nullptr) tool = &registry.all()[size % registry.all().size()];
  const auto checked = hutch::check_arguments(tool->input_schema, call->arguments);
  const auto result = hutch::failed_result(checked ? hutch::ApiError{} : checked.error());
  std::ignore = hutch::json_text(hutch::render_result(*call, result));
  return 0;
}
