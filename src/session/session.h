// A session: one sandbox, one interpreter in it, and the runs that wait for it in order. Variables live as long as the
// interpreter, files as long as the sandbox, and saved files as long as the session. When the interpreter dies, the
// next run gets a new one in the same sandbox.
#pragma once

#include <deque>
#include <expected>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "session/engine.h"
#include "session/live_run.h"
#include "session/porter.h"

namespace hutch {

struct SessionSettings {
  std::string id;  // ses_...
  std::string key_id;
  std::string name;
  std::map<std::string, std::string> labels;
  std::string template_name;
  wire::RunMode mode = wire::RunMode::ipython;
  wire::Environment environment;
  wire::RunLimits limits;
  bool weaker_limits = false;
  std::chrono::seconds ttl{3'600};  // after its last use
  std::chrono::seconds max_age{86'400};
  bool persist = false;               // keep the files on disk
  std::filesystem::path saved_files;  // where
};

// stopped: nothing of it runs, its files are on disk. lost: nothing of it is left but its name.
enum class SessionState : std::uint8_t { ready, busy, stopped, lost, ended };

class Session final : public RunSink, public std::enable_shared_from_this<Session> {
 public:
  Session(Engine& engine, SessionSettings settings, Admission::Owner owner);
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  // A sandbox with an interpreter, and the files that were saved.
  net::awaitable<std::expected<void, StartFailure>> open();

  void submit(std::shared_ptr<LiveRun> run, CellTask task);
  bool interrupt();  // false when nothing runs
  // A new interpreter; what was queued is still run. Files stay.
  net::awaitable<std::expected<void, StartFailure>> restart();
  Result<void> give_input(std::string_view text);
  // About variables, completions and the like, while nothing runs.
  net::awaitable<Result<std::string>> ask(wire::Ask question);
  // Nothing of it runs when this returns, whoever else was about to start something.
  net::awaitable<void> end(std::string reason);

  // For as long as it is held. Starts one when all are at work.
  net::awaitable<Result<std::shared_ptr<Porter>>> borrow_porter();
  void give_back(std::shared_ptr<Porter> porter);
  void note_files_changed();  // by the file API
  // Saves the files now, if they are to be kept. When that fails, those of the last time are kept.
  net::awaitable<Result<void>> save();
  [[nodiscard]] bool saved() const { return !unsaved_; }  // nothing would be missing if the daemon died now
  void note_unsaved() { unsaved_ = true; }                // by a daemon before us
  void number_events_anew();                              // what such a daemon has told keeps its numbers

  // Tells on_cpu_used what the sandbox used beside its runs: what they left running, questions, changes of files. Less
  // than `least` stays for the next time.
  void charge(std::chrono::microseconds least);
  void stop_between_runs();              // the interpreter and all else, unless a run is under way or waits
  void refuse_queued(const Error& why);  // what waits for the current run never begins
  void warn_of_expiry();                 // once, until it is used again
  void touch() { last_used_ns = system_now_ns(); }
  // One that is at work is in use all the time.
  [[nodiscard]] std::int64_t in_use_until_ns() const {
    return state() == SessionState::busy ? system_now_ns() : last_used_ns;
  }
  [[nodiscard]] SessionState state() const;
  [[nodiscard]] std::optional<std::uint64_t> peak_memory() const;  // of the sandbox, so far
  [[nodiscard]] bool has_sandbox() const { return sandbox_ != 0; }
  [[nodiscard]] bool opening() const { return opening_ != nullptr; }  // its files may not all be there yet
  [[nodiscard]] bool has_files() const { return has_files_; }
  [[nodiscard]] int workspace() const { return workspace_.get(); }
  [[nodiscard]] UniqueFd share_workspace() const;  // for a worker: the session may end meanwhile
  [[nodiscard]] std::size_t queued() const { return queue_.size(); }
  [[nodiscard]] std::int64_t expires_ns() const;
  [[nodiscard]] const SessionSettings& settings() const { return settings_; }
  SessionSettings& settings() { return settings_; }
  EventStream& events() { return events_; }

  std::int64_t created_ns = system_now_ns();
  std::int64_t last_used_ns = created_ns;
  std::int64_t stored_use_ns = created_ns;  // what the next daemon would take for it
  std::uint32_t execution_count = 0;
  std::function<void(Session&)> on_changed;  // stores what must survive a restart of the daemon
  std::function<void(Session&, std::uint64_t cpu_us)> on_cpu_used;

 private:
  struct Waiting {
    std::shared_ptr<LiveRun> run;
    CellTask task;
  };
  // Whoever waits for it keeps it: the next one may begin before they hear of its end.
  struct Opening {
    explicit Opening(const net::any_io_executor& executor) : over(executor) {}
    Event over;
    std::expected<void, StartFailure> result;  // once it is over
  };

  void on_output(wire::OutputEvent event) override;
  void on_file(CollectedFile file) override;
  void on_cell_done(wire::CellStatus status, wire::Record record) override;
  void on_input_wanted() override;
  void on_tool_call(std::shared_ptr<const PendingToolCall> call) override;
  void on_tool_call_done(const std::string& call_id, ToolCallEnd how) override;

  static Error ended_before();
  net::awaitable<std::expected<void, StartFailure>> open_once();
  net::awaitable<std::expected<void, StartFailure>> start_interpreter();
  void adopt_sandbox(const Run& interpreter);
  net::awaitable<void> stop_interpreter();  // and any other that is started meanwhile
  net::awaitable<void> host(std::shared_ptr<Run> interpreter, std::shared_ptr<Event> gone);
  static net::awaitable<void> work(std::shared_ptr<Session> self);
  static net::awaitable<void> stop_run(std::shared_ptr<Session> self, std::shared_ptr<LiveRun> run);
  net::awaitable<void> run_one(Waiting& one);
  net::awaitable<std::expected<void, StartFailure>> prepare(Waiting& one);
  void tell_of_change();
  void begin(Waiting& one, Run& interpreter);
  net::awaitable<bool> enter(CellTask& task);  // false: it was cancelled before it had a place
  void cancel_run(const std::string& id);
  [[nodiscard]] bool current_cell_is_over() const;
  net::awaitable<void> look_at_files();
  net::awaitable<void> collect(LiveRun& run, wire::Record& record);
  net::awaitable<Result<void>> bring_back_files();
  net::awaitable<Result<void>> restore();
  net::awaitable<Result<void>> pack_into(const std::string& path);
  void tell(std::string state, std::string reason);
  [[nodiscard]] std::string what_is_left(bool sandbox_was_lost) const;
  void lose_sandbox();

  Engine& engine_;
  SessionSettings settings_;
  Admission::Owner owner_;
  EventStream events_;
  std::deque<Waiting> queue_;
  std::shared_ptr<LiveRun> current_;
  Admission::Turn* turn_ = nullptr;  // of the current one, while it waits for a place
  std::shared_ptr<Run> interpreter_;
  std::uint64_t sandbox_ = 0;  // 0: none
  bool has_files_ = false;     // the sandbox, all that were saved; until then nothing is saved over them
  std::uint32_t template_index_ = 0;
  Limits limits_;
  UniqueFd workspace_;
  UniqueFd input_;  // kept open, so that live input has no end
  CgroupHandle cgroup_;
  std::uint64_t told_cpu_us_ = 0;  // of what it counts: in the records of runs, and by charge()
  Census known_files_;
  bool files_touched_ = false;  // by others than the program, since the last look
  bool unsaved_ = false;
  bool saving_ = false;
  bool working_ = false;
  bool lost_ = false;
  std::int64_t warned_ns_ = 0;
  bool ended_ = false;
  Event cell_over_;                          // the current cell is, or its interpreter
  std::shared_ptr<Event> interpreter_gone_;  // of the latest one; whoever waits keeps that one's
  std::shared_ptr<Opening> opening_;         // that is under way
  Event saved_;
  std::optional<wire::Record> cell_record_;
  bool cell_exits_ = false;
  std::optional<std::expected<wire::Record, StartFailure>> last_words_;  // of the interpreter
  std::vector<std::shared_ptr<Porter>> porters_;                         // idle
};

}  // namespace hutch
