#include "base/subprocess.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <optional>

#include "base/unique_fd.h"

namespace hutch {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kErrorTail = 2000;  // bytes of a failed program's output that go into the message
constexpr std::size_t kLongestLine = 4096;

// One pipe of the child: what is kept, and the line that is not finished yet.
struct Stream {
  UniqueFd reader;
  std::string kept;
  std::string line;
};

struct Pipe {
  UniqueFd reader;
  UniqueFd writer;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return system_error(errno).during("pipe");
  return Pipe{UniqueFd{ends[0]}, UniqueFd{ends[1]}};
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> list;
  list.reserve(texts.size() + 1);
  for (const auto& text : texts) list.push_back(const_cast<char*>(text.c_str()));  // execve does not write
  list.push_back(nullptr);
  return list;
}

// posix_spawn's two option objects, destroyed on every way out.
struct SpawnOptions {
  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;

  SpawnOptions() {
    posix_spawn_file_actions_init(&actions);
    posix_spawnattr_init(&attributes);
  }
  SpawnOptions(const SpawnOptions&) = delete;
  SpawnOptions& operator=(const SpawnOptions&) = delete;
  ~SpawnOptions() {
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
  }
};

Result<pid_t> spawn(const Command& command, int output, int errors) {
  SpawnOptions options;
  auto* actions = &options.actions;
  int failed = posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  // dup2 of a number onto itself would keep close-on-exec; pipes never get 1 or 2 unless those were closed.
  if (failed == 0) failed = posix_spawn_file_actions_adddup2(actions, output, STDOUT_FILENO);
  if (failed == 0) failed = posix_spawn_file_actions_adddup2(actions, errors, STDERR_FILENO);
  if (failed == 0) failed = posix_spawn_file_actions_addclosefrom_np(actions, STDERR_FILENO + 1);
  if (failed == 0 && !command.directory.empty()) {
    failed = posix_spawn_file_actions_addchdir_np(actions, command.directory.c_str());
  }
  // The daemon blocks and ignores signals that the program must see.
  sigset_t none;
  sigset_t all;
  sigemptyset(&none);
  sigfillset(&all);
  if (failed == 0) failed = posix_spawnattr_setsigmask(&options.attributes, &none);
  if (failed == 0) failed = posix_spawnattr_setsigdefault(&options.attributes, &all);
  if (failed == 0) {
    failed = posix_spawnattr_setflags(&options.attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  }
  pid_t pid = -1;
  if (failed == 0) {
    failed = posix_spawn(&pid, command.argv[0].c_str(), actions, &options.attributes, pointers(command.argv).data(),
                         pointers(command.environment).data());
  }
  if (failed != 0) return system_error(failed).during("start " + command.argv[0]);
  return pid;
}

void take(const Command& command, Stream& stream, std::string_view bytes) {
  stream.kept += bytes;
  // Trimmed at twice the cap, so that a flood is not moved in memory for every read.
  if (stream.kept.size() > 2 * command.capture.count) stream.kept.erase(0, stream.kept.size() - command.capture.count);
  if (!command.on_line) return;
  for (const char c : bytes) {
    if (c == '\n' || c == '\r') {
      if (!stream.line.empty()) command.on_line(stream.line);
      stream.line.clear();
    } else if (stream.line.size() < kLongestLine) {
      stream.line += c;
    }
  }
}

void finish(const Command& command, Stream& stream) {
  if (command.on_line && !stream.line.empty()) command.on_line(stream.line);
  if (stream.kept.size() > command.capture.count) stream.kept.erase(0, stream.kept.size() - command.capture.count);
}

// Reads what is there, at most a full pipe: a program that writes without end must not keep us from the clock. The
// reader does not block; the end of the stream closes it.
void drain(const Command& command, Stream& stream) {
  std::array<char, 16384> buffer;
  for (int reads = 0; stream.reader && reads < 64; ++reads) {
    const auto count = ::read(stream.reader.get(), buffer.data(), buffer.size());
    if (count > 0) {
      take(command, stream, {buffer.data(), static_cast<std::size_t>(count)});
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      stream.reader.reset();
    } else if (errno == EAGAIN) {
      return;
    }
  }
}

int reap(pid_t pid) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

// Until the program itself has ended: a descendant that keeps the pipes open does not hold us up.
bool ended_in_time(const Command& command, int process, Stream& output, Stream& errors) {
  const auto deadline = Clock::now() + command.timeout;
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    std::array<pollfd, 3> waits{
        {{process, POLLIN, 0}, {output.reader.get(), POLLIN, 0}, {errors.reader.get(), POLLIN, 0}}};
    const int ready = ::poll(waits.data(), waits.size(), static_cast<int>(std::min<long long>(left, 60'000)));
    if (ready <= 0) continue;  // interrupted, or time to look at the clock
    drain(command, output);
    drain(command, errors);
    if (waits[0].revents != 0) return true;  // what it wrote before it ended was drained after we saw the end
  }
}

std::string tail(std::string_view text) {
  while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.remove_suffix(1);
  if (text.size() > kErrorTail) text.remove_prefix(text.size() - kErrorTail);
  return std::string(text);
}

}  // namespace

Result<Completed> run_command(const Command& command) {
  if (command.argv.empty() || !command.argv[0].starts_with('/')) {
    return make_error(ErrorCode::internal, "a command needs an absolute path");
  }
  HUTCH_TRY(auto output_pipe, make_pipe());
  HUTCH_TRY(auto errors_pipe, make_pipe());
  for (const int fd : {output_pipe.reader.get(), errors_pipe.reader.get()}) {
    if (::fcntl(fd, F_SETFL, O_NONBLOCK) != 0) return system_error(errno).during("fcntl");
  }
  HUTCH_TRY(const auto pid, spawn(command, output_pipe.writer.get(), errors_pipe.writer.get()));
  output_pipe.writer.reset();
  errors_pipe.writer.reset();
  // glibc 2.36 declares pidfd_open without extern "C", hence the raw call.
  const UniqueFd process{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
  const int pidfd_errno = errno;
  Stream output{.reader = std::move(output_pipe.reader), .kept = {}, .line = {}};
  Stream errors{.reader = std::move(errors_pipe.reader), .kept = {}, .line = {}};
  const bool in_time = process && ended_in_time(command, process.get(), output, errors);
  if (!in_time) ::kill(pid, SIGKILL);
  const int exit_code = reap(pid);
  finish(command, output);
  finish(command, errors);
  if (!process) return system_error(pidfd_errno).during("pidfd_open");
  if (!in_time) {
    const auto seconds = std::chrono::duration<double>(command.timeout).count();
    return make_error(ErrorCode::timed_out,
                      command.argv[0] + " did not finish within " + std::to_string(seconds) + " seconds");
  }
  return Completed{.exit_code = exit_code, .output = std::move(output.kept), .errors = std::move(errors.kept)};
}

Result<Completed> run_checked(const Command& command) {
  HUTCH_TRY(auto completed, run_command(command));
  if (completed.exit_code == 0) return completed;
  auto said = tail(completed.errors.empty() ? completed.output : completed.errors);
  return make_error(ErrorCode::system, command.argv[0] + " ended with exit code " +
                                           std::to_string(completed.exit_code) + (said.empty() ? "" : ":\n" + said));
}

std::vector<std::string> current_environment() {
  std::vector<std::string> list;
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) list.emplace_back(*entry);
  return list;
}

}  // namespace hutch
