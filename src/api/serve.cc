// The daemon's process: what is opened, in which order, and how it ends.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/json.hpp>
#include <csignal>
#include <cstdio>
#include <fstream>

#include "api/daemon.h"
#include "api/engine_client.h"
#include "api/engine_setup.h"
#include "api/http_server.h"
#include "api/json_text.h"
#include "base/log.h"

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

bool is_public(const std::string& address) {
  return !address.empty() && !address.starts_with("127.") && !address.starts_with("[::1]") &&
         !address.starts_with("localhost:");
}

// A new daemon is of no use to anybody without one; it is shown this once.
Result<void> make_first_key(KeyStore& keys, const ServeSettings& settings) {
  HUTCH_TRY(const auto count, keys.count());
  if (count > 0) return {};
  if (is_public(settings.listen)) {
    return make_error(ErrorCode::permission, "others could reach " + settings.listen + ", and there is no key yet")
        .with_hint("make one first: hutch key create NAME");
  }
  HUTCH_TRY(auto made, keys.create("first", {.run = true, .files = true, .admin = true}, {}));
  std::printf("key: %s\n", made.secret.reveal().c_str());
  std::fflush(stdout);
  return {};
}

Result<Stores> open_stores(Database& database, const ServeSettings& settings) {
  HUTCH_TRY(auto keys, KeyStore::open(database));
  HUTCH_TRY(auto runs, RunStore::open(database, settings.data / "runs.journal"));
  HUTCH_TRY(auto sessions, SessionStore::open(database));
  HUTCH_TRY(auto cache, ResultCache::open(database, settings.cache));
  return Stores{
      .keys = std::move(keys), .runs = std::move(runs), .sessions = std::move(sessions), .cache = std::move(cache)};
}

// Logs and files of runs, oldest first, until what is left fits.
void bound_space(const fs::path& directory, std::uint64_t most) {
  struct Entry {
    fs::file_time_type changed;
    std::uint64_t size = 0;
    fs::path path;
  };
  std::vector<Entry> entries;
  std::uint64_t total = 0;
  std::error_code failed;
  for (const auto& entry : fs::recursive_directory_iterator(directory, failed)) {
    if (!entry.is_regular_file(failed)) continue;
    entries.push_back(
        {.changed = entry.last_write_time(failed), .size = entry.file_size(failed), .path = entry.path()});
    total += entries.back().size;
  }
  if (total <= most) return;
  std::ranges::sort(entries, {}, &Entry::changed);
  for (const auto& entry : entries) {
    if (total <= most) break;
    fs::remove(entry.path, failed);
    total -= entry.size;
  }
}

// Beside the event loop, because it waits for the disk.
class Housekeeping {
 public:
  Housekeeping(net::any_io_executor executor, const ServeSettings& settings) : timer_(executor), settings_(settings) {}

  net::awaitable<void> run(const bool& stopping) {
    boost::system::error_code ignored;
    unsigned round = 0;
    while (!stopping) {
      timer_.expires_after(std::chrono::seconds(1));
      co_await timer_.async_wait(net::redirect_error(net::use_awaitable, ignored));
      net::post(thread_, [this, round = round++] {
        if (!database_) database_ = Database::open(settings_.data / "hutch.db");
        if (*database_) std::ignore = (*database_)->checkpoint();
        if (round % 30 == 0) bound_space(settings_.caps.directory, settings_.run_space);
      });
    }
  }

 private:
  net::steady_timer timer_;
  const ServeSettings& settings_;
  std::optional<Result<Database>> database_;  // its own connection, used by its own thread only
  net::thread_pool thread_{1};
};

// Answers, refusals above all, do not wait behind programs that use every processor. Only root may; the priority that
// programs are to have is returned.
int go_first() {
  constexpr int kBefore = 5;
  const int usual = ::getpriority(PRIO_PROCESS, 0);
  ::setpriority(PRIO_PROCESS, 0, usual - kBefore);
  return usual;
}

void announce(const ServeSettings& settings, const std::string& address, const std::string& socket) {
  log::info("listening", {{"address", address}, {"socket", socket}});
  if (settings.ready_file.empty()) return;
  const std::string temporary = settings.ready_file + ".new";
  std::ofstream(temporary) << json_text(boost::json::object{{"listen", address}, {"socket", socket}}) << "\n";
  ::rename(temporary.c_str(), settings.ready_file.c_str());
}

}  // namespace

Result<void> serve(const ServeSettings& given, const std::string& version) {
  ::signal(SIGPIPE, SIG_IGN);
  ServeSettings settings = given;
  UniqueFd log_file;
  if (!settings.log_file.empty()) {
    log_file.reset(::open(settings.log_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!log_file) return system_error(errno).during("open " + settings.log_file);
    log::open(log_file.get());
  }
  settings.caps.directory = settings.data / "runs";
  for (const char* part : {"", "runs", "sessions"}) {
    HUTCH_TRY(make_private_directory(settings.data / part));
  }
  HUTCH_TRY(const auto lock, take_lock(settings.data));
  HUTCH_TRY(auto templates, load_templates({}));
  if (settings.template_name.empty()) {
    const bool built = std::ranges::find(templates, "default", &Template::name) != templates.end();
    settings.template_name = built ? "default" : "bare";
  }
  // Before any thread, and before the database: the keeper forks.
  KeeperOptions keeping = keeper_options(templates, false);
  keeping.priority = go_first();
  HUTCH_TRY(auto keeper, start_keeper(keeping));
  if (keeper.hello.cgroup.empty() && !settings.weaker_limits) {
    return make_error(ErrorCode::unsupported, "the limits cannot be enforced here: " + keeper.hello.cgroup_problem)
        .with_hint(keeper.hello.cgroup_hint +
                   "\nor accept rlimits and a watchdog instead: hutch serve --weaker-limits");
  }
  net::io_context context(1);
  EngineOptions how = engine_options(settings.engine, std::move(templates));
  how.admission.reserve = how.admission.most_running;  // tenants, not processes of one user
  how.pool.kept_back = std::min(how.pool.most, 2U);
  Engine engine(context.get_executor(), std::move(keeper), std::move(how));
  const fs::path database_path = settings.data / "hutch.db";
  HUTCH_TRY(auto database, Database::open(database_path));
  HUTCH_TRY(auto stores, open_stores(database, settings));
  HUTCH_TRY(make_first_key(stores.keys, settings));

  Daemon daemon(settings, engine, stores, version);
  daemon.public_listener = is_public(settings.listen);
  daemon.restore();
  HttpServer server(context.get_executor(), {.times = settings.times, .handle = [&daemon](HttpExchange& exchange) {
                                               return daemon.handle(exchange);
                                             }});
  if (!settings.tls_certificate.empty()) {
    HUTCH_TRY(server.use_tls(settings.tls_certificate, settings.tls_key));
  }
  std::string address;
  if (!settings.listen.empty()) {
    HUTCH_TRY(address, server.listen_tcp(settings.listen));
  }
  if (settings.socket.empty()) {
    HUTCH_TRY(const auto location, EngineLocation::find());
    settings.socket = (location.directory / "serve.sock").string();
  }
  HUTCH_TRY(server.listen_unix(settings.socket));

  bool stopping = false;
  bool keeper_died = false;
  Housekeeping housekeeping(context.get_executor(), settings);
  const auto stop = [&](std::string why) {
    if (std::exchange(stopping, true)) return;
    log::info("stopping", {{"reason", std::move(why)}});
    daemon.begin_stop();
    net::co_spawn(
        context,
        [&]() -> net::awaitable<void> {
          co_await daemon.hub.shut_down(settings.stop_grace);
          server.stop();
          context.stop();
        },
        net::detached);
  };
  net::signal_set signals(context, SIGTERM, SIGINT);
  signals.async_wait([&](const boost::system::error_code& failed, int number) {
    if (!failed) stop("signal " + std::to_string(number));
  });
  net::co_spawn(
      context,
      [&]() -> net::awaitable<void> {
        co_await engine.listen();
        keeper_died = !stopping;
        stop("the keeper is gone");
      },
      net::detached);
  net::co_spawn(context, engine.tend_pool(), net::detached);
  net::co_spawn(context, daemon.hub.tend(), net::detached);
  net::co_spawn(context, daemon.tend(), net::detached);
  net::co_spawn(context, housekeeping.run(stopping), net::detached);
  announce(settings, address, settings.socket);
  context.run();
  std::ignore = stores.runs.flush();
  std::ignore = database.checkpoint();
  log::info("stopped");
  if (keeper_died) return make_error(ErrorCode::internal, "the keeper is gone").with_hint("start it again");
  return {};
}

}  // namespace hutch
