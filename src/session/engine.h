// The engine: templates, keeper and the runs that are going on. The only door from outside to sandboxes.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "session/run.h"
#include "zygote/template.h"

namespace hutch {

struct EngineOptions {
  std::vector<Template> templates;
  LimitCeiling ceiling;
  std::uint32_t most_running = 16;  // runs at once; more wait their turn
};

class Engine {
 public:
  Engine(net::any_io_executor executor, KeeperHandle keeper, EngineOptions options);

  // Checks the request and makes a run of it; nothing has been started yet. Every string in it is hostile.
  Result<std::shared_ptr<Run>> admit(RunSpec spec, RunSink& sink);
  // Waits for a slot and executes.
  net::awaitable<std::expected<wire::Record, StartFailure>> execute(std::shared_ptr<Run> run);

  net::awaitable<void> listen() { return keeper_.listen(); }
  [[nodiscard]] wire::EngineStatus status() const;
  [[nodiscard]] bool idle() const { return running_ == 0 && waiting_.empty(); }
  [[nodiscard]] bool lost() const { return keeper_.lost(); }

 private:
  Result<void> validate_request(RunSpec& spec) const;

  net::any_io_executor executor_;
  KeeperLink keeper_;
  net::thread_pool workers_{1};
  EngineOptions options_;
  Clock::time_point started_ = Clock::now();
  std::uint64_t runs_ = 0;
  std::uint32_t running_ = 0;
  std::deque<Event*> waiting_;
};

}  // namespace hutch
