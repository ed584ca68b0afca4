// The keeper's one loop: requests from the engine, deaths of children, readiness of zygotes.
#pragma once

#include <sys/resource.h>

#include <deque>
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
#include "zygote/moves.h"
#include "zygote/processors.h"
#include "zygote/sysctl_user.h"
#include "zygote/template_root.h"
#include "zygote/user_namespace.h"
#include "zygote/zygote_process.h"

namespace hutch {

// What the keeper holds from the host.
struct KeeperTools {
  std::optional<CgroupRoot> cgroups;
  int landlock_abi = 0;
  SysctlUser sysctl_user;
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
  void prepare();

  struct Prepared {                 // a template in use
    std::optional<RootBirth> root;  // being built
    UniqueFd mounts;
    std::optional<ZygoteProcess> zygote;
    std::optional<ZygoteProcess> next_zygote;  // takes over when it is ready
    std::uint32_t zygote_failures = 0;         // in a row
    std::vector<Shell> spare;
    std::size_t spare_wanted = 0;
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
    std::uint32_t processes = 0;        // at most
    ExitedReply last_words;             // of the runner; sent when init is gone too
    std::vector<std::uint64_t> guests;  // runs that joined later
    bool lasting = false;
    bool runner_gone = false;
    bool init_gone = false;
    bool released = false;
    bool being_emptied = false;
    Place place = Place::anywhere;
  };
  struct Guest {  // a runner in the lasting sandbox of another run
    std::uint64_t host = 0;
    pid_t process = -1;
    bool helper = false;
  };

  bool serve_once();  // false when the engine has hung up
  bool receive_request();
  void handle_start(const StartRequest& request);
  void begin(const StartRequest& request);
  Result<Sandbox> launch(const StartRequest& request, Shell shell, bool shell_was_ready, Streams& runner, Step& failed);
  void tell_started(const StartRequest& request, Shell& shell, const Streams& ends, bool shell_was_ready);
  static Result<void> make_streams(Streams& runner, Streams& engine, std::string_view task);
  Result<void> prepare_template(Prepared& prepared, const Template& source, const StartRequest& request);
  Result<ShellBirth> begin_shell(std::uint32_t index, const Limits& limits, bool with_cgroup, Step fault, Step& failed);
  Result<Shell> take_shell(const StartRequest& request, bool& was_ready, Step& failed);
  Result<void> ask_zygote(const StartRequest& request, Shell& shell, const Streams& streams);
  Result<ForkReply> hear_zygote(const StartRequest& request);
  Result<ForkReply> start_cold(const StartRequest& request, Shell& shell, const Streams& streams);
  void begin_guest(const StartRequest& request);
  void tell_gone(const StartRequest& request);
  void guest_ended(std::uint64_t run, int wait_status);
  void kill_program(std::uint64_t run, Sandbox& sandbox);
  void kill_others(std::uint64_t run);
  void begin_to_empty(std::uint64_t run, Sandbox& sandbox, std::uint64_t but_for);
  void go_on_emptying();
  void look_at_emptying(std::uint64_t now);
  bool is_empty(Sandbox& sandbox, std::uint64_t but_for);
  [[nodiscard]] std::vector<pid_t> own_processes(const Sandbox& sandbox) const;
  void handle_settle(const SettleRequest& request);
  void handle_signal(const SignalRequest& request);
  void handle_usage(const UsageRequest& request);
  void handle_limit(const LimitRequest& request);
  void handle_spare(const SpareRequest& request);
  void handle_place(const PlaceRequest& request);
  void move(std::uint64_t run, Sandbox& sandbox, Place place);
  void move_some();
  void handle_release(const ReleaseRequest& request);
  static bool put_to_sleep(Sandbox& sandbox);
  void let_go(std::uint64_t run);
  void let_go_of_sleepers(std::size_t how_many);
  void zygote_readable(std::uint32_t index);
  void recycle_zygote(std::uint32_t index);
  void next_zygote_readable(std::uint32_t index);
  void birth_readable(std::uint32_t index);
  void await_zygote(std::uint32_t index);
  Sandbox& keep(std::uint64_t run, Sandbox sandbox);
  void reap();
  void process_ended(pid_t pid, std::uint64_t run, Sandbox& sandbox, int wait_status, const rusage& used);
  void finish_released();
  void close_entrances();
  void take_everything_apart();
  void refill(std::uint32_t index, std::size_t wanted);
  void fail(const StartRequest& request, Step step, const Error& error);
  void retire(Shell shell);  // kill and take apart a shell in which nobody ran
  static UsageNumbers usage_of(Sandbox& sandbox);
  Place place_of(const StartRequest& request, Shell& shell) const;
  void place_zygote(const StartRequest& request, Place place) const;
  [[nodiscard]] ProcessLimits process_limits(const StartRequest& request) const;

  const KeeperOptions& options_;
  KeeperTools tools_;
  UniqueFd engine_;
  UniqueFd signals_;
  Processors processors_;
  Moves moves_;  // of sandboxes, to other processors
  std::uint64_t next_group_ = 1;
  std::vector<Prepared> prepared_;              // one per template
  std::map<std::uint64_t, Sandbox> sandboxes_;  // by the engine's number
  std::map<std::uint64_t, Guest> guests_;       // by the engine's number
  std::map<pid_t, std::uint64_t> by_process_;   // init, runner and guests of each, until reaped
  std::vector<std::uint64_t> dying_;            // released, and not yet gone
  struct Sleeper {
    std::uint64_t run = 0;
    std::uint64_t until_ns = 0;  // at most
  };
  std::uint64_t slept_in_vain_ns_ = 0;                          // when somebody still waited for us at the end of it
  std::deque<Sleeper> asleep_;                                  // to be released when nobody waits for us
  static constexpr std::uint64_t kFirstOwnNumber = 1ULL << 63;  // of sandboxes the engine never knew
  std::uint64_t next_own_number_ = kFirstOwnNumber;
  std::uint64_t last_start_ns_ = 0;      // of a run that somebody waits for
  std::vector<std::uint64_t> to_close_;  // whose entrances nobody needs any more
  std::vector<StartRequest> waiting_;    // for their zygote
  struct Emptying {
    std::uint64_t run = 0;      // of the sandbox
    std::uint64_t but_for = 0;  // the run whose runner stays, and is told; 0: none does
  };
  std::vector<Emptying> emptying_;        // sandboxes in which a program's processes are dying
  std::uint64_t looked_ns_ = 0;           // at those
  std::vector<StartRequest> for_guests_;  // waiting for one of those
  bool guests_may_begin_ = false;         // one of those is empty
};

}  // namespace hutch
