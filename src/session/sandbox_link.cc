#include "session/sandbox_link.h"

#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>

#include "wire/fd_passing.h"

namespace hutch {

SandboxLink::SandboxLink(const net::any_io_executor& executor)
    : input(executor), output(executor), error(executor), listener(executor), control(executor) {}

void SandboxLink::adopt(const StartedReply& reply, std::vector<UniqueFd> fds) {
  started = reply;
  workspace = std::move(fds[0]);
  input.assign(fds[1].release());
  output.assign(fds[2].release());
  error.assign(fds[3].release());
  control.assign(net::local::stream_protocol(), fds[4].release());
  boost::system::error_code ignored;
  for (auto* stream : {&input, &output, &error}) stream->native_non_blocking(true, ignored);
  if (fds.size() <= kStartedFds) return;
  cgroup.cpu = std::move(fds[kStartedFds]);
  cgroup.version = reply.cgroup_is_v1 ? CgroupVersion::v1 : CgroupVersion::v2;
  if (fds.size() < kStartedFds + kHandleFds) return;
  cgroup.peak = std::move(fds[kStartedFds + 1]);
  cgroup.idle = std::move(fds[kStartedFds + 2]);
  cgroup.threads = reply.threads;
  cgroup.stands_back = reply.stands_back;
}

void SandboxLink::close() {
  boost::system::error_code ignored;
  for (auto* stream : {&input, &output, &error, &listener}) stream->close(ignored);
  control.close(ignored);
}

bool SandboxLink::is_dead() {
  pollfd hangup{.fd = control.native_handle(), .events = 0, .revents = 0};
  return ::poll(&hangup, 1, 0) != 0;
}

net::awaitable<bool> SandboxLink::readable() {
  boost::system::error_code failed;
  co_await control.async_wait(net::local::stream_protocol::socket::wait_read,
                              net::redirect_error(net::use_awaitable, failed));
  co_return !failed;
}

bool SandboxLink::receive(const std::function<bool(const wire::Frame&)>& handle) {
  std::array<char, 32 << 10> chunk;
  int fd = -1;
  std::size_t fd_count = 0;
  const std::span<int> room = walls_up ? std::span<int>{} : std::span<int>(&fd, 1);
  const ssize_t got = wire::receive_with_fds(control.native_handle(), chunk, room, fd_count, MSG_DONTWAIT);
  if (got < 0) return errno == EAGAIN;
  if (got == 0) return false;
  UniqueFd attached{fd_count == 1 ? fd : -1};
  if (attached && !listener.is_open()) listener.assign(attached.release());
  frames_.append({chunk.data(), static_cast<std::size_t>(got)});
  for (;;) {
    const auto frame = frames_.next();
    if (!frame) return false;  // nonsense: stop listening, the exit status tells the rest
    if (!*frame) return true;
    if (static_cast<wire::RunnerType>((*frame)->type) == wire::RunnerType::ready) {
      auto message = wire::decode<wire::Ready>((*frame)->payload);
      if (!message || walls_up) return false;
      walls_up = true;
      join_steps = std::move(message->step_end_ns);
    }
    if (!handle(**frame)) return false;
  }
}

}  // namespace hutch
