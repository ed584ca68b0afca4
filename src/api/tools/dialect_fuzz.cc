// A call of a tool, from bytes to checked arguments.
#include <boost/json.hpp>
#include <cstdint>
#include <string_view>

#include "api/json_text.h"
#include "api/tools/dialect.h"
#include "api/tools/schema.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const hutch::ToolRegistry registry{hutch::ServeSettings{}};
  boost::system::error_code failed;
  boost::json::parse_options options;
  options.max_depth = 32;
  const auto value = boost::json::parse({reinterpret_cast<const char*>(data), size}, failed, {}, options);
  if (failed || !value.is_object()) return 0;
  const auto call = hutch::read_call(value.get_object());
  if (!call) return 0;
  const auto* tool = registry.find(call->name);
  if (tool == nullptr) tool = &registry.all()[size % registry.all().size()];
  const auto checked = hutch::check_arguments(tool->input_schema, call->arguments);
  const auto result = hutch::failed_result(checked ? hutch::ApiError{} : checked.error());
  (void)hutch::json_text(hutch::render_result(*call, result));
  return 0;
}
