#include "api/service.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>

#include "api/engine_setup.h"

namespace hutch {
namespace {

namespace fs = std::filesystem;

Result<void> make_private_directory(const fs::path& path) {
  std::error_code failed;
  fs::create_directories(path, failed);
  if (failed) return make_error(ErrorCode::system, failed.message()).during("make " + path.string());
  if (::chmod(path.c_str(), 0700) != 0) return system_error(errno).during("close " + path.string() + " to others");
  return {};
}

// One daemon per data directory.
Result<UniqueFd> take_lock(const fs::path& data) {
  UniqueFd lock{::open((data / "serve.lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)};
  if (!lock) return system_error(errno).during("open the lock of " + data.string());
  for (int i = 0; i < 100; ++i) {  // one that was killed a moment ago may still be dying
    if (::flock(lock.get(), LOCK_EX | LOCK_NB) == 0) return lock;
    ::usleep(20'000);
  }
  return make_error(ErrorCode::already_exists, "another daemon uses " + data.string())
      .with_hint("stop it, or give this one another directory with --data");
}

Result<Stores> open_stores(Database& database, const ServeSettings& settings) {
  HUTCH_TRY(auto keys, KeyStore::open(database));
  HUTCH_TRY(auto runs, RunStore::open(database, settings.data / "runs.journal"));
  HUTCH_TRY(auto sessions, SessionStore::open(database));
  HUTCH_TRY(auto cache, ResultCache::open(database, settings.cache));
  HUTCH_TRY(auto audit, AuditLog::open(database));
  return Stores{.keys = std::move(keys),
                .runs = std::move(runs),
                .sessions = std::move(sessions),
                .cache = std::move(cache),
                .audit = std::move(audit)};
}

// Where the kernel shares the processors out by sessions (sched_autogroup_enabled), a priority counts within one only,
// and all of ours has as much as one program. As a service the session is our own; from a shell it is the user's.
void go_first_as_a_session() {
  if (::getsid(0) != ::getpid()) return;
  const UniqueFd group{::open("/proc/self/autogroup", O_WRONLY | O_CLOEXEC)};
  if (group) std::ignore = ::write(group.get(), "-10", 3);
}

// Answers, refusals above all, do not wait behind programs that use every processor. Only root may; the priority that
// programs are to have is returned.
int go_first() {
  constexpr int kBefore = 5;
  const int usual = ::getpriority(PRIO_PROCESS, 0);
  ::setpriority(PRIO_PROCESS, 0, usual - kBefore);
  go_first_as_a_session();
  return usual;
}

}  // namespace

Result<std::unique_ptr<Service>> Service::open(ServeSettings given, const std::string& version, Priority priority) {
  auto service = std::make_unique<Service>();
  ServeSettings& settings = service->settings;
  settings = std::move(given);
  settings.caps.directory = settings.data / "runs";
  for (const char* part : {"", "runs", "sessions"}) {
    HUTCH_TRY(make_private_directory(settings.data / part));
  }
  HUTCH_TRY(service->lock, take_lock(settings.data));
  HUTCH_TRY(auto templates, load_templates({}));
  if (settings.template_name.empty()) {
    const bool built = std::ranges::find(templates, "default", &Template::name) != templates.end();
    settings.template_name = built ? "default" : "bare";
  }
  KeeperOptions keeping = keeper_options(templates, false);
  if (priority == Priority::before_programs) keeping.priority = go_first();
  HUTCH_TRY(auto keeper, start_keeper(keeping));
  if (keeper.hello.cgroup.empty() && !settings.weaker_limits) {
    return make_error(ErrorCode::unsupported, "the limits cannot be enforced here: " + keeper.hello.cgroup_problem)
        .with_hint(keeper.hello.cgroup_hint + "\nor accept rlimits and a watchdog instead: --weaker-limits");
  }
  EngineOptions how = engine_options(settings.engine, std::move(templates));
  how.admission.reserve = how.admission.most_running;  // tenants, not processes of one user
  how.pool.kept_back = how.pool.most;
  service->engine.emplace(service->context.get_executor(), std::move(keeper), std::move(how));
  HUTCH_TRY(auto database, Database::open(settings.data / "hutch.db"));
  service->database.emplace(std::move(database));
  HUTCH_TRY(auto stores, open_stores(*service->database, settings));
  service->stores.emplace(std::move(stores));
  service->daemon.emplace(settings, *service->engine, *service->stores, version);
  return service;
}

}  // namespace hutch
