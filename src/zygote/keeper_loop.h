// The keeper's one loop: requests from the engine, deaths of children, readiness of zygotes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/unique_fd.h"
#include "sandbox/cgroup.h"
#include "sandbox/shell.h"
#include "wire/codec.h"
#include "wire/fd_passing.h"
#include "zygote/keeper.h"
#include "zygote/user_namespace.h"
#include "zygote/zygote_process.h"

namespace hutch {

// What the keeper holds from the host.
struct KeeperTools {
  std::optional<CgroupRoot> cgroups;
  int landlock_abi = 0;
  UniqueFd sysctl_user;
  UniqueFd own_pid_namespace;
  IdAllocator ids;
};

template <class T>
void send_packet(int socket, KeeperReplyKind kind, const T& message, std::span<const int> fds) {
  std::string packet(1, static_cast<char>(kind));
  packet += wire::encode(message);
  wire::send_with_fds(socket, packet, fds);
}

class KeeperLoop {
 public:
  KeeperLoop(const KeeperOptions& options, KeeperTools tools, UniqueFd engine);
  void run();  // until the engine hangs up

 private:
  struct Prepared {  // a template in use
    UniqueFd mounts;
    std::optional<ZygoteProcess> zygote;
    std::optional<ZygoteProcess> next_zygote;  // takes over when it is ready
    std::uint32_t zygote_failures = 0;         // in a row
    std::optional<std::uint64_t> parked;       // number of the sandbox whose runner waits for a task
    std::vector<Shell> spare;
    std::optional<ShellBirth> next_spare;  // being made
    std::uint32_t spare_failures = 0;      // in a row; a start that works resets it
  };
  struct Streams {  // one end of each
    UniqueFd input, output, error, control;
  };
  struct Sandbox {
    Shell shell;
    std::uint64_t image = 0;  // memory it shares with its zygote
    pid_t runner = -1;
    Streams engine_ends;           // until the engine has them
    std::uint64_t cpu_before = 0;  // microseconds used before the program's own
    std::uint64_t fork_ns = 0;
    bool parked = false;
    bool runner_gone = false;
    bool init_gone = false;
    bool released = false;
  };

  bool serve_once();  // false when the engine has hung up
  bool receive_request();
  void handle_start(const StartRequest& request);
  void begin(const StartRequest& request);
  [[nodiscard]] bool can_claim(const StartRequest& request) const;
  Result<void> claim(const StartRequest& request);
  void park(std::uint32_t index);
  Result<Sandbox> launch(const StartRequest& request, Shell shell, Step& failed);
  void tell_started(const StartRequest& request, Sandbox& sandbox, bool shell_was_ready, bool runner_was_ready);
  static Result<void> make_streams(Streams& runner, Streams& engine);
  Result<void> prepare_template(Prepared& prepared, const Template& source, const StartRequest& request);
  Result<ShellBirth> begin_shell(std::uint32_t index, const Limits& limits, bool with_cgroup, Step fault, Step& failed);
  Result<Shell> take_shell(const StartRequest& request, bool& was_ready, Step& failed);
  Result<ForkReply> start_warm(const StartRequest& request, Shell& shell, const Streams& streams);
  Result<ForkReply> start_cold(const StartRequest& request, Shell& shell, const Streams& streams);
  void handle_signal(const SignalRequest& request);
  void handle_release(std::uint64_t run);
  void zygote_readable(std::uint32_t index);
  void recycle_zygote(std::uint32_t index);
  void next_zygote_readable(std::uint32_t index);
  void birth_readable(std::uint32_t index);
  [[nodiscard]] bool anybody_running() const;
  void reap();
  void runner_ended(std::uint64_t run, Sandbox& sandbox, int wait_status, std::uint64_t rusage_cpu_us,
                    std::uint64_t rusage_peak);
  void finish_released();
  void take_everything_apart();
  void refill();
  void fail(const StartRequest& request, Step step, const Error& error);
  void retire(Shell shell);  // kill and take apart a shell in which nobody ran
  UsageNumbers usage_of(Sandbox& sandbox) const;
  [[nodiscard]] ProcessLimits process_limits(const StartRequest& request) const;

  const KeeperOptions& options_;
  KeeperTools tools_;
  UniqueFd engine_;
  UniqueFd signals_;
  std::uint64_t next_group_ = 1;
  std::vector<Prepared> prepared_;              // one per template
  std::map<std::uint64_t, Sandbox> sandboxes_;  // by the engine's number
  std::uint64_t next_retired_ = 1ULL << 63;     // numbers for sandboxes the engine never knew
  std::vector<StartRequest> waiting_;           // for their zygote
};

}  // namespace hutch
