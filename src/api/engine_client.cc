#include "api/engine_client.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "base/moving_chunk.h"
#include "base/utf8.h"
#include "sandbox/kernel.h"
#include "sandbox/limits.h"
#include "wire/fd_passing.h"

namespace hutch {
namespace {

namespace fs = std::filesystem;

constexpr auto kStartTime = std::chrono::seconds(20);
constexpr int kStopTimeMs = 330'000;  // the longest run there can be, and some

Result<UniqueFd> connect_to(const fs::path& path) {
  UniqueFd socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (!socket) return system_error(errno);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.native().size() >= sizeof(address.sun_path)) {
    return make_error(ErrorCode::invalid_argument, "the runtime directory's path is too long: " + path.string())
        .with_hint("set HUTCH_RUNTIME_DIR to a shorter one");
  }
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return make_error(ErrorCode::not_found, "no engine is running");
  }
  return socket;
}

// The engine gets a clean environment: what it does not have, no sandbox can find.
std::vector<std::string> engine_environment() {
  std::vector<std::string> kept;
  for (const char* name : {"PATH",
                           "HOME",
                           "USER",
                           "LANG",
                           "TZ",
                           "XDG_RUNTIME_DIR",
                           "XDG_DATA_HOME",
                           "XDG_CONFIG_HOME",
                           "HUTCH_DATA_DIR",
                           "HUTCH_RUNTIME_DIR",
                           "HUTCH_CONFIG",
                           "HUTCH_CGROUP",
                           "HUTCH_ENGINE_MAX_TIMEOUT",
                           "HUTCH_ENGINE_IDLE_EXIT",
                           "HUTCH_ENGINE_MAX_RUNNING",
                           "HUTCH_ENGINE_MAX_WAITING",
                           "HUTCH_ENGINE_MAX_SESSIONS",
                           "HUTCH_ENGINE_POOL_MIN",
                           "HUTCH_ENGINE_POOL_MAX",
                           "ASAN_OPTIONS"}) {
    if (const char* value = std::getenv(name)) kept.push_back(std::string(name) + "=" + value);
  }
  return kept;
}

std::vector<char*> pointers(std::vector<std::string>& strings) {
  std::vector<char*> result;
  for (auto& text : strings) result.push_back(text.data());
  result.push_back(nullptr);
  return result;
}

// Starts this same binary as the background engine.
Result<pid_t> spawn_engine(int log) {
  std::vector<std::string> arguments{"hutch", "engine", "serve"};
  auto environment = engine_environment();
  auto argv = pointers(arguments);
  auto envp = pointers(environment);
  const pid_t child = ::fork();
  if (child < 0) return system_error(errno).during("start the engine");
  if (child > 0) return child;
  ::setsid();
  if (::fork() != 0) ::_exit(0);  // the first child leaves at once, so that the engine belongs to nobody's job
  const int null = ::open("/dev/null", O_RDWR);
  ::dup2(null, 0);
  ::dup2(null, 1);
  ::dup2(log, 2);
  [[maybe_unused]] const int moved = ::chdir("/");
  ::close_range(3, ~0U, 0);
  ::execve("/proc/self/exe", argv.data(), envp.data());
  ::_exit(125);
}

// What an engine that starts by exec would not have: the user's variables, where sandboxes are forked from.
void forget_environment() {
  const auto kept = engine_environment();
  for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
    ::explicit_bzero(*entry, std::strlen(*entry));
  }
  ::clearenv();
  for (const auto& entry : kept) {
    const std::size_t equals = entry.find('=');
    ::setenv(entry.substr(0, equals).c_str(), entry.substr(equals + 1).c_str(), 1);
  }
}

std::string last_lines(const fs::path& log) {
  const UniqueFd file{::open(log.c_str(), O_RDONLY | O_CLOEXEC)};
  if (!file) return {};
  std::string text(2048, '\0');
  const off_t size = ::lseek(file.get(), 0, SEEK_END);
  const off_t from = size > 2048 ? size - 2048 : 0;
  const ssize_t got = ::pread(file.get(), text.data(), text.size(), from);
  text.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return clean_utf8(text);
}

// Feeds the program's standard input from ours, without ever handing our own descriptor in.
class InputPump {
 public:
  InputPump(int from, UniqueFd to) : from_(from), to_(std::move(to)) {
    if (to_) ::fcntl(to_.get(), F_SETFL, O_NONBLOCK);
    if (from_ < 0) to_.reset();
  }
  void add_to(std::vector<pollfd>& waiting) const {
    const bool empty = at_ == held_.size();
    waiting.push_back({.fd = to_ && empty ? from_ : -1, .events = POLLIN, .revents = 0});
    waiting.push_back({.fd = to_ ? to_.get() : -1, .events = static_cast<short>(empty ? 0 : POLLOUT), .revents = 0});
  }
  void move(const pollfd& source, const pollfd& target) {
    if ((target.revents & (POLLERR | POLLNVAL)) != 0) return to_.reset();
    if (source.revents != 0) {
      held_.resize(64 << 10);
      at_ = 0;
      const ssize_t got = ::read(from_, held_.data(), held_.size());
      if (got <= 0) {
        held_.clear();
        return to_.reset();
      }
      held_.resize(static_cast<std::size_t>(got));
    }
    if (at_ < held_.size()) {
      const ssize_t put = ::write(to_.get(), held_.data() + at_, held_.size() - at_);
      if (put < 0 && errno != EAGAIN) return to_.reset();
      if (put > 0) at_ += static_cast<std::size_t>(put);
    }
  }

 private:
  int from_;
  UniqueFd to_;
  std::string held_;
  std::size_t at_ = 0;
};

std::string empty_frame(wire::RequestType type) { return {1, 0, 0, 0, static_cast<char>(type)}; }

}  // namespace

std::string binary_identity() {
  struct stat status{};
  if (::stat("/proc/self/exe", &status) != 0) return {};
  return std::to_string(status.st_dev) + ":" + std::to_string(status.st_ino) + ":" + std::to_string(status.st_size) +
         ":" + std::to_string(status.st_mtim.tv_sec) + "." + std::to_string(status.st_mtim.tv_nsec);
}

Result<EngineLocation> EngineLocation::find() {
  EngineLocation location;
  if (const char* own = std::getenv("HUTCH_RUNTIME_DIR")) {
    location.directory = own;
  } else if (const char* run = std::getenv("XDG_RUNTIME_DIR"); run != nullptr && ::access(run, W_OK) == 0) {
    location.directory = fs::path(run) / "hutch";
  } else {
    location.directory = "/tmp/hutch-" + std::to_string(::getuid());
  }
  if (::mkdir(location.directory.c_str(), 0700) != 0 && errno != EEXIST) {
    return system_error(errno).during("make " + location.directory.string());
  }
  struct stat status{};
  if (::lstat(location.directory.c_str(), &status) != 0) return system_error(errno);
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::getuid() || (status.st_mode & 077) != 0) {
    return make_error(ErrorCode::permission, location.directory.string() + " is not a directory of ours alone")
        .with_hint("remove it, or set HUTCH_RUNTIME_DIR to a directory with mode 0700 that you own");
  }
  return location;
}

PrivateEngine::~PrivateEngine() {
  ::shutdown(socket_, SHUT_WR);
  while (::read(socket_, moving_chunk().data(), moving_chunk().size()) > 0) {
  }
  ::waitpid(pid_, nullptr, WNOHANG);  // it has nothing left but itself
}

Result<void> EngineClient::send(std::string_view bytes, int fd) {
  while (!bytes.empty()) {
    const ssize_t sent = wire::send_with_fds(socket_.get(), bytes, fd >= 0 ? std::span(&fd, 1) : std::span<int>{});
    if (sent < 0) return make_error(ErrorCode::disconnected, "the engine went away");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
    fd = -1;
  }
  return {};
}

Result<wire::Frame> EngineClient::receive() {
  for (;;) {
    HUTCH_TRY(auto frame, frames_.next());
    if (frame) return std::move(*frame);
    const auto chunk = moving_chunk();
    std::array<int, 8> fds{};
    std::size_t fd_count = 0;
    const ssize_t got = wire::receive_with_fds(socket_.get(), chunk, fds, fd_count);
    if (got <= 0) return make_error(ErrorCode::disconnected, "the engine went away");
    for (std::size_t i = 0; i < fd_count; ++i) attached_.emplace_back(fds[i]);
    frames_.append({chunk.data(), static_cast<std::size_t>(got)});
  }
}

Result<bool> EngineClient::greet(const std::string& settings) {
  const wire::Hello hello{.binary = binary_identity(), .settings = settings};
  HUTCH_TRY(send(wire::make_frame(wire::RequestType::hello, hello)));
  HUTCH_TRY(const auto frame, receive());
  if (frame.type == static_cast<std::uint8_t>(wire::ReplyType::failed)) {
    HUTCH_TRY(const auto failed, wire::decode<wire::Failed>(frame.payload));
    return make_error(ErrorCode::unsupported, failed.message).with_hint(failed.hint);
  }
  HUTCH_TRY(const auto reply, wire::decode<wire::HelloReply>(frame.payload));
  return reply.current && reply.protocol == wire::kEngineProtocol;
}

Result<EngineClient> EngineClient::connect(const EngineLocation& location) {
  EngineClient client;
  HUTCH_TRY(client.socket_, connect_to(location.socket()));
  return client;
}

Result<EngineClient> EngineClient::connect_or_start(const EngineLocation& location) {
  const auto deadline = std::chrono::steady_clock::now() + kStartTime;
  UniqueFd lock;
  bool started = false;
  while (std::chrono::steady_clock::now() < deadline) {
    if (auto client = connect(location)) {
      auto current = client->greet(location.settings);
      if (current && *current) return client;
      if (!current && current.error().code == ErrorCode::unsupported) return std::move(current).error();
      if (current) std::ignore = client->stop(StopWait::socket);  // outdated: it finishes what it has and leaves
      started = false;
    }
    if (!lock) {
      // Whoever has the lock starts the engine; the others wait for it.
      lock.reset(::open(location.lock().c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
      if (!lock) return system_error(errno).during("open " + location.lock().string());
      if (::flock(lock.get(), LOCK_EX) != 0) return system_error(errno).during("lock the engine");
      continue;  // it may be there now
    }
    if (!started) {
      const UniqueFd log{::open(location.log().c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600)};
      HUTCH_TRY(const pid_t child, spawn_engine(log.get()));
      ::waitpid(child, nullptr, 0);
      started = true;
    }
    // The engine writes its last words and goes when it cannot start.
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    if (const auto said = last_lines(location.log()); said.find("hutch: engine: ") != std::string::npos) {
      const std::size_t at = said.find("hutch: engine: ");
      const std::size_t hint = said.find("\nhint: ", at);
      const std::string message = said.substr(at + 15, hint == std::string::npos ? hint : hint - at - 15);
      return make_error(ErrorCode::unsupported, message)
          .with_hint(hint == std::string::npos ? "see " + location.log().string() : said.substr(hint + 7));
    }
  }
  return make_error(ErrorCode::timed_out, "the engine did not start")
      .with_hint("see " + location.log().string() + ", or run without it: --no-engine");
}

// A fork without exec: it serves one run of this very process, and starting the program anew would be a tenth of it.
Result<EngineClient> EngineClient::start_private(const EngineSettings& settings, const std::string& template_name) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return system_error(errno);
  EngineClient client;
  client.socket_.reset(sockets[0]);
  UniqueFd theirs{sockets[1]};
  std::fflush(nullptr);
  const pid_t child = ::fork();
  if (child < 0) return system_error(errno).during("start the engine");
  if (child == 0) {
    ::setsid();  // an interrupt at the terminal is the client's business
    const int null = ::open("/dev/null", O_RDWR);
    ::dup2(null, 0);
    constexpr int kSocket = 3;
    if (theirs.get() != kSocket) ::dup2(theirs.get(), kSocket);
    ::close_range(kSocket + 1, ~0U, 0);
    forget_environment();
    serve_private_engine(settings, kSocket, template_name);
  }
  theirs.reset();
  client.child_ = std::make_unique<PrivateEngine>(child, client.socket_.get());
  HUTCH_TRY(const bool current, client.greet({}));
  if (!current) return make_error(ErrorCode::internal, "the private engine is another build");
  return client;
}

Result<Outcome> EngineClient::run(ClientRun run, ClientEvents& events) {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) return system_error(errno).during("make a pipe");
  UniqueFd reader{fds[0]};
  InputPump pump(run.input, UniqueFd{fds[1]});
  // All in one piece where there are no files: the engine wakes up once.
  std::string request = wire::make_frame(wire::RequestType::run, run.request);
  for (const auto& file : run.files) {
    HUTCH_TRY(send(request, reader.get()));
    reader.reset();
    request = wire::make_frame(wire::RequestType::put_file, file);
  }
  HUTCH_TRY(send(request + empty_frame(wire::RequestType::go), reader.get()));
  reader.reset();

  const bool shell = run.request.mode != wire::RunMode::script;
  const auto give_cell = [&](std::optional<wire::CellStatus> last) -> Result<void> {
    const auto cell = events.next_cell(last);
    if (!cell) return send(empty_frame(wire::RequestType::cancel));
    return send(wire::make_frame(wire::RequestType::cell, *cell));
  };
  if (shell) HUTCH_TRY(give_cell(std::nullopt));

  for (;;) {
    for (;;) {
      HUTCH_TRY(auto frame, frames_.next());
      if (!frame) break;
      switch (static_cast<wire::ReplyType>(frame->type)) {
        case wire::ReplyType::output: {
          HUTCH_TRY(const auto event, wire::decode<wire::OutputEvent>(frame->payload));
          events.on_output(event);
          break;
        }
        case wire::ReplyType::file: {
          HUTCH_TRY(auto file, wire::decode<wire::FileMessage>(frame->payload));
          UniqueFd content;
          if (file.has_content) {
            if (attached_.empty()) return make_error(ErrorCode::protocol, "a file came without its content");
            content = std::move(attached_.front());
            attached_.erase(attached_.begin());
          }
          events.on_file(file.entry, std::move(content));
          break;
        }
        case wire::ReplyType::cell_done: {
          HUTCH_TRY(const auto done, wire::decode<wire::CellReport>(frame->payload));
          events.on_cell_done(done);
          if (done.status != wire::CellStatus::exit) HUTCH_TRY(give_cell(done.status));
          break;
        }
        case wire::ReplyType::finished: {
          HUTCH_TRY(auto record, wire::decode<wire::Record>(frame->payload));
          return Outcome{std::move(record)};
        }
        case wire::ReplyType::failed: {
          HUTCH_TRY(auto failed, wire::decode<wire::Failed>(frame->payload));
          return Outcome{std::move(failed)};
        }
        case wire::ReplyType::hello:
        case wire::ReplyType::status:
        case wire::ReplyType::fork_time:
          return make_error(ErrorCode::protocol, "unexpected answer from the engine");
      }
    }
    if (interrupted != nullptr && interrupted->exchange(false)) {
      HUTCH_TRY(send(empty_frame(shell ? wire::RequestType::interrupt : wire::RequestType::cancel)));
    }
    std::vector<pollfd> waiting = {{.fd = socket_.get(), .events = POLLIN, .revents = 0}};
    pump.add_to(waiting);
    if (::poll(waiting.data(), waiting.size(), -1) < 0) {
      if (errno != EINTR) return system_error(errno).during("wait for the engine");
      continue;
    }
    pump.move(waiting[1], waiting[2]);
    if (waiting[0].revents == 0) continue;
    const auto chunk = moving_chunk();
    std::array<int, 8> received{};
    std::size_t fd_count = 0;
    const ssize_t got = wire::receive_with_fds(socket_.get(), chunk, received, fd_count);
    if (got <= 0) return make_error(ErrorCode::disconnected, "the engine went away").with_hint("run it again");
    for (std::size_t i = 0; i < fd_count; ++i) attached_.emplace_back(received[i]);
    frames_.append({chunk.data(), static_cast<std::size_t>(got)});
  }
}

Result<wire::EngineStatus> EngineClient::status() {
  HUTCH_TRY(send(empty_frame(wire::RequestType::status)));
  HUTCH_TRY(const auto frame, receive());
  return wire::decode<wire::EngineStatus>(frame.payload);
}

Result<std::uint64_t> EngineClient::measure_fork(const std::string& template_name) {
  HUTCH_TRY(send(wire::make_frame(wire::RequestType::measure_fork, wire::MeasureFork{.template_name = template_name})));
  HUTCH_TRY(const auto frame, receive());
  if (frame.type == static_cast<std::uint8_t>(wire::ReplyType::failed)) {
    HUTCH_TRY(const auto failed, wire::decode<wire::Failed>(frame.payload));
    return make_error(ErrorCode::not_found, failed.message).with_hint(failed.hint);
  }
  HUTCH_TRY(const auto time, wire::decode<wire::ForkTime>(frame.payload));
  return time.ns;
}

Result<void> EngineClient::stop(StopWait wait) {
  UniqueFd process;
  if (wait == StopWait::process) {
    HUTCH_TRY(const auto before, status());
    process.reset(kernel::pidfd_open(static_cast<pid_t>(before.pid)));
  }
  HUTCH_TRY(send(empty_frame(wire::RequestType::stop)));
  std::ignore = receive();  // it hangs up when its socket is gone
  if (!process) return {};
  pollfd gone{.fd = process.get(), .events = POLLIN, .revents = 0};
  if (::poll(&gone, 1, kStopTimeMs) == 1) return {};
  return make_error(ErrorCode::timed_out, "the engine is still finishing what it runs");
}

void Collected::on_output(const wire::OutputEvent& event) {
  (event.stream == wire::Stream::out ? out : err) += event.data;
  events.push_back(event);
}

void Collected::on_file(const wire::FileEntry& file, UniqueFd) { files.push_back(file); }

wire::RunRequest default_request(std::string template_name, std::string code) {
  const Limits limits;
  return {.template_name = std::move(template_name),
          .code = std::move(code),
          .file_name = "<string>",
          .limits = {.wall_ms = static_cast<std::uint64_t>(limits.wall.count()),
                     .cpu_ms = static_cast<std::uint64_t>(limits.cpu.count()),
                     .memory = limits.memory.count,
                     .scratch = limits.scratch.count,
                     .output = limits.output.count,
                     .cpu_percent = limits.cpu_percent,
                     .processes = limits.processes,
                     .open_files = limits.open_files,
                     .inodes = limits.inodes}};
}

}  // namespace hutch
