// One run, from request to record: the order of execute() is the order of what happens.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/sha256.h"
#include "base/unique_fd.h"
#include "sandbox/limits.h"
#include "session/denials.h"
#include "session/display_rules.h"
#include "session/error_table.h"
#include "session/host_calls.h"
#include "session/keeper_link.h"
#include "session/ready_pool.h"
#include "session/sandbox_link.h"
#include "session/task_group.h"
#include "session/workers.h"
#include "session/workspace.h"
#include "wire/engine_messages.h"

namespace hutch {

// Where a run's events go, in order. Called on the engine's thread; must not block.
class RunSink {
 public:
  virtual ~RunSink() = default;
  virtual void on_output(wire::OutputEvent event) = 0;
  virtual void on_file(CollectedFile file) = 0;
  virtual void on_cell_done(wire::CellStatus status, wire::Record record) = 0;
  virtual void on_input_wanted() {}  // a cell whose input is live waits for some
  virtual void on_tool_call(std::shared_ptr<const PendingToolCall> /*call*/) {}
  virtual void on_tool_call_done(const std::string& /*call_id*/, ToolCallEnd /*how*/) {}
};

// One cell of a shell.
struct CellTask {
  wire::RunInSession what;
  std::optional<std::chrono::milliseconds> timeout;  // instead of the shell's own
  ToolOffer tools;
  Clock::time_point arrived = Clock::now();
  bool waited = false;     // for a place
  std::string request_id;  // that asked for it, for the log
};

// By which the log names it; empty: it has none.
struct LogIds {
  std::string request;
  std::string session;
  std::string run;
};

struct RunSpec {
  wire::RunRequest request;
  std::vector<wire::PutFile> files;
  UniqueFd input;
  std::uint32_t template_index = 0;
  Limits limits;
  Step fault = Step::none;
  Clock::time_point arrived = Clock::now();
  std::uint64_t validation_us = 0;
  std::uint64_t waited_us = 0;  // for a free slot
  bool stand_back = false;      // its owner has so many that they wait for each other
  bool others_follow = false;   // more starts are waiting
  // Of sessions: a sandbox that outlives its interpreter, and the interpreters that come after the first.
  bool lasting = false;
  std::uint64_t into = 0;            // the lasting sandbox to start in
  CgroupHandle cgroup;               // of that sandbox
  bool tell_all = false;             // the sink caps the output; a program is not ended for talking
  ToolOffer tools;                   // to a one-shot that is a cell
  std::shared_ptr<const void> kept;  // until the files have been sent
  LogIds ids;
};

// A failure of ours, with the step at which it happened.
struct StartFailure {
  Error error;
  Step step = Step::none;
  std::chrono::milliseconds retry_after{0};  // 0: trying again is no remedy
  bool sandbox_gone = false;                 // the lasting one that it was to start in
};

// Of ours: an exception, for want of memory or threads.
Error could_not_go_on();

inline constexpr auto kStartTime = std::chrono::seconds(60);  // a zygote that imports a lot

class Run final : public KeeperListener, public std::enable_shared_from_this<Run> {
 public:
  Run(net::any_io_executor executor, KeeperLink& keeper, ReadyPool& pool, Workers& workers, RunSpec spec,
      RunSink& sink);

  // The record, or why there is none. The sandbox is taken apart afterwards.
  net::awaitable<std::expected<wire::Record, StartFailure>> execute();

  void stand_back() { spec_.stand_back = true; }
  void note_wait(Clock::duration waited, bool others_wait) {
    spec_.others_follow = others_wait;
    spec_.waited_us = static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(waited).count());
  }
  Workers::Owner owner = 0;            // whose turn it takes among the workers
  std::function<void()> on_placed;     // called when it need not wait for others any more
  std::function<void()> on_cancelled;  // while it waits for them
  [[nodiscard]] bool is_shell() const { return spec_.request.mode != wire::RunMode::script; }
  [[nodiscard]] bool usable() const { return ended_ == Ended::by_itself && !ended_event_.is_set() && !failure_; }
  void cancel() {
    end(Ended::cancelled);
    if (on_cancelled) on_cancelled();
  }
  [[nodiscard]] const std::optional<StartFailure>& failure() const { return failure_; }
  [[nodiscard]] const LogIds& ids() const { return spec_.ids; }
  void interrupt();
  // For the cell that runs, if its input is live: all of it is taken, or nothing.
  Result<void> give_input(std::string_view text);
  // For a call that the sink was told of: what the code gets, or what its exception says.
  Result<void> answer_tool_call(const std::string& call_id, bool ok, std::string text);
  // `done` is called when the cell is over, or the whole shell.
  void run_cell(CellTask task, std::function<void()> done);
  // For whoever goes on with a lasting sandbox.
  [[nodiscard]] std::uint64_t sandbox() const { return spec_.into != 0 ? spec_.into : link_.number; }
  [[nodiscard]] int workspace() const { return link_.workspace.get(); }
  [[nodiscard]] const Limits& limits() const { return spec_.limits; }
  [[nodiscard]] std::uint32_t template_index() const { return spec_.template_index; }
  [[nodiscard]] std::optional<std::uint64_t> peak_memory() const {
    const auto peak = link_.cgroup.read_peak_memory();
    return peak ? std::optional(*peak) : std::nullopt;
  }
  // The processor time that its sandbox's control group counts, and what it counted when the cell began that runs.
  [[nodiscard]] Result<std::uint64_t> group_cpu_us() const { return link_.cgroup.read_cpu_us(); }
  [[nodiscard]] std::uint64_t cpu_before_cell_us() const { return link_.cpu_before_us + cell_cpu_before_us_; }
  CgroupHandle take_handle();               // nobody stands back in it
  net::awaitable<bool> wait_until_ready();  // false: it never was
  // There is no place for it: whoever waits hears so.
  StartFailure refuse(StartFailure why) {
    failure_ = why;
    ready_.set();
    return why;
  }
  // About the state of an idle shell, as JSON in the runner's words. A question that takes too long is interrupted, and
  // ends the interpreter if that does not help.
  net::awaitable<Result<std::string>> ask(wire::Ask question);

 private:
  void on_started(const StartedReply& reply, std::vector<UniqueFd> fds) override;
  void on_failed(const FailedReply& reply) override;
  void on_exited(const ExitedReply& reply) override;
  void on_usage(const UsageNumbers& usage) override;
  void on_limited() override { limited_.set(); }
  void on_keeper_lost() override;
  void on_keeper_stuck(bool stuck) override;

  net::awaitable<void> live();
  void close_up();
  net::awaitable<wire::Record> report();
  void fail_for_want(const std::exception& error);
  net::awaitable<void> start();
  net::awaitable<void> claim(SandboxLink link);
  [[nodiscard]] StartRequest start_request() const;
  void begin();
  void walls_are_up();
  void end(Ended reason);
  void fail_early();
  void arm_wall_limit(std::chrono::milliseconds after);
  void wall_limit_reached();
  void begin_turn(bool waited);
  void tell_place();
  void arm_patience();
  void lose_patience();
  std::string task();
  void task_is_out();
  net::awaitable<void> send_files();
  net::awaitable<void> hash_elsewhere(std::function<bool()> add);
  void send_cell(CellTask task);
  [[nodiscard]] Limits limits_of_cell(const CellTask& task) const;
  wire::Record make_cell_record(const wire::CellDone& done);
  [[nodiscard]] std::uint64_t cell_cpu_us() const;
  void cell_over();
  void send(std::string frame);
  net::awaitable<void> send_rest();
  net::awaitable<void> feed_input();
  net::awaitable<void> give_rest();
  void drop_input();
  net::awaitable<void> read_stream(net::posix::stream_descriptor& from, wire::Stream stream);
  void drain_streams();
  bool read_available(net::posix::stream_descriptor& from, wire::Stream stream);
  net::awaitable<void> read_control();
  bool handle_frame(const wire::Frame& frame);
  bool handle_setup_failed(const wire::Frame& frame);
  bool handle_cell_done(const wire::Frame& frame);
  void end_cell(const wire::CellDone& done);
  net::awaitable<void> end_cell_with_care(wire::CellDone done, bool leaves_others, bool was_refused);
  bool handle_finished(const wire::Frame& frame);
  bool take_display(const wire::Frame& frame);
  bool answer_display(std::uint32_t number, bool refused);
  bool may_answer();
  bool take_tool_call(const wire::Frame& frame);
  enum class Tell : std::uint8_t { client, both };  // the code too, where it still waits
  void end_tool_calls(std::vector<HostCalls::Ended> ended, ToolCallEnd how, Tell whom);
  void tool_calls_changed();
  void mind_wall_clock();
  [[nodiscard]] std::optional<HostCallFailure> failed_call() const;
  [[nodiscard]] bool code_runs() const { return link_.walls_up && (cell_runs_ || !is_shell()); }
  net::awaitable<void> answer_denials();
  net::awaitable<void> watch_usage();
  net::awaitable<void> wait_for_end();
  net::awaitable<void> ask_usage();
  void keep_output(wire::Stream stream, std::string_view data);
  net::awaitable<Collection> collect();
  net::awaitable<void> leave(std::shared_ptr<Run> self);
  void release(KeeperLink::Pace pace = KeeperLink::Pace::at_once);
  [[nodiscard]] bool may_linger() const;
  wire::Record make_record(const Collection& files);
  [[nodiscard]] std::vector<wire::StepTime> step_times() const;
  void add_start(std::vector<wire::StepTime>& steps, std::uint64_t ready_us) const;
  [[nodiscard]] std::vector<wire::Wall> walls() const;
  [[nodiscard]] std::uint64_t us_since(Clock::time_point begin) const;

  net::any_io_executor executor_;
  KeeperLink& keeper_;
  ReadyPool& pool_;
  Workers& workers_;
  RunSpec spec_;
  RunSink& sink_;
  TaskGroup tasks_;
  SandboxLink link_;
  net::posix::stream_descriptor from_client_;  // standard input, on its way in
  net::steady_timer wall_timer_;
  net::steady_timer watch_timer_;
  net::steady_timer patience_timer_;
  net::steady_timer call_timer_;
  Event begun_;        // the keeper has started it, or never will
  Event ready_;        // every wall is up, or it never will be
  Event limited_;      // the limits stand, or never will
  Event ended_event_;  // the runner said that it is finished, or it is gone
  Event exited_;       // the keeper said that nothing of it lives
  Event drained_;      // both streams are at their end
  Event silent_;       // so is what the runner says
  Event usage_heard_;
  Event answered_;  // or nobody will
  int open_streams_ = 2;
  std::deque<CellTask> early_cells_;  // that came before the shell could take them
  std::deque<std::function<void()>> cells_done_;
  std::string outgoing_;  // to the runner
  bool writing_ = false;
  std::string given_input_;  // that the program's pipe has not taken yet
  bool giving_ = false;
  std::string task_;                      // one that was too long for the request
  std::map<std::string, Sha256> inputs_;  // by path: the files that were put in
  Event hashed_;                          // none of them is being hashed elsewhere
  bool task_sent_ = false;
  bool cell_runs_ = false;
  bool cell_ending_ = false;  // it is over, and the keeper is asked about it
  bool cell_is_command_ = false;
  bool cell_takes_input_ = false;
  bool cell_is_whole_ = false;        // nobody will add lines to it
  std::uint64_t wall_serial_ = 0;     // of the time limit that counts
  bool cell_timed_out_ = false;       // and was interrupted
  Limits limits_now_ = spec_.limits;  // of the latest cell
  Place place_ = Place::anywhere;     // as long as processors are spared
  bool came_forward_ = false;         // because the keeper was stuck
  std::pair<std::uint64_t, Place> told_place_{0, Place::anywhere};
  Clock::time_point cell_arrived_;
  Clock::time_point cell_began_;
  std::int64_t cell_began_at_ns_ = 0;
  std::uint64_t cell_cpu_before_us_ = 0;
  std::uint64_t cpu_seen_us_ = 0;  // of its control group
  std::uint64_t cell_output_before_ = 0;
  std::uint64_t oom_kills_before_ = 0;  // by earlier interpreters of the sandbox

  std::optional<StartFailure> failure_;
  std::optional<wire::PythonError> python_;
  std::optional<wire::Changes> changes_;
  std::optional<std::string> answer_;
  bool asking_ = false;
  std::uint32_t unheard_ = 0;
  HostCalls calls_;
  std::optional<Clock::time_point> paused_at_;  // since when the wall clock stands still
  Clock::duration paused_{0};                   // for how long it stood still before
  Clock::duration wall_left_{0};                // when it goes on
  DisplayBudget displays_;
  Denials denials_;
  Ended ended_ = Ended::by_itself;
  bool started_ = false;
  bool claimed_ = false;  // from the pool
  bool said_finished_ = false;
  bool over_ = false;
  bool released_ = false;
  bool left_nothing_ = false;  // in its workspace
  int wait_status_ = 0;
  UsageNumbers usage_;
  std::uint64_t output_bytes_ = 0;
  std::uint64_t kept_bytes_ = 0;
  bool truncated_[2] = {false, false};

  std::int64_t started_at_ns_ = 0;
  Clock::time_point asked_;
  Clock::time_point up_;       // every wall is up
  Clock::time_point running_;  // the user's code began
  Clock::time_point finished_;
  Clock::time_point drained_at_;
};

}  // namespace hutch
