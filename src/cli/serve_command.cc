#include "cli/serve_command.h"

#include "cli/report.h"
#include "session/template_store.h"

namespace hutch {

Result<std::filesystem::path> serve_directory(const std::string& given, const Config& config) {
  if (!given.empty()) return std::filesystem::path(given);
  if (!config.serve.data.empty()) return config.serve.data;
  HUTCH_TRY(const auto paths, TemplatePaths::from_environment());
  return paths.data;
}

int serve_command(const ServeOptions& options, const Config& config, const std::string& version) {
  const auto fail = [](const Error& error) {
    Report().error(error.message, error.hint);
    return kOwnFailure;
  };
  ServeSettings settings = config.serve;
  settings.limits = config.limits;
  settings.engine = config.engine;
  settings.template_name = config.template_name;
  settings.weaker_limits = options.weaker_limits;
  settings.mcp_fixtures = options.mcp_fixtures;
  settings.ready_file = options.ready_file;
  const auto override_with = [](std::string& setting, const std::string& option) {
    if (!option.empty()) setting = option;
  };
  override_with(settings.listen, options.listen);
  override_with(settings.socket, options.socket);
  override_with(settings.tls_certificate, options.tls_certificate);
  override_with(settings.tls_key, options.tls_key);
  override_with(settings.log_file, options.log_file);
  if (settings.listen == "none") settings.listen.clear();
  const auto data = serve_directory(options.data, config);
  if (!data) return fail(data.error());
  settings.data = *data;
  if (auto served = serve(settings, version); !served) return fail(served.error());
  return 0;
}

}  // namespace hutch
