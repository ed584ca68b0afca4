// The daemon's process: what is opened, in which order, and how it ends.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/json.hpp>
#include <csignal>
#include <cstdio>
#include <exception>
#include <fstream>

#include "api/engine_client.h"
#include "api/http_server.h"
#include "api/json_text.h"
#include "api/run_space.h"
#include "api/service.h"
#include "base/log.h"
#include "base/scheduling.h"

namespace hutch {
namespace {

namespace fs = std::filesystem;

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
  Housekeeping(net::any_io_executor executor, const ServeSettings& settings) : timer_(executor), settings_(settings) {}

  net::awaitable<void> run(const bool& stopping) {
    boost::system::error_code ignored;
    unsigned round = 0;
    while (!stopping) {
      timer_.expires_after(std::chrono::seconds(1));
      co_await timer_.async_wait(net::redirect_error(net::use_awaitable, ignored));
      net::post(thread_, [this, round = round++] { tidy_up(round); });
    }
  }

 private:
  // What an exception leaves undone is done in the next round.
  void tidy_up(unsigned round) {
    try {
      if (!database_) database_ = Database::open(settings_.data / "hutch.db");
      if (*database_) std::ignore = (*database_)->checkpoint();
      if (round % 30 == 0) bound_run_space(settings_.caps.directory, settings_.run_space);
    } catch (const std::exception& error) {
      log::error("housekeeping failed", {{"error", error.what()}});
    }
  }

  net::steady_timer timer_;
  const ServeSettings& settings_;
  std::optional<Result<Database>> database_;  // its own connection, used by its own thread only
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
  Housekeeping housekeeping(context.get_executor(), service->settings);
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
