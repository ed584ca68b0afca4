#include "cli/engine_command.h"

#include <fmt/format.h>

#include <boost/json.hpp>

#include "api/engine_client.h"
#include "api/engine_server.h"
#include "api/json_text.h"
#include "cli/report.h"

namespace hutch {
namespace {

int own_failure(const Error& error) {
  Report().error(error.message, error.hint);
  return kOwnFailure;
}

Result<EngineClient> reach() {
  HUTCH_TRY(const auto location, EngineLocation::find());
  return EngineClient::connect(location);
}

// The client that started us reads these words from the log.
int engine_failure(const Error& error) {
  fmt::print(stderr, "hutch: engine: {}\n", error.message);
  if (!error.hint.empty()) fmt::print(stderr, "hint: {}\n", error.hint);
  return kOwnFailure;
}

}  // namespace

int engine_status(OutputFormat format) {
  auto client = reach();
  if (!client) {
    if (format == OutputFormat::json) {
      fmt::print("{}\n", json_text(boost::json::object{{"running", false}}));
    } else {
      fmt::print("no engine is running; `hutch run` starts one\n");
    }
    return 0;
  }
  const auto status = client->status();
  if (!status) return own_failure(status.error());
  const auto location = EngineLocation::find();
  if (format == OutputFormat::json) {
    boost::json::array templates(status->templates.begin(), status->templates.end());
    fmt::print(
        "{}\n",
        json_text(boost::json::object{
            {"running", true},
            {"pid", status->pid},
            {"uptime_ms", status->uptime_ms},
            {"runs", status->runs},
            {"running_now", status->running},
            {"waiting", status->waiting},
            {"max_running", status->most_running},
            {"sessions", status->sessions},
            {"dying", status->dying},
            {"pool", {{"ready", status->pool_ready}, {"hits", status->pool_hits}, {"misses", status->pool_misses}}},
            {"idle_exit_ms", status->idle_exit_ms},
            {"templates", std::move(templates)},
            {"limits", status->limits},
            {"filter", status->filter},
            {"log", location->log().string()}}));
    return 0;
  }
  fmt::print("engine {} up {:.0f} s: {} runs, {} of {} running, {} waiting, {} shells open, {} sandboxes going\n",
             status->pid, static_cast<double>(status->uptime_ms) / 1000, status->runs, status->running,
             status->most_running, status->waiting, status->sessions, status->dying);
  fmt::print("made in advance: {} ready, {} starts found one, {} found none\n", status->pool_ready, status->pool_hits,
             status->pool_misses);
  fmt::print("templates: {}\nlimits: {}\nsystem call filter: {}\nlog: {}\n", fmt::join(status->templates, ", "),
             status->limits, status->filter, location->log().string());
  fmt::print("leaves after {:g} idle minutes\n", static_cast<double>(status->idle_exit_ms) / 60'000);
  return 0;
}

int engine_stop() {
  auto client = reach();
  if (!client) {
    fmt::print("no engine is running\n");
    return 0;
  }
  if (const auto stopped = client->stop(EngineClient::StopWait::process); !stopped) return own_failure(stopped.error());
  return 0;
}

int engine_serve(const Config& config) {
  const auto served = serve_engine(config.engine);
  return served ? 0 : engine_failure(served.error());
}

}  // namespace hutch
