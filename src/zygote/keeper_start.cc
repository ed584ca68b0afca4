// How the keeper starts a run: claim or make a shell, then fork into it, warm or cold.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <iterator>
#include <utility>

#include "sandbox/kernel.h"
#include "zygote/cold_start.h"
#include "zygote/keeper_loop.h"
#include "zygote/template_root.h"

namespace hutch {
namespace {

constexpr std::uint32_t kMostZygoteFailures = 3;
constexpr int kBirthMs = 1'000;                              // between two words of init
constexpr std::uint64_t kCpuBackstop = 24 * 3600;            // seconds; the engine reads the control group's clock
constexpr std::uint64_t kWeakerAddressSlack = 512ULL << 20;  // what the interpreter maps before it runs anything

// namespaces, rules, streams, control group: the order of ForkRequest.
std::vector<int> descriptors_for(Shell& shell, std::initializer_list<int> streams) {
  const ShellDescriptors of = shell.descriptors();
  std::vector<int> fds = {of.net, of.ipc, of.uts, of.cgroup, of.mount, of.user, of.pid, of.landlock};
  fds.insert(fds.end(), streams);
  if (shell.cgroup()) {
    for (const auto& file : shell.cgroup()->attach_fds()) fds.push_back(file.get());
  }
  return fds;
}

}  // namespace

// A start that needs a zygote waits for it; everything else begins at once.
void KeeperLoop::handle_start(const StartRequest& request) {
  auto& prepared = prepared_[request.template_index];
  const auto& source = options_.templates[request.template_index];
  if (auto ready = prepare_template(prepared, source, request); !ready) {
    const bool has_root = prepared.mounts && request.fault != Step::template_root;
    return fail(request, has_root ? Step::zygote : Step::template_root, ready.error());
  }
  if (request.warm && !prepared.zygote->ready()) {
    waiting_.push_back(request);
    return;
  }
  begin(request);
}

Result<void> KeeperLoop::prepare_template(Prepared& prepared, const Template& source, const StartRequest& request) {
  if (request.fault == Step::template_root) return system_error(EIO).during("build the root");
  if (!prepared.mounts) {
    if (!prepared.root) {
      HUTCH_TRY(prepared.root, RootBirth::begin(source));
    }
    auto root = std::exchange(prepared.root, std::nullopt);
    HUTCH_TRY(prepared.mounts, root->finish());
  }
  if (!request.warm || (prepared.zygote && request.fault != Step::zygote)) return {};
  if (prepared.zygote_failures >= kMostZygoteFailures) {
    return make_error(ErrorCode::internal, "the warm interpreter of template " + source.name + " keeps dying")
        .with_hint("see the engine's log, or use --no-engine to start without one");
  }
  HUTCH_TRY(prepared.zygote,
            ZygoteProcess::start(source, prepared.mounts.get(), tools_.own_pid_namespace.get(), request.fault));
  return {};
}

void KeeperLoop::begin(const StartRequest& request) {
  if (request.into != 0) return begin_guest(request);
  bool was_ready = false;
  Step failed = Step::none;
  auto shell = take_shell(request, was_ready, failed);
  if (!shell) return fail(request, failed, shell.error());
  Streams runner;  // here until the engine has heard of a failure, or it would hear first that somebody hung up
  auto sandbox = launch(request, std::move(*shell), was_ready, runner, failed);
  if (!sandbox) return fail(request, failed, sandbox.error());
  sandbox->lasting = request.lasting;
  if (!request.in_advance && !request.lasting) to_close_.push_back(request.run);
  keep(request.run, std::move(*sandbox));
  prepared_[request.template_index].spare_failures = 0;
  if (!request.in_advance) last_start_ns_ = kernel::monotonic_ns();
}

// A shell, its limits, and a runner in it. The engine gets its ends while the runner is forked, which takes half of all
// the time that a start takes: then it need not wait for us when the runner has something to say.
Result<KeeperLoop::Sandbox> KeeperLoop::launch(const StartRequest& request, Shell shell, bool shell_was_ready,
                                               Streams& runner, Step& failed) {
  failed = Step::cgroup;
  Result<void> applied;
  if (shell.cgroup()) applied = shell.cgroup()->apply(request.limits.to_limits());
  if (shell.cgroup() && request.lasting) shell.cgroup()->spare_init();
  Streams engine;
  if (applied) applied = make_streams(runner, engine, request.task);
  if (!applied) {
    retire(std::move(shell));
    return std::move(applied).error();
  }
  if (request.stand_back && shell.cgroup()) shell.cgroup()->stand_back();
  failed = Step::join_namespaces;
  const Place place = place_of(request, shell);
  place_zygote(request, place);
  Result<ForkReply> forked;
  if (auto asked = request.warm ? ask_zygote(request, shell, runner) : Result<void>{}; asked) {
    tell_started(request, shell, engine, shell_was_ready);
    forked = request.warm ? hear_zygote(request) : start_cold(request, shell, runner);
  } else {
    forked = std::move(asked).error();
  }
  if (!forked) {
    retire(std::move(shell));
    return std::move(forked).error();
  }
  const std::uint64_t image = request.warm ? prepared_[request.template_index].zygote->image() : 0;
  return Sandbox{.shell = std::move(shell),
                 .image = image,
                 .runner = forked->pid,
                 .processes = request.limits.processes,
                 .place = place};
}

// One that may use several processors at once is not to find only one.
Place KeeperLoop::place_of(const StartRequest& request, Shell& shell) const {
  if (!processors_.some_are_spared() || !shell.cgroup()) return Place::anywhere;
  if (request.stand_back) return Place::others;
  return request.limits.cpu_percent > 100 ? Place::anywhere : Place::spared;
}

// Whoever is forked is where its zygote is.
void KeeperLoop::place_zygote(const StartRequest& request, Place place) const {
  const auto& zygote = prepared_[request.template_index].zygote;
  if (processors_.some_are_spared() && request.warm && zygote) processors_.give(zygote->pid(), place);
}

// For the keeper and whoever begins from now on. When none are spared any more, all who were somewhere are anywhere.
void KeeperLoop::handle_spare(const SpareRequest& request) {
  processors_.spare_some(request.processors);
  const Place ours = processors_.some_are_spared() ? Place::others : Place::anywhere;
  processors_.give(0, ours);
  for (const auto& prepared : prepared_) {
    if (prepared.zygote) processors_.give(prepared.zygote->pid(), ours);
    if (prepared.next_zygote) processors_.give(prepared.next_zygote->pid(), ours);
  }
  if (processors_.some_are_spared()) return;
  for (auto& [run, sandbox] : sandboxes_) move(run, sandbox, Place::anywhere);
}

void KeeperLoop::handle_place(const PlaceRequest& request) {
  const auto guest = guests_.find(request.run);
  const auto found = sandboxes_.find(guest != guests_.end() ? guest->second.host : request.run);
  if (found != sandboxes_.end() && processors_.some_are_spared()) move(found->first, found->second, request.place);
}

// Done by move_some(), of which every turn of the loop does a little.
void KeeperLoop::move(std::uint64_t run, Sandbox& sandbox, Place place) {
  if (std::exchange(sandbox.place, place) != place && sandbox.shell.cgroup()) moves_.add(run);
}

void KeeperLoop::move_some() {
  const auto list = [this](std::uint64_t run) {
    const auto found = sandboxes_.find(run);
    return found == sandboxes_.end() ? std::vector<pid_t>{} : found->second.shell.cgroup()->threads();
  };
  const auto move_one = [this](std::uint64_t run, pid_t thread) {
    if (const auto found = sandboxes_.find(run); found != sandboxes_.end())
      processors_.move(thread, found->second.place);
  };
  moves_.go_on(list, move_one);
}

// The task is there before the runner is: it need not wait until the engine knows of it.
Result<void> KeeperLoop::make_streams(Streams& runner, Streams& engine, std::string_view task) {
  const auto pipe = [](UniqueFd& reader, UniqueFd& writer) {
    int fds[2];
    if (::pipe2(fds, O_CLOEXEC) != 0) return false;
    reader.reset(fds[0]);
    writer.reset(fds[1]);
    return true;
  };
  int sockets[2];
  if (!pipe(runner.input, engine.input) || !pipe(engine.output, runner.output) || !pipe(engine.error, runner.error) ||
      ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) {
    return system_error(errno).during("make pipes");
  }
  engine.control.reset(sockets[0]);
  runner.control.reset(sockets[1]);
  if (!task.empty() &&
      ::send(sockets[0], task.data(), task.size(), MSG_DONTWAIT) != static_cast<ssize_t>(task.size())) {
    return system_error(errno).during("hand over the task");
  }
  return {};
}

void KeeperLoop::tell_started(const StartRequest& request, Shell& shell, const Streams& ends, bool shell_was_ready) {
  StartedReply reply{.run = request.run, .shell_was_ready = shell_was_ready};
  for (std::size_t step = 0; step < kStepCount; ++step) {
    const std::uint64_t ns = shell.steps().duration_ns[step];
    if (ns != 0) reply.shell_steps.push_back({.step = static_cast<Step>(step), .ns = ns});
  }
  std::vector<int> attached = {shell.workspace(), ends.input.get(), ends.output.get(), ends.error.get(),
                               ends.control.get()};
  CgroupHandle handle;
  if (shell.cgroup()) handle = shell.cgroup()->take_handle();
  if (handle.cpu) attached.push_back(handle.cpu.get());
  if (handle) attached.insert(attached.end(), {handle.peak.get(), handle.idle.get()});
  reply.cgroup_is_v1 = handle.version == CgroupVersion::v1;
  reply.stands_back = handle.stands_back;
  reply.threads = handle.threads;
  send_packet(engine_.get(), KeeperReplyKind::started, reply, attached);
}

Result<ShellBirth> KeeperLoop::begin_shell(std::uint32_t index, const Limits& limits, bool with_cgroup, Step fault,
                                           Step& failed) {
  failed = Step::user_namespace;
  HUTCH_TRY(const IdMap ids, tools_.ids.next());
  std::optional<Cgroup> group;
  if (with_cgroup) {
    failed = Step::cgroup;
    if (fault == Step::cgroup) return system_error(EIO).during("create the control group");
    HUTCH_TRY(group, tools_.cgroups->create(next_group_++));
    HUTCH_TRY(group->apply(limits));
  }
  ShellSource source{.template_mounts = prepared_[index].mounts.get(),
                     .sysctl_user = tools_.sysctl_user.directory(),
                     .landlock_abi = tools_.landlock_abi,
                     .cgroup_is_directory = tools_.cgroups && tools_.cgroups->version() == CgroupVersion::v2};
  for (const char* path : {"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/etc", "/opt/hutch"}) {
    source.readable.add(path);
  }
  for (const auto& bind : options_.templates[index].binds) {
    if (!source.readable.add(bind.target.c_str())) return make_error(ErrorCode::limit, "too many mounts in a template");
  }
  return ShellBirth::begin(source, ids, limits, std::move(group), fault, failed);
}

// A spare shell fits when its scratch space has the size that is asked for; every other limit is written at claim.
Result<Shell> KeeperLoop::take_shell(const StartRequest& request, bool& was_ready, Step& failed) {
  const Limits limits = request.limits.to_limits();
  const bool fits = limits.scratch == Limits{}.scratch && limits.inodes == Limits{}.inodes;
  const bool with_cgroup = tools_.cgroups.has_value();
  if (!with_cgroup && !request.weaker_limits) {
    failed = Step::cgroup;
    return make_error(ErrorCode::unsupported, "no control groups to hold the limits");
  }
  auto& prepared = prepared_[request.template_index];
  const bool may_be_spare = fits && request.fault == Step::none;
  if (may_be_spare && prepared.spare.empty() && prepared.next_spare) {
    ShellBirth birth = std::move(*prepared.next_spare);
    prepared.next_spare.reset();
    return birth.finish(failed);
  }
  was_ready = may_be_spare && !prepared.spare.empty();
  if (!was_ready) {
    HUTCH_TRY(auto birth, begin_shell(request.template_index, limits, with_cgroup, request.fault, failed));
    return birth.finish(failed);
  }
  Shell shell = std::move(prepared.spare.back());
  prepared.spare.pop_back();
  return shell;
}

// A fork that the control group refuses has copied a whole address space by then, and taken the locks of all files in
// it, on which everybody else's forks wait. One that the rlimit refuses has cost nothing; so that goes first, where it
// can be told afterwards why.
ProcessLimits KeeperLoop::process_limits(const StartRequest& request) const {
  const auto& limits = request.limits;
  const bool counts_init = !tools_.ids.own_ids();
  const bool goes_first = !tools_.cgroups || tools_.cgroups->knows_most_processes();
  return {.open_files = limits.open_files,
          .processes = limits.processes + (counts_init || !goes_first ? 1 : 0),
          .file_size = limits.scratch,
          .address_space = tools_.cgroups ? 0 : limits.memory + kWeakerAddressSlack,
          .cpu_seconds = tools_.cgroups ? kCpuBackstop : limits.cpu_ms / 1000 + 2};
}

Result<void> KeeperLoop::ask_zygote(const StartRequest& request, Shell& shell, const Streams& streams) {
  auto& prepared = prepared_[request.template_index];
  if (!prepared.zygote) return make_error(ErrorCode::disconnected, "the zygote has just died");
  ForkRequest fork{.limits = process_limits(request),
                   .uid = kRunnerId,
                   .gid = kRunnerId,
                   .groups = shell.ids().groups(),
                   .in_advance = request.in_advance,
                   .fault = request.fault};
  if (shell.cgroup()) {
    fork.cgroup_file_count = static_cast<std::uint8_t>(shell.cgroup()->attach_fds().size());
    fork.cgroup_is_directory = tools_.cgroups->version() == CgroupVersion::v2;
  }
  return prepared.zygote->ask_for_runner(fork, descriptors_for(shell, {streams.input.get(), streams.output.get(),
                                                                       streams.error.get(), streams.control.get()}));
}

Result<ForkReply> KeeperLoop::hear_zygote(const StartRequest& request) {
  auto& prepared = prepared_[request.template_index];
  if (request.others_follow) refill(request.template_index, 1);
  await_zygote(request.template_index);
  auto forked = prepared.zygote->receive_runner();
  if (prepared.zygote->lost()) prepared.zygote.reset();  // the next start makes another
  return forked;
}

// Goes on with the shell that is being made meanwhile.
void KeeperLoop::await_zygote(std::uint32_t index) {
  auto& prepared = prepared_[index];
  while (prepared.next_spare) {
    pollfd waiting[] = {{.fd = prepared.zygote->socket(), .events = POLLIN, .revents = 0},
                        {.fd = prepared.next_spare->socket(), .events = POLLIN, .revents = 0}};
    if (::poll(waiting, std::size(waiting), kBirthMs) <= 0 || waiting[0].revents != 0) return;
    birth_readable(index);
  }
}

Result<ForkReply> KeeperLoop::start_cold(const StartRequest& request, Shell& shell, const Streams& streams) {
  ColdStart start{.source = options_.templates[request.template_index],
                  .shell = shell,
                  .own_pid_namespace = tools_.own_pid_namespace.get(),
                  .limits = process_limits(request),
                  .cgroup_is_directory = tools_.cgroups && tools_.cgroups->version() == CgroupVersion::v2,
                  .fault = request.fault};
  return cold_start(start, {.input = streams.input.get(),
                            .output = streams.output.get(),
                            .error = streams.error.get(),
                            .control = streams.control.get()});
}

}  // namespace hutch
