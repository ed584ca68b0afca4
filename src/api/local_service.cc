#include "api/local_service.h"

#include <csignal>
#include <cstdlib>

#include "api/service.h"

namespace hutch {

struct LocalService::State {
  std::filesystem::path directory;
  std::unique_ptr<Service> service;

  ~State() {
    service.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
  }
};

LocalService::LocalService(std::unique_ptr<State> state) : state_(std::move(state)) {}
LocalService::~LocalService() = default;

Result<std::unique_ptr<LocalService>> LocalService::start(ServeSettings settings, const std::string& version) {
  ::signal(SIGPIPE, SIG_IGN);
  auto state = std::make_unique<State>();
  std::error_code failed;
  std::string pattern = (std::filesystem::temp_directory_path(failed) / "hutch-XXXXXX").string();
  if (failed || ::mkdtemp(pattern.data()) == nullptr) return system_error(errno).during("make " + pattern);
  state->directory = pattern;
  settings.data = pattern;
  HUTCH_TRY(state->service, Service::open(std::move(settings), version, Priority::as_programs));
  HUTCH_TRY(state->service->engine->workers().start());
  return std::unique_ptr<LocalService>(new LocalService(std::move(state)));
}

net::io_context& LocalService::context() { return state_->service->context; }
Daemon& LocalService::daemon() { return *state_->service->daemon; }
Caller LocalService::owner() const { return local_caller(); }

void LocalService::run(net::awaitable<void> work) {
  Service& service = *state_->service;
  auto& context = service.context;
  bool over = false;
  const auto end = [&]() -> net::awaitable<void> {
    if (std::exchange(over, true)) co_return;
    service.daemon->begin_stop();
    co_await service.daemon->hub.shut_down(std::chrono::milliseconds(0));
    context.stop();
  };
  net::co_spawn(
      context,
      [&]() -> net::awaitable<void> {
        co_await service.engine->listen();  // returns when the keeper is gone: then nothing can be done any more
        co_await end();
      },
      net::detached);
  net::co_spawn(context, service.engine->tend_pool(), net::detached);
  net::co_spawn(context, service.daemon->hub.tend(), net::detached);
  net::co_spawn(
      context,
      [&]() -> net::awaitable<void> {
        co_await std::move(work);
        co_await end();
      },
      net::detached);
  context.run();
}

}  // namespace hutch
