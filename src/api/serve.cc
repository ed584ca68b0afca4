// The daemon's process: what is opened, in which order, and how it ends.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/json.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>

#include "api/engine_client.h"
#include "api/http_server.h"
#include "api/json_text.h"
#include "api/run_space.h"
#include "api/service.h"
#include "base/log.h"
#include "base/scheduling.h"
#include "session/run_owners.h"

namespace hutch {
namespace {

namespace fs = std::filesystem;

constexpr Clock::duration kSpaceLook = std::chrono::seconds(5);
constexpr int kSpacePause = 20;  // times what the last look took: many files are looked at less often

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

// Beside the event loop, because it waits for the disk.
class Housekeeping {
 public:
  Housekeeping(net::any_io_executor executor, const ServeSettings& settings, Hub& hub)
      : timer_(executor), settings_(settings), hub_(hub) {}

  net::awaitable<void> run(const bool& stopping) {
    boost::system::error_code ignored;
    while (!stopping) {
      timer_.expires_after(std::chrono::seconds(1));
      co_await timer_.async_wait(net::redirect_error(net::use_awaitable, ignored));
      if (!busy_.exchange(true)) begin_round();  // otherwise the disk is slow: what waits for it does not pile up
    }
  }

 private:
  using Owners = std::map<std::string, RunOwner>;  // by run

  // What an exception leaves undone is done in the next round.
  template <class Work>
  static bool attempt(Work work) {
    try {
      work();
      return true;
    } catch (const std::exception& error) {
      log::error("housekeeping failed", {{"error", error.what()}});
      return false;
    }
  }

  void begin_round() {
    const bool begun = attempt([this] {
      std::optional<Owners> live;
      if (Clock::now() >= next_space_look_) live = owners_of_live_runs();
      net::post(thread_, [this, live = std::move(live)] {
        attempt([&] { tidy_up(live); });
        busy_ = false;
      });
    });
    if (!begun) busy_ = false;
  }

  // Also of those that have just ended: the database may not have them yet.
  Owners owners_of_live_runs() {
    Owners owners;
    hub_.for_each_run([&owners](const LiveRun& run) {
      owners[run.identity().id] = {.key_id = run.identity().key_id, .under_way = run.stage() != RunStage::finished};
    });
    return owners;
  }

  void tidy_up(const std::optional<Owners>& live) {
    if (!database_) database_ = Database::open(settings_.data / "hutch.db");
    if (*database_) std::ignore = (*database_)->checkpoint();
    if (!live) return;
    const auto began = Clock::now();
    std::optional<RunOwners> stored;
    if (*database_) {
      if (auto opened = RunOwners::open(**database_)) stored = std::move(*opened);
    }
    bound_run_space(settings_.caps.directory, settings_.run_space, [&](const std::string& run_id) -> RunOwner {
      if (const auto found = live->find(run_id); found != live->end()) return found->second;
      return {.key_id = stored ? stored->key_of(run_id).value_or("") : ""};
    });
    next_space_look_ = Clock::now() + std::max(kSpaceLook, kSpacePause * (Clock::now() - began));
  }

  net::steady_timer timer_;
  const ServeSettings& settings_;
  Hub& hub_;
  std::atomic<bool> busy_ = false;  // the thread: for as long, what is below is its own
  Clock::time_point next_space_look_;
  std::optional<Result<Database>> database_;  // a connection of its own
  net::thread_pool thread_{1};
};

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
  HUTCH_TRY(const auto service, Service::open(std::move(settings), version, Priority::before_programs));
  Daemon& daemon = *service->daemon;
  net::io_context& context = service->context;
  HUTCH_TRY(make_first_key(service->stores->keys, service->settings));
  daemon.public_listener = is_public(service->settings.listen);
  daemon.restore();
  HttpServer server(context.get_executor(),
                    {.times = service->settings.times,
                     .connections = {.per_peer = service->settings.connections_per_peer},
                     .handle = [&daemon](HttpExchange& exchange) { return daemon.handle(exchange); }});
  if (!service->settings.tls_certificate.empty()) {
    HUTCH_TRY(server.use_tls(service->settings.tls_certificate, service->settings.tls_key));
  }
  std::string address;
  if (!service->settings.listen.empty()) {
    HUTCH_TRY(address, server.listen_tcp(service->settings.listen));
  }
  if (service->settings.socket.empty()) {
    HUTCH_TRY(const auto location, EngineLocation::find());
    service->settings.socket = (location.directory / "serve.sock").string();
  }
  HUTCH_TRY(server.listen_unix(service->settings.socket));

  bool stopping = false;
  bool keeper_died = false;
  Housekeeping housekeeping(context.get_executor(), service->settings, daemon.hub);
  take_short_turns();
  HUTCH_TRY(service->engine->workers().start());
  const auto stop = [&](std::string why) {
    if (std::exchange(stopping, true)) return;
    log::info("stopping", {{"reason", std::move(why)}});
    daemon.begin_stop();
    net::co_spawn(
        context,
        [&]() -> net::awaitable<void> {
          co_await daemon.hub.shut_down(service->settings.stop_grace);
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
        co_await service->engine->listen();
        keeper_died = !stopping;
        stop("the keeper is gone");
      },
      net::detached);
  net::co_spawn(context, service->engine->tend_pool(), net::detached);
  net::co_spawn(context, daemon.hub.tend(), net::detached);
  net::co_spawn(context, daemon.tend(), net::detached);
  net::co_spawn(context, housekeeping.run(stopping), net::detached);
  announce(service->settings, address, service->settings.socket);
  context.run();
  std::ignore = service->stores->runs.flush();
  std::ignore = service->database->checkpoint();
  log::info("stopped");
  if (keeper_died) return make_error(ErrorCode::internal, "the keeper is gone").with_hint("start it again");
  return {};
}

}  // namespace hutch
