// The engine: templates, keeper and the runs that are going on. The only door from outside to sandboxes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "session/admission.h"
#include "session/porter.h"
#include "session/ready_pool.h"
#include "session/run.h"
#include "zygote/template.h"

namespace hutch {

struct EngineOptions {
  std::vector<Template> templates;
  LimitCeiling ceiling;
  AdmissionOptions admission;
  std::uint32_t most_sessions = 1'000;  // shells, which may be idle
  PoolOptions pool;
};

class Engine {
 public:
  Engine(net::any_io_executor executor, KeeperHandle keeper, EngineOptions options);

  // Checks the request and makes a run of it; nothing has been started yet. Every string in it is hostile.
  Result<std::shared_ptr<Run>> admit(RunSpec spec, RunSink& sink);
  // Waits for a place and executes; refuses when too many wait. Owners take turns.
  net::awaitable<std::expected<wire::Record, StartFailure>> execute(std::shared_ptr<Run> run, Admission::Owner owner);
  [[nodiscard]] std::optional<StartFailure> refusal() const;  // what whoever comes now would be told at once
  // A cell of a shell that execute() has under way.
  void run_cell(std::shared_ptr<Run> run, CellTask task, Admission::Owner owner);
  // The same in two steps, for who may give up waiting for a place. False when it did.
  net::awaitable<bool> enter_for_cell(CellTask& task, Admission::Owner owner, Admission::Turn& turn);
  void give_up(Admission::Turn& turn) { admission_.give_up(turn); }
  void leave_unused(Admission::Owner owner) { leave(owner, Clock::now()); }  // entered, and wanted no more
  void begin_cell(Run& run, CellTask task, Admission::Owner owner);

  // Leaves some of the processors to those who ask for little, or not any more. To be called now and then.
  void mind_processors();

  // A sandbox that lasts is the caller's to end, and others may be sent into it.
  void release(std::uint64_t sandbox) { keeper_.release(sandbox); }
  std::shared_ptr<Porter> make_porter() { return std::make_shared<Porter>(executor_, keeper_); }

  // A bare fork of the template's zygote, with which starts are compared; nothing when it was never used.
  net::awaitable<Result<std::uint64_t>> measure_fork(std::string template_name);

  net::awaitable<void> listen() { return keeper_.listen(); }
  net::awaitable<void> tend_pool() { return pool_.tend(); }
  [[nodiscard]] wire::EngineStatus status() const;
  void wait_until_gone() { keeper_.wait_until_gone(); }
  [[nodiscard]] bool lost() const { return keeper_.lost(); }
  [[nodiscard]] bool keeps_files() const { return !keeper_.hello().cgroup.empty(); }  // of a session whose program died
  [[nodiscard]] const EngineOptions& options() const { return options_; }
  [[nodiscard]] net::any_io_executor executor() const { return executor_; }
  Workers& workers() { return workers_; }

 private:
  net::awaitable<std::expected<wire::Record, StartFailure>> execute_or_fail(std::shared_ptr<Run> run);
  Result<void> validate_request(RunSpec& spec) const;
  StartFailure at_capacity(std::string what) const;
  StartFailure full() const;
  void leave(Admission::Owner owner, Clock::time_point since);

  net::any_io_executor executor_;
  KeeperLink keeper_;
  Workers workers_{executor_};
  EngineOptions options_;
  Admission admission_;
  ReadyPool pool_;
  Clock::time_point started_ = Clock::now();
  std::uint64_t runs_ = 0;
  std::uint32_t sessions_ = 0;
  bool spares_some_ = false;  // of the processors
};

}  // namespace hutch
