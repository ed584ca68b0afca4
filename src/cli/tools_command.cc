#include "cli/tools_command.h"

#include <cstdio>

#include "api/json_text.h"
#include "api/tools/definitions.h"
#include "cli/report.h"

namespace hutch {

int tools_command(const ToolsOptions& options, const Config& config) {
  const Report report;
  const auto format = parse_tool_format(options.format);
  if (!format) {
    report.error("unknown format: " + options.format, "it is one of " + std::string(kToolFormats));
    return kOwnFailure;
  }
  ServeSettings settings = config.serve;
  settings.engine = config.engine;
  const ToolRegistry registry(settings);
  const auto chosen = choose_tools(registry, options.names);
  if (!chosen) {
    report.error(chosen.error().message, chosen.error().hint);
    return kOwnFailure;
  }
  std::printf("%s\n", json_text(definitions_of(*chosen, *format)).c_str());
  return 0;
}

}  // namespace hutch
