// All that the daemon has going on: runs of their own, sessions, and the ones that have just ended. Every look-up names
// the key that asks: what belongs to another is not there.
#pragma once

#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "session/engine.h"
#include "session/live_run.h"
#include "session/session.h"

namespace hutch {

struct HubOptions {
  RunCaps caps;
  std::filesystem::path sessions_directory;
};

struct OneShot {
  wire::RunRequest request;
  std::vector<wire::PutFile> files;
  std::string input;
  bool keep_files = true;
  ToolOffer tools;
  std::shared_ptr<const void> kept;  // for as long as files and input are in our memory
  std::string request_id;            // that asked for it, for the log
};

class Hub {
 public:
  Hub(Engine& engine, HubOptions options)
      : engine_(engine), options_(std::move(options)), alarm_(engine.executor()), endings_(engine.executor()) {}

  // Checks it, and has it executed; the run ends whether or not anybody waits.
  Result<std::shared_ptr<LiveRun>> run_once(OneShot what, const std::string& key_id);
  Result<std::shared_ptr<LiveRun>> run_in(Session& session, CellTask task);
  // A run that is over already, for readers of its events.
  [[nodiscard]] std::shared_ptr<LiveRun> find_run(std::string_view id, std::string_view key_id) const;

  template <class Visit>
  void for_each_run(Visit visit) {
    for (const auto& [id, run] : runs_) visit(*run);
  }

  template <class Visit>
  void for_each_session(Visit visit) {
    for (const auto& [id, session] : sessions_) visit(*session);
  }

  std::shared_ptr<Session> add_session(SessionSettings settings);  // not yet open
  [[nodiscard]] std::shared_ptr<Session> find_session(std::string_view id, std::string_view key_id) const;
  [[nodiscard]] std::vector<std::shared_ptr<Session>> sessions_of(std::string_view key_id) const;
  net::awaitable<void> end_session(std::shared_ptr<Session> session, std::string reason);
  void remove_orphans() const;  // saved files of no session, as a daemon that was killed leaves them
  [[nodiscard]] std::size_t session_count() const { return sessions_.size(); }
  [[nodiscard]] std::uint32_t running(std::string_view key_id) const;  // runs that have not ended
  [[nodiscard]] std::filesystem::path saved_files_of(const std::string& session_id) const {
    return options_.sessions_directory / (session_id + ".tar");
  }

  net::awaitable<void> tend();  // ends what has expired, for ever
  // Lets what runs come to its end for a while, then ends it; files that are to be kept are saved.
  net::awaitable<void> shut_down(std::chrono::milliseconds grace);
  net::awaitable<void> close(std::shared_ptr<Session> session);

  Engine& engine() { return engine_; }
  [[nodiscard]] const RunCaps& caps() const { return options_.caps; }
  std::function<void(LiveRun&)> on_run_finished;
  std::function<void(Session&)> on_session_changed;
  std::function<void(Session&, std::uint64_t cpu_us)> on_cpu_used;  // by a session, beside its runs
  std::function<void(Session&, std::string_view reason)> on_session_ended;

 private:
  [[nodiscard]] RunCaps caps_for(const wire::RunLimits& limits) const;
  void enlist(const std::shared_ptr<LiveRun>& run);
  void forget_finished();
  void charge_some();
  static net::awaitable<void> end_for_good(std::shared_ptr<Session> session, std::string reason,
                                           std::shared_ptr<Event> over);

  Engine& engine_;
  HubOptions options_;
  net::steady_timer alarm_;
  TaskGroup endings_;  // of sessions: those who asked for them may be gone before
  std::map<std::string, std::shared_ptr<LiveRun>, std::less<>> runs_;
  struct Finished {
    Clock::time_point at;
    std::string id;
    std::size_t bytes = 0;
  };
  std::deque<Finished> finished_;  // still in runs_, for a while
  std::size_t finished_bytes_ = 0;
  std::map<std::string, std::uint32_t, std::less<>> running_;  // by key
  std::map<std::string, std::shared_ptr<Session>, std::less<>> sessions_;
  std::string last_charged_;
  bool stopping_ = false;
};

}  // namespace hutch
