// A run that the daemon knows of, from the moment it is accepted until its result is stored: what was asked, what has
// come out of it so far, and how it ended. Output beyond the cap goes to a file on disk, so that neither a flood nor a
// slow reader takes memory.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/units.h"
#include "session/event_stream.h"
#include "session/run.h"

namespace hutch {

struct RunCaps {
  Bytes of_stream = 256_KiB;        // kept in the result, of stdout and of stderr
  Bytes log = 1_GiB;                // on disk, of each
  std::size_t events = 10'000;      // pieces of output told one by one
  std::filesystem::path directory;  // where logs and files of runs are
};

enum class RunStage : std::uint8_t { queued, running, finished };

struct RunIdentity {
  std::string id;          // exe_...
  std::string key_id;      // whose it is
  std::string session_id;  // empty: a run of its own
  std::string template_name;
  std::string request_id;  // that asked for it, for the log; empty: no HTTP
};

class LiveRun final : public std::enable_shared_from_this<LiveRun> {
 public:
  LiveRun(net::any_io_executor executor, RunIdentity identity, RunCaps caps);
  LiveRun(const LiveRun&) = delete;
  LiveRun& operator=(const LiveRun&) = delete;

  // In this order. `also` is told the same events: the session's stream.
  void queue(EventStream* also);
  void start();
  void add_output(const wire::OutputEvent& event);
  void add_file(wire::FileEntry file);
  void want_input();
  void add_tool_call(std::shared_ptr<const PendingToolCall> call);
  void end_tool_call(std::string_view call_id, ToolCallEnd how);
  void finish(wire::Record record);
  void fail(StartFailure failure);  // no result: our own fault, or no room

  [[nodiscard]] const RunIdentity& identity() const { return identity_; }
  [[nodiscard]] RunStage stage() const { return stage_; }
  [[nodiscard]] const std::optional<wire::Record>& record() const { return record_; }
  [[nodiscard]] const std::optional<StartFailure>& failure() const { return failure_; }
  [[nodiscard]] const std::vector<wire::OutputEvent>& output() const { return output_; }
  [[nodiscard]] const std::vector<wire::FileEntry>& files() const { return files_; }
  [[nodiscard]] EventStream& events() { return events_; }
  [[nodiscard]] std::uint64_t written(wire::Stream stream) const { return of(stream).written; }
  [[nodiscard]] bool truncated(wire::Stream stream) const { return of(stream).spilled; }
  [[nodiscard]] std::filesystem::path log_path(wire::Stream stream) const;
  [[nodiscard]] std::filesystem::path files_path() const;
  [[nodiscard]] std::size_t weight() const;  // bytes of memory, roughly
  net::awaitable<bool> wait_finished(Clock::time_point deadline);

  // Calls of the code to tools of its client, oldest first, until they are answered, late or cancelled.
  [[nodiscard]] const std::vector<std::shared_ptr<const PendingToolCall>>& pending_tool_calls() const {
    return tool_calls_;
  }
  // `text` is what the code gets, or what its exception says. An error when that call is not pending (any more).
  Result<void> answer_tool_call(const std::string& call_id, bool ok, std::string text);
  // Until the run is finished or a call is pending; false when the deadline came first.
  net::awaitable<bool> wait_finished_or_called(Clock::time_point deadline);

  std::int64_t created_ns = 0, started_ns = 0, finished_ns = 0;
  std::uint32_t execution_count = 0;
  std::string source;  // what was asked to run, in a session
  bool is_command = false;
  bool cancel_asked = false;
  bool cached = false;
  std::int64_t cached_ns = 0;
  std::uint64_t last_event = 0;  // the number of the one that tells of the end; 0 while that is not known
  std::string session_state;     // what became of the session: kept, files_kept, lost
  std::int64_t session_expires_ns = 0;
  std::string rendered;  // the finished run as JSON, made once by whoever stores it
  std::string rendered_events;
  bool stored = false;  // somebody who comes after us would find it
  std::function<void()> cancel;
  std::function<Result<void>(const std::string& call_id, bool ok, std::string text)> give_tool_result;
  std::function<void(LiveRun&)> on_stored;    // called when it is
  std::function<void(LiveRun&)> on_finished;  // stores the result; called before anybody hears of the end

 private:
  struct Stream {
    std::uint64_t written = 0;
    std::uint64_t kept = 0;
    std::uint64_t logged = 0;
    std::string carried;  // the beginning of a character
    bool spilled = false;
    UniqueFd log;
  };

  [[nodiscard]] const Stream& of(wire::Stream stream) const { return streams_[static_cast<std::size_t>(stream)]; }
  void tell(StreamEvent event);
  void add_display(const wire::OutputEvent& event);
  void tell_output(wire::Stream stream, std::string_view bytes);
  void spill(wire::Stream stream, std::string_view bytes);
  void end();
  void tell_once(std::function<void(LiveRun&)>& whom);

  RunIdentity identity_;
  RunCaps caps_;
  EventStream events_;
  EventStream* also_ = nullptr;
  RunStage stage_ = RunStage::queued;
  Stream streams_[2];
  std::size_t told_ = 0;
  std::size_t display_bytes_ = 0;
  std::size_t call_bytes_ = 0;
  std::vector<wire::OutputEvent> output_;
  std::vector<wire::FileEntry> files_;
  std::vector<std::shared_ptr<const PendingToolCall>> tool_calls_;
  std::optional<wire::Record> record_;
  std::optional<StartFailure> failure_;
};

std::int64_t system_now_ns();

}  // namespace hutch
