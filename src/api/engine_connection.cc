#include "api/engine_connection.h"

#include <algorithm>

#include "base/moving_chunk.h"
#include "wire/fd_passing.h"

namespace hutch {
namespace {

constexpr std::uint64_t kMostPendingBytes = 4ULL << 30;  // files put in; the scratch limit is checked again later

std::string code_of(const Error& error, Step step) {
  if (step != Step::none) return "sandbox_start_failed";
  switch (error.code) {
    case ErrorCode::invalid_argument:
      return "bad_arguments";
    case ErrorCode::not_found:
      return "unknown_template";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::disconnected:
      return "cancelled";
    case ErrorCode::already_exists:
    case ErrorCode::permission:
    case ErrorCode::limit:
    case ErrorCode::timed_out:
    case ErrorCode::protocol:
    case ErrorCode::system:
    case ErrorCode::internal:
      return "sandbox_start_failed";
  }
  return "bug";
}

// Connections of one process take turns with those of another.
Admission::Owner peer_of(net::local::stream_protocol::socket& socket) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(socket.native_handle(), SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return 0;
  return static_cast<Admission::Owner>(peer.pid);
}

}  // namespace

EngineConnection::EngineConnection(net::local::stream_protocol::socket socket, EngineHost& host)
    : socket_(std::move(socket)), host_(host), tasks_(socket_.get_executor()), owner_(peer_of(socket_)) {}

net::awaitable<void> EngineConnection::run([[maybe_unused]] std::shared_ptr<EngineConnection> self) {
  for (;;) {
    auto frame = co_await receive();
    if (!frame) break;
    if (run_) {
      handle_running(*frame);
    } else if (!handle_idle(*frame)) {
      break;
    }
  }
  if (run_) run_->cancel();  // nobody is left to hear the result
  closed_ = true;
  co_await tasks_.join();
}

net::awaitable<Result<wire::Frame>> EngineConnection::receive() {
  for (;;) {
    auto frame = frames_.next();
    if (!frame) co_return std::move(frame).error();
    if (*frame) co_return std::move(**frame);
    boost::system::error_code failed;
    co_await socket_.async_wait(net::local::stream_protocol::socket::wait_read,
                                net::redirect_error(net::use_awaitable, failed));
    if (failed) co_return make_error(ErrorCode::disconnected, failed.message());
    const auto chunk = moving_chunk();
    std::array<int, 4> fds{};
    std::size_t fd_count = 0;
    const ssize_t got = wire::receive_with_fds(socket_.native_handle(), chunk, fds, fd_count, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) continue;
    if (got <= 0) co_return make_error(ErrorCode::disconnected, "the client hung up");
    for (std::size_t i = 0; i < fd_count; ++i) received_.emplace_back(fds[i]);
    if (received_.size() > 4) co_return make_error(ErrorCode::protocol, "too many descriptors");
    frames_.append({chunk.data(), static_cast<std::size_t>(got)});
  }
}

bool EngineConnection::handle_idle(const wire::Frame& frame) {
  switch (static_cast<wire::RequestType>(frame.type)) {
    case wire::RequestType::hello: {
      const auto hello = wire::decode<wire::Hello>(frame.payload);
      if (!hello) return false;
      if (host_.engine == nullptr) {
        send_failure({.error = host_.problem});
        return true;
      }
      send(wire::make_frame(wire::ReplyType::hello, wire::HelloReply{.current = host_.is_current(*hello),
                                                                     .pid = static_cast<std::uint32_t>(::getpid())}));
      return true;
    }
    case wire::RequestType::run: {
      auto request = wire::decode<wire::RunRequest>(frame.payload);
      if (!request || received_.empty() || host_.engine == nullptr) return false;
      pending_ = RunSpec{.request = std::move(*request), .input = std::move(received_.front())};
      received_.pop_front();
      pending_bytes_ = 0;
      return true;
    }
    case wire::RequestType::put_file: {
      auto file = wire::decode<wire::PutFile>(frame.payload);
      if (!file || !pending_) return false;
      pending_bytes_ += file->data.size();
      if (pending_bytes_ > kMostPendingBytes) return false;
      pending_->files.push_back(std::move(*file));
      return true;
    }
    case wire::RequestType::go: {
      if (!pending_) return false;
      auto run = host_.engine->admit(std::move(*pending_), *this);
      pending_.reset();
      if (!run) {
        send_failure({.error = run.error()});
        return true;
      }
      run_ = std::move(*run);
      tasks_.spawn(execute());
      return true;
    }
    case wire::RequestType::status: {
      if (host_.engine == nullptr) return false;
      wire::EngineStatus status = host_.engine->status();
      status.idle_exit_ms = static_cast<std::uint64_t>(host_.idle_exit.count());
      send(wire::make_frame(wire::ReplyType::status, status));
      return true;
    }
    case wire::RequestType::stop:
      host_.retire();
      return false;
    case wire::RequestType::measure_fork: {
      auto asked = wire::decode<wire::MeasureFork>(frame.payload);
      if (!asked || host_.engine == nullptr) return false;
      tasks_.spawn(measure_fork(std::move(asked->template_name)));
      return true;
    }
    case wire::RequestType::cell:
    case wire::RequestType::interrupt:
    case wire::RequestType::cancel:
      return true;  // the run it was meant for has just ended
  }
  return false;
}

void EngineConnection::handle_running(const wire::Frame& frame) {
  switch (static_cast<wire::RequestType>(frame.type)) {
    case wire::RequestType::cell:
      if (auto cell = wire::decode<wire::CellRequest>(frame.payload)) {
        CellTask task{.what = {.code = std::move(cell->code)}};
        // Like any limit: no more than the engine allows.
        const auto most = static_cast<std::uint64_t>(host_.engine->options().ceiling.wall.count());
        if (cell->timeout_ms != 0) task.timeout = std::chrono::milliseconds(std::min(cell->timeout_ms, most));
        host_.engine->run_cell(run_, std::move(task), owner_);
      } else {
        run_->cancel();
      }
      return;
    case wire::RequestType::interrupt:
      run_->interrupt();
      return;
    case wire::RequestType::hello:
    case wire::RequestType::run:
    case wire::RequestType::put_file:
    case wire::RequestType::go:
    case wire::RequestType::cancel:
    case wire::RequestType::status:
    case wire::RequestType::stop:
    case wire::RequestType::measure_fork:
      run_->cancel();
      return;
  }
}

net::awaitable<void> EngineConnection::execute() {
  auto record = co_await host_.engine->execute(run_, owner_);
  run_.reset();
  if (record) {
    send(wire::make_frame(wire::ReplyType::finished, *record));
  } else {
    send_failure(record.error());
  }
}

net::awaitable<void> EngineConnection::measure_fork(std::string template_name) {
  const auto ns = co_await host_.engine->measure_fork(std::move(template_name));
  if (ns) {
    send(wire::make_frame(wire::ReplyType::fork_time, wire::ForkTime{.ns = *ns}));
  } else {
    send_failure({.error = ns.error()});
  }
}

void EngineConnection::on_output(wire::OutputEvent event) { send(wire::make_frame(wire::ReplyType::output, event)); }

void EngineConnection::on_file(CollectedFile file) {
  const wire::FileMessage message{.entry = std::move(file.entry), .has_content = static_cast<bool>(file.content)};
  send(wire::make_frame(wire::ReplyType::file, message), std::move(file.content));
}

void EngineConnection::on_cell_done(wire::CellStatus status, wire::Record record) {
  send(wire::make_frame(wire::ReplyType::cell_done, wire::CellReport{.status = status, .record = std::move(record)}));
}

void EngineConnection::send_failure(const StartFailure& failure) {
  const auto& error = failure.error;
  const Step step = failure.step;
  const auto retry_after = failure.retry_after.count();
  send(wire::make_frame(wire::ReplyType::failed,
                        wire::Failed{.message = error.message,
                                     .hint = error.hint,
                                     .code = retry_after > 0 ? "capacity" : code_of(error, step),
                                     .step = step == Step::none ? "" : std::string(name_of(step)),
                                     .retry_after_ms = static_cast<std::uint64_t>(retry_after)}));
}

// At once where the socket takes it, queued otherwise, so that a slow client never holds up a run; what can pile up is
// bounded by the run's output limit.
void EngineConnection::send(std::string bytes, UniqueFd attached) {
  if (closed_) return;
  Outgoing outgoing{.bytes = std::move(bytes), .attached = std::move(attached)};
  if (!writing_ && send_now(outgoing)) return;
  outgoing_.push_back(std::move(outgoing));
  if (writing_) return;
  writing_ = true;
  tasks_.spawn(write_all());
}

// True when nothing is left to do, be it because the client is gone.
bool EngineConnection::send_now(Outgoing& outgoing) {
  const int fd = outgoing.attached.get();
  const std::span<const int> fds = fd >= 0 ? std::span(&fd, 1) : std::span<const int>{};
  const ssize_t sent = wire::send_with_fds(socket_.native_handle(), outgoing.bytes, fds, MSG_DONTWAIT);
  if (sent < 0) return errno != EAGAIN;
  outgoing.attached.reset();
  outgoing.bytes.erase(0, static_cast<std::size_t>(sent));
  return outgoing.bytes.empty();
}

net::awaitable<void> EngineConnection::write_all() {
  boost::system::error_code failed;
  while (!outgoing_.empty() && !failed) {
    if (send_now(outgoing_.front())) {
      outgoing_.pop_front();
      continue;
    }
    co_await socket_.async_wait(net::local::stream_protocol::socket::wait_write,
                                net::redirect_error(net::use_awaitable, failed));
  }
  outgoing_.clear();
  writing_ = false;
}

}  // namespace hutch
