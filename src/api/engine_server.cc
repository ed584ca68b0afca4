#include "api/engine_server.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "api/engine_client.h"
#include "api/engine_connection.h"
#include "api/engine_setup.h"
#include "base/scheduling.h"

namespace hutch {
namespace {

using Local = net::local::stream_protocol;

class EngineServer {
 public:
  EngineServer(net::io_context& context, Local::acceptor acceptor, EngineHost host)
      : context_(context), acceptor_(std::move(acceptor)), host_(std::move(host)), idle_(context) {
    host_.retire = [this] { retire(); };
  }

  net::awaitable<void> accept_clients() {
    for (;;) {
      boost::system::error_code failed;
      auto socket = co_await acceptor_.async_accept(net::redirect_error(net::use_awaitable, failed));
      if (failed) break;
      ++clients_;
      net::co_spawn(context_, EngineConnection::serve(std::make_shared<EngineConnection>(std::move(socket), host_)),
                    [this](const std::exception_ptr&) { client_left(); });
    }
  }

  net::awaitable<void> watch_keeper() {
    co_await host_.engine->listen();
    retire();  // nothing can be started any more
  }

  net::awaitable<void> leave_when_idle(std::chrono::milliseconds after) {
    last_used_ = Clock::now();
    while (!retired_) {
      idle_.expires_at(last_used_ + after);
      boost::system::error_code ignored;
      co_await idle_.async_wait(net::redirect_error(net::use_awaitable, ignored));
      if (clients_ > 0) last_used_ = Clock::now();
      if (Clock::now() >= last_used_ + after) retire();
    }
  }

 private:
  void client_left() {
    --clients_;
    last_used_ = Clock::now();
    if (retired_ && clients_ == 0) context_.stop();
  }

  // No new clients; the ones that are here finish.
  void retire() {
    if (std::exchange(retired_, true)) return;
    boost::system::error_code ignored;
    ::unlink(acceptor_.local_endpoint(ignored).path().c_str());
    acceptor_.close(ignored);
    idle_.cancel();
    if (clients_ == 0) context_.stop();
  }

  net::io_context& context_;
  Local::acceptor acceptor_;
  EngineHost host_;
  net::steady_timer idle_;
  Clock::time_point last_used_;
  std::uint32_t clients_ = 0;
  bool retired_ = false;
};

}  // namespace

std::string EngineSettings::identity() const {
  std::string text = std::to_string(idle_exit.count()) + "/" + std::to_string(ceiling.wall.count()) + "/" +
                     std::to_string(ceiling.memory.count) + "/" + std::to_string(ceiling.scratch.count);
  for (const auto number :
       {ceiling.processes, ceiling.cpu_percent, most_running, most_waiting, most_sessions, pool_least, pool_most}) {
    text += "/" + std::to_string(number);
  }
  return text;
}

Result<void> serve_engine(const EngineSettings& settings) {
  ::signal(SIGPIPE, SIG_IGN);
  HUTCH_TRY(const auto location, EngineLocation::find());
  const std::string binary = binary_identity();
  const std::string stamp = templates_stamp();
  HUTCH_TRY(auto templates, load_templates({}));
  HUTCH_TRY(auto keeper, start_keeper(keeper_options(templates, false)));

  net::io_context context(1);
  Engine engine(context.get_executor(), std::move(keeper), engine_options(settings, std::move(templates)));
  ::unlink(location.socket().c_str());  // the lock of whoever started us says that no other engine is there
  ::umask(0177);
  boost::system::error_code failed;
  Local::acceptor acceptor(context);
  acceptor.open(Local(), failed);
  if (!failed) acceptor.bind(Local::endpoint(location.socket().string()), failed);
  if (!failed) acceptor.listen(net::socket_base::max_listen_connections, failed);
  if (failed) return make_error(ErrorCode::system, failed.message()).during("listen on " + location.socket().string());

  take_short_turns();
  HUTCH_TRY(engine.workers().start());
  EngineServer server(context, std::move(acceptor),
                      {.engine = &engine,
                       .is_current =
                           [&](const wire::Hello& hello) {
                             const bool same = hello.settings.empty() || hello.settings == settings.identity();
                             return same && hello.binary == binary && stamp == templates_stamp() && !engine.lost();
                           },
                       .idle_exit = settings.idle_exit});
  net::co_spawn(context, server.accept_clients(), net::detached);
  net::co_spawn(context, server.watch_keeper(), net::detached);
  net::co_spawn(context, engine.tend_pool(), net::detached);
  net::co_spawn(context, server.leave_when_idle(settings.idle_exit), net::detached);
  context.run();
  return {};
}

void serve_private_engine(const EngineSettings& settings, int socket, const std::string& template_name) {
  ::signal(SIGPIPE, SIG_IGN);
  const UniqueFd held{::fcntl(socket, F_DUPFD_CLOEXEC, 0)};  // the client sees us hang up only at the end
  net::io_context context(1);
  EngineHost host{.is_current = [](const wire::Hello&) { return true; }, .retire = [] {}};
  std::unique_ptr<Engine> engine;
  auto templates = load_templates(template_name);
  auto keeper = templates ? start_keeper(keeper_options(*templates, true)) : Result<KeeperHandle>(templates.error());
  if (keeper) {
    engine = std::make_unique<Engine>(context.get_executor(), std::move(*keeper),
                                      engine_options(settings, std::move(*templates)));
    host.engine = engine.get();
    net::co_spawn(context, engine->listen(), net::detached);
  } else {
    host.problem = keeper.error();
  }
  Local::socket client(context, Local(), socket);
  net::co_spawn(context, EngineConnection::serve(std::make_shared<EngineConnection>(std::move(client), host)),
                [&](const std::exception_ptr&) { context.stop(); });
  context.run();
  if (engine) engine->wait_until_gone();
  ::shutdown(held.get(), SHUT_RDWR);
  ::_exit(0);  // everything of the sandbox is gone, and nobody is left who would miss our memory
}

}  // namespace hutch
