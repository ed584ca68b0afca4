// The client's end of an engine: finds the user's background engine and starts it when there is none, or starts a
// private one in the foreground. Blocking; one run at a time.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "api/engine_server.h"
#include "base/result.h"
#include "base/unique_fd.h"
#include "wire/engine_messages.h"
#include "wire/frame.h"

namespace hutch {

// Where the user's engine listens: $HUTCH_RUNTIME_DIR, $XDG_RUNTIME_DIR/hutch or /tmp/hutch-UID, mode 0700.
struct EngineLocation {
  std::filesystem::path directory;
  std::string settings;  // an engine with other settings is replaced; empty: any will do
  [[nodiscard]] std::filesystem::path socket() const { return directory / "engine.sock"; }
  [[nodiscard]] std::filesystem::path log() const { return directory / "engine.log"; }
  [[nodiscard]] std::filesystem::path lock() const { return directory / "engine.lock"; }
  // Makes the directory; refuses one that is not ours alone.
  static Result<EngineLocation> find();
};

// Identity of the running binary: another build has another one.
std::string binary_identity();

struct ClientRun {
  wire::RunRequest request;
  std::vector<wire::PutFile> files;
  int input = -1;  // what to feed to the program's standard input; -1: nothing
};

// What happens during a run, in order.
class ClientEvents {
 public:
  virtual ~ClientEvents() = default;
  virtual void on_output(const wire::OutputEvent& event) = 0;
  virtual void on_file(const wire::FileEntry& file, UniqueFd content) = 0;
  // Shell mode: how a cell ended.
  virtual void on_cell_done(const wire::CellReport& report) { (void)report; }
  // Shell mode: the next cell, or nothing to end. Called when the shell is ready for one.
  virtual std::optional<wire::CellRequest> next_cell(std::optional<wire::CellStatus> last) {
    (void)last;
    return std::nullopt;
  }
};

using Outcome = std::variant<wire::Record, wire::Failed>;

// A private engine's process, waited for when its client has hung up.
class PrivateEngine {
 public:
  PrivateEngine(pid_t pid, int socket) : pid_(pid), socket_(socket) {}
  PrivateEngine(const PrivateEngine&) = delete;
  PrivateEngine& operator=(const PrivateEngine&) = delete;
  ~PrivateEngine();  // hangs up, and waits until everything that the engine made is gone

 private:
  pid_t pid_;
  int socket_;
};

class EngineClient {
 public:
  static Result<EngineClient> connect_or_start(const EngineLocation& location);
  // Only an engine that is already there; not_found otherwise.
  static Result<EngineClient> connect(const EngineLocation& location);
  // A child that serves this client alone and ends with it. `template_name` is the only one it knows. Must be called
  // before the process has a second thread.
  static Result<EngineClient> start_private(const EngineSettings& settings, const std::string& template_name);

  Result<Outcome> run(ClientRun run, ClientEvents& events);
  Result<wire::EngineStatus> status();
  Result<std::uint64_t> measure_fork(const std::string& template_name);  // nanoseconds
  enum class StopWait {
    socket,   // until another engine can take its place; it may still be finishing runs
    process,  // until it is gone with everything it made
  };
  Result<void> stop(StopWait wait);

  // Set from a signal handler: the run in progress is interrupted (shell) or cancelled.
  std::atomic<bool>* interrupted = nullptr;

 private:
  EngineClient() : frames_(wire::kMaxEngineFrame) {}
  Result<void> send(std::string_view bytes, int fd = -1);
  Result<wire::Frame> receive();
  Result<bool> greet(const std::string& settings);  // false: the engine is outdated

  UniqueFd socket_;
  std::unique_ptr<PrivateEngine> child_;  // uses the socket to the end
  wire::FrameBuffer frames_;
  std::vector<UniqueFd> attached_;
};

// Runs code and keeps everything: for tests, doctor and benchmarks.
struct Collected : ClientEvents {
  std::string out;
  std::string err;
  std::vector<wire::OutputEvent> events;
  std::vector<wire::FileEntry> files;
  void on_output(const wire::OutputEvent& event) override;
  void on_file(const wire::FileEntry& file, UniqueFd content) override;
};

// A request with the default limits.
wire::RunRequest default_request(std::string template_name, std::string code);

}  // namespace hutch
