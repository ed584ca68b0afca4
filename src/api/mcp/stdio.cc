#include "api/mcp/stdio.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/write.hpp>
#include <csignal>

#include "api/json_text.h"
#include "api/mcp/outbox.h"
#include "base/log.h"

namespace hutch::mcp {
namespace {

constexpr std::size_t kLongestLine = 8U << 20;
constexpr std::size_t kMostAtOnce = 100;
constexpr auto kGrace = std::chrono::milliseconds(500);  // for answers when the input ends; none when there is nothing
constexpr auto kLastWords = std::chrono::seconds(1);

bool is_pipe(int fd) {
  struct stat status{};
  return ::fstat(fd, &status) == 0 && (S_ISFIFO(status.st_mode) || S_ISSOCK(status.st_mode));
}

class Stdio {
 public:
  Stdio(Server& server, Caller caller, int input, int output)
      : server_(server),
        caller_(std::move(caller)),
        executor_(server.daemon().engine.executor()),
        input_(executor_),
        output_(executor_),
        signals_(executor_),
        outbox_(executor_),
        written_(executor_),
        idle_(executor_),
        tasks_(executor_),
        input_fd_(::fcntl(input, F_DUPFD_CLOEXEC, 3)),
        output_fd_(::fcntl(output, F_DUPFD_CLOEXEC, 3)) {}

  net::awaitable<void> run();

 private:
  net::awaitable<std::size_t> read_some(char* into, std::size_t most);
  net::awaitable<void> read_lines();
  net::awaitable<void> write_lines();
  net::awaitable<bool> write(std::string_view text);
  void take_line(std::string_view line);
  void take_notification(const RpcNotification& message);
  void watch();
  net::awaitable<void> serve(RpcRequest message, std::shared_ptr<Cancellation> cancellation);

  Server& server_;
  Caller caller_;
  net::any_io_executor executor_;
  net::posix::stream_descriptor input_, output_;
  net::signal_set signals_;
  Outbox outbox_;
  Event written_, idle_;
  TaskGroup tasks_;
  UniqueFd input_fd_, output_fd_;
  bool waits_for_input_ = false, waits_for_output_ = false;
  bool stopped_ = false, leaving_ = false;
  LegacyState legacy_;
  Watchers::Ticket ticket_ = 0;
  std::map<std::string, std::shared_ptr<Cancellation>> under_way_;
};

// 0 at the end. What cannot be waited for, a file for instance, is always ready.
net::awaitable<std::size_t> Stdio::read_some(char* into, std::size_t most) {
  boost::system::error_code failed;
  for (;;) {
    if (waits_for_input_) {
      co_await input_.async_wait(net::posix::stream_descriptor::wait_read,
                                 net::redirect_error(net::use_awaitable, failed));
    }
    if (failed || stopped_) co_return 0;
    const ssize_t count = ::read(input_fd_.get(), into, most);
    if (count > 0) co_return static_cast<std::size_t>(count);
    if (count == 0 || (errno != EINTR && errno != EAGAIN)) co_return 0;
  }
}

net::awaitable<void> Stdio::read_lines() {
  std::string line;
  bool too_long = false;
  char piece[16U << 10];
  while (const std::size_t count = co_await read_some(piece, sizeof(piece))) {
    std::string_view rest(piece, count);
    while (!rest.empty()) {
      const auto end = rest.find('\n');
      const auto part = rest.substr(0, end);
      rest.remove_prefix(std::min(part.size() + 1, rest.size()));
      too_long = too_long || line.size() + part.size() > kLongestLine;
      if (!too_long) line += part;
      if (end == std::string_view::npos) continue;
      if (too_long) {
        outbox_.put(error_text(nullptr, {.code = kInvalidRequest, .message = "A line is longer than 8 MiB"}));
      } else {
        take_line(line);
      }
      too_long = false;
      line.clear();
      line.shrink_to_fit();
    }
    // A client that does not read its answers is not read either.
    while (outbox_.full() && !stopped_) {
      written_.reset();
      co_await written_.wait_until(Clock::now() + kLastWords);
    }
  }
}

void Stdio::take_line(std::string_view line) {
  if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
  Message message = decode_message(line);
  if (const auto* problem = std::get_if<RpcProblem>(&message)) {
    outbox_.put(error_text(problem->id, problem->error));
  } else if (const auto* told = std::get_if<RpcNotification>(&message)) {
    take_notification(*told);
  } else if (auto* asked = std::get_if<RpcRequest>(&message)) {
    const std::string name = json_text(asked->id);
    if (asked->method == "initialize" && era_of_stdio(*asked) == Era::legacy) {
      const Reply reply = server_.initialize(asked->params, legacy_);
      if (reply) watch();
      outbox_.put(reply_text(asked->id, reply));
    } else if (under_way_.size() >= kMostAtOnce) {
      outbox_.put(error_text(asked->id, {.code = kBusy, .message = "More than 100 requests at once"}));
    } else if (under_way_.contains(name)) {
      outbox_.put(error_text(asked->id, {.code = kInvalidRequest, .message = "That id is in use"}));
    } else {
      auto cancellation = std::make_shared<Cancellation>(executor_);
      under_way_.emplace(name, cancellation);
      tasks_.spawn(serve(std::move(*asked), std::move(cancellation)));
    }
  }
}

// Only a client that has shaken hands hears of changes unasked.
void Stdio::watch() {
  if (ticket_ != 0) return;
  ticket_ = server_.watchers.add({.key_id = caller_.key.id,
                                  .wishes = [this]() -> const Wishes& { return legacy_.wishes; },
                                  .notify = [this](const json::object& told) { outbox_.offer(json_text(told)); }});
}

void Stdio::take_notification(const RpcNotification& message) {
  const auto* target = message.params.if_contains("requestId");
  if (message.method != "notifications/cancelled" || target == nullptr) return;
  const auto found = under_way_.find(json_text(*target));
  if (found == under_way_.end()) return;
  const auto cancellation = found->second;
  cancellation->cancel();
}

net::awaitable<void> Stdio::serve(RpcRequest message, std::shared_ptr<Cancellation> cancellation) {
  const json::value id = message.id;
  Call call{.daemon = server_.daemon(), .caller = caller_, .era = era_of_stdio(message)};
  call.request_id = id;
  call.cancellation = cancellation;
  call.notify = [this, watched = cancellation.get()](const json::object& told) {
    if (!watched->cancelled()) outbox_.offer(json_text(told));
  };
  std::optional<Reply> reply;
  if (call.modern()) {
    auto meta = read_modern_meta(message.params);
    if (meta) {
      call.meta = std::move(*meta);
    } else {
      reply = std::unexpected(meta.error());
    }
  } else {
    call.meta = read_legacy_meta(message.params);
    call.legacy = &legacy_;
  }
  try {
    if (!reply) reply = co_await server_.answer(std::move(message), call);
  } catch (const std::exception& error) {  // whoever waits for the answer is to hear of an end
    log::error("MCP request lost", {{"error", error.what()}});
    reply = refuse(kInternalError, "Internal error: the log has the reason");
  }
  if (!cancellation->cancelled()) outbox_.put(reply_text(id, *reply));
  under_way_.erase(json_text(id));
  if (under_way_.empty()) idle_.set();
}

net::awaitable<bool> Stdio::write(std::string_view text) {
  boost::system::error_code failed;
  if (waits_for_output_) {
    co_await net::async_write(output_, net::buffer(text), net::redirect_error(net::use_awaitable, failed));
    co_return !failed;
  }
  while (!text.empty()) {
    const ssize_t count = ::write(output_fd_.get(), text.data(), text.size());
    if (count < 0 && errno != EINTR) co_return false;
    if (count > 0) text.remove_prefix(static_cast<std::size_t>(count));
  }
  co_return true;
}

net::awaitable<void> Stdio::write_lines() {
  for (;;) {
    while (auto text = outbox_.take()) {
      *text += '\n';
      if (!co_await write(*text)) {  // nobody is there
        stopped_ = true;
        input_.cancel();
      }
      written_.set();
    }
    if (outbox_.finished()) break;
    co_await outbox_.wait_until(Clock::now() + std::chrono::hours(1));
  }
  leaving_ = true;
  written_.set();
}

net::awaitable<void> Stdio::run() {
  boost::system::error_code failed;
  if (is_pipe(input_fd_.get()) || ::isatty(input_fd_.get()) == 1) {
    input_.assign(input_fd_.get(), failed);
    waits_for_input_ = !failed;
  }
  if (is_pipe(output_fd_.get())) {
    output_.assign(output_fd_.get(), failed);
    waits_for_output_ = !failed;
  }
  signals_.add(SIGTERM, failed);
  signals_.add(SIGINT, failed);
  signals_.async_wait([this](const boost::system::error_code& ended, int) {
    if (ended) return;
    stopped_ = true;
    boost::system::error_code ignored;
    input_.cancel(ignored);
    idle_.set();
    written_.set();
  });
  tasks_.spawn(write_lines());
  co_await read_lines();
  if (!under_way_.empty() && !stopped_) {
    idle_.reset();
    co_await idle_.wait_until(Clock::now() + kGrace);
  }
  const auto left = under_way_;
  for (const auto& [name, cancellation] : left) cancellation->cancel();
  server_.watchers.remove(ticket_);
  outbox_.finish();
  signals_.cancel(failed);
  const auto deadline = Clock::now() + kLastWords;
  while (!leaving_ && Clock::now() < deadline) {
    written_.reset();
    co_await written_.wait_until(deadline);
  }
  output_.cancel(failed);
  if (!under_way_.empty()) co_await server_.daemon().hub.shut_down(std::chrono::milliseconds(0));
  co_await tasks_.join();
  if (waits_for_input_) input_.release();  // they are input_fd_'s and output_fd_'s to close
  if (waits_for_output_) output_.release();
}

}  // namespace

net::awaitable<void> serve_stdio(Server& server, Caller caller, int input, int output) {
  Stdio stdio(server, std::move(caller), input, output);
  co_await stdio.run();
}

}  // namespace hutch::mcp
