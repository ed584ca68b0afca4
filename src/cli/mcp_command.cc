#include "cli/mcp_command.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "api/local_service.h"
#include "api/mcp/fixtures.h"
#include "api/mcp/stdio.h"
#include "cli/mcp_config.h"
#include "cli/report.h"

namespace hutch {
namespace {

constexpr std::uint32_t kMostSessions = 32;  // of one conversation; forgotten ones make room

int fail(const Error& error) {
  Report().error(error.message, error.hint);
  return kOwnFailure;
}

int print_config(const McpOptions& options) {
  std::error_code failed;
  const auto program = std::filesystem::read_symlink("/proc/self/exe", failed);
  std::vector<std::string> arguments{"mcp"};
  if (!options.template_name.empty()) arguments.insert(arguments.end(), {"--template", options.template_name});
  if (!options.tools.empty()) {
    std::string names;
    for (const auto& name : options.tools) names += (names.empty() ? "" : ",") + name;
    arguments.insert(arguments.end(), {"--tools", names});
  }
  const auto text = client_config(options.client, program.string(), arguments, options.http);
  if (!text) return fail(text.error());
  // Where it goes is for the reader; what goes there can be piped into a file.
  std::fprintf(stderr, "%s\n", text->where.c_str());
  std::printf("%s\n", text->snippet.c_str());
  return 0;
}

Result<void> check_tools(const McpOptions& options, const ToolRegistry& registry) {
  for (const auto& name : options.tools) {
    if (name == "all" || registry.find(name) != nullptr) continue;
    return make_error(ErrorCode::invalid_argument, "there is no tool " + name)
        .with_hint("hutch tools lists them; all stands for every one");
  }
  return {};
}

}  // namespace

int mcp_command(const McpOptions& options, const Config& config, const std::string& version) {
  if (!options.client.empty()) return print_config(options);
  ServeSettings settings = config.serve;
  settings.limits = config.limits;
  settings.engine = config.engine;
  settings.template_name = options.template_name.empty() ? config.template_name : options.template_name;
  settings.weaker_limits = options.weaker_limits;
  settings.log_file.clear();  // standard error, which clients keep
  settings.sessions_per_key = std::min(settings.sessions_per_key, kMostSessions);
  auto service = LocalService::start(std::move(settings), version);
  if (!service) return fail(service.error());
  Daemon& daemon = (*service)->daemon();
  if (auto known = check_tools(options, daemon.tools); !known) return fail(known.error());
  mcp::Server server(daemon, {.tools = options.tools});
  if (options.fixtures) server.set_extra(mcp::conformance_fixtures(server));
  (*service)->run(mcp::serve_stdio(server, (*service)->owner(), STDIN_FILENO, STDOUT_FILENO));
  return 0;
}

}  // namespace hutch
