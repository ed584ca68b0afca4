#include "api/engine_setup.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "session/runtime_files.h"
#include "session/template_store.h"

namespace hutch {
namespace {

namespace fs = std::filesystem;

constexpr std::uint32_t kRunsPerCore = 4;

}  // namespace

Result<std::vector<Template>> load_templates(const std::string& only) {
  HUTCH_TRY(const auto paths, TemplatePaths::from_environment());
  HUTCH_TRY(const auto store, TemplateStore::open(paths));
  std::vector<Template> templates;
  if (only.empty()) {
    HUTCH_TRY(templates, store.ready());
  } else {
    HUTCH_TRY(auto one, store.resolve(only));
    templates.push_back(std::move(one));
  }
  for (auto& entry : templates) {
    HUTCH_TRY(const auto plan, store.plan(entry.name));
    HUTCH_TRY(const auto runner, install_runtime(paths.data, plan.interpreter.path));
    entry.binds.push_back({.source = runner.string(), .target = kRunnerInside});
  }
  return templates;
}

std::string templates_stamp() {
  std::string stamp;
  const auto paths = TemplatePaths::from_environment();
  if (!paths) return stamp;
  const auto add = [&](const fs::path& path) {
    struct stat status{};
    if (::stat(path.c_str(), &status) != 0) return;
    stamp += path.string() + ":" + std::to_string(status.st_mtim.tv_sec) + "." +
             std::to_string(status.st_mtim.tv_nsec) + "\n";
  };
  add(paths->data / "templates");
  add(paths->user);
  std::error_code failed;
  for (fs::directory_iterator entry(paths->user, failed), end; !failed && entry != end; entry.increment(failed)) {
    add(entry->path());
  }
  return stamp;
}

KeeperOptions keeper_options(const std::vector<Template>& templates, bool one_run) {
  KeeperOptions options{.templates = templates, .prepare = one_run, .sweep = !one_run};
  if (const char* place = std::getenv("HUTCH_CGROUP")) options.cgroup_override = place;
  return options;
}

wire::RunMode usual_mode(const Template& one) {
  const bool has = std::ranges::any_of(one.preload, [](const auto& module) { return module.starts_with("IPython"); });
  return has ? wire::RunMode::ipython : wire::RunMode::shell;
}

EngineOptions engine_options(const EngineSettings& settings, std::vector<Template> templates) {
  const std::uint32_t cores = std::max(std::thread::hardware_concurrency(), 1U);
  const std::uint32_t running = settings.most_running > 0 ? settings.most_running : kRunsPerCore * cores;
  return {.templates = std::move(templates),
          .ceiling = settings.ceiling,
          .admission = {.most_running = running, .most_waiting = settings.most_waiting, .backlog = running},
          .most_sessions = settings.most_sessions,
          .pool = {.least = settings.pool_least, .most = settings.pool_most, .cores = cores}};
}

}  // namespace hutch
