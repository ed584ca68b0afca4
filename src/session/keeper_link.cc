#include "session/keeper_link.h"

#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

#include "base/log.h"
#include "base/moving_chunk.h"
#include "wire/codec.h"
#include "wire/fd_passing.h"

namespace hutch {
namespace {

constexpr auto kPatience = std::chrono::milliseconds(20);

FailedReply no_descriptors(std::uint64_t run) {
  return {.run = run,
          .message = "the engine may not have more open files",
          .hint = "end some sessions, or raise its limit: ulimit -Hn, LimitNOFILE= of the service"};
}

}  // namespace

KeeperLink::KeeperLink(const net::any_io_executor& executor, KeeperHandle keeper)
    : hello_(std::move(keeper.hello)),
      counts_(std::move(keeper.counts)),
      pid_(keeper.pid),
      socket_(executor, keeper.socket.release()),
      alarm_(executor) {}

KeeperLink::~KeeperLink() {
  boost::system::error_code ignored;
  socket_.close(ignored);
  ::waitpid(pid_, nullptr, 0);  // bounded: the keeper gives itself a few seconds
}

void KeeperLink::wait_until_gone() {
  boost::system::error_code ignored;
  const int socket = socket_.native_handle();
  socket_.native_non_blocking(false, ignored);
  ::shutdown(socket, SHUT_WR);
  while (::read(socket, moving_chunk().data(), moving_chunk().size()) > 0) {
  }
}

std::uint64_t KeeperLink::enlist(KeeperListener& listener) {
  runs_.emplace(next_run_, &listener);
  return next_run_++;
}

void KeeperLink::dismiss(std::uint64_t run) {
  runs_.erase(run);
  unanswered_.erase(run);
}

template <class T>
Result<void> KeeperLink::send(KeeperRequestKind kind, const T& message) {
  std::string packet(1, static_cast<char>(kind));
  packet += wire::encode(message);
  if (waiting_.empty() && send_now(packet)) return {};
  if (waiting_.empty() && errno != EAGAIN) return system_error(errno).during("ask the keeper");
  // It has more to do than it can take in: nothing that is said to it may get lost.
  if (waiting_.empty()) wait_for_room();
  waiting_.push_back(std::move(packet));
  return {};
}

bool KeeperLink::send_now(const std::string& packet) {
  return wire::send_with_fds(socket_.native_handle(), packet, std::span<const int>{}, MSG_DONTWAIT) >= 0;
}

void KeeperLink::wait_for_room() {
  socket_.async_wait(net::posix::stream_descriptor::wait_write, [this](const boost::system::error_code& failed) {
    if (failed) return;
    while (!waiting_.empty() && send_now(waiting_.front())) waiting_.pop_front();
    if (!waiting_.empty() && errno == EAGAIN) wait_for_room();
  });
}

Result<void> KeeperLink::start(const StartRequest& request) {
  unanswered_.emplace(request.run, Clock::now());
  await_answer();
  return send(KeeperRequestKind::start, request);
}

// It is stuck when it has answered nothing for a while although somebody waits: then something holds it up, or its
// zygote, and more often than not a lock of the kernel. As long as that lasts, everybody hears of it again and again.
void KeeperLink::await_answer() {
  if (std::exchange(alarmed_, true)) return;
  alarm_.expires_after(kPatience);
  alarm_.async_wait([this](const boost::system::error_code& cancelled) {
    if (cancelled) return;
    alarmed_ = false;
    const auto late = Clock::now() - kPatience;
    const auto waits = [late](const auto& start) { return start.second <= late; };
    const bool stuck = answered_ <= late && std::ranges::any_of(unanswered_, waits);
    if (stuck || std::exchange(stuck_, false)) {
      stuck_ = stuck;
      const auto runs = runs_;
      for (const auto& [number, run] : runs) run->on_keeper_stuck(stuck);
    }
    if (!unanswered_.empty()) await_answer();
  });
}

void KeeperLink::signal(std::uint64_t run, int number) {
  std::ignore = send(KeeperRequestKind::signal, SignalRequest{.run = run, .signal = number});
}

void KeeperLink::kill_others(std::uint64_t run) {
  std::ignore = send(KeeperRequestKind::signal, SignalRequest{.run = run, .signal = SIGKILL, .to_others = true});
}

void KeeperLink::ask_usage(const UsageRequest& request) { std::ignore = send(KeeperRequestKind::usage, request); }
void KeeperLink::limit(const LimitRequest& request) { std::ignore = send(KeeperRequestKind::limit, request); }
void KeeperLink::place(const PlaceRequest& request) { std::ignore = send(KeeperRequestKind::place, request); }
void KeeperLink::settle(const SettleRequest& request) { std::ignore = send(KeeperRequestKind::settle, request); }
void KeeperLink::stock(const StockRequest& request) { std::ignore = send(KeeperRequestKind::stock, request); }

void KeeperLink::spare(const SpareRequest& request) {
  if (!std::exchange(spares_, request.processors)) ++spared_;
  std::ignore = send(KeeperRequestKind::spare, request);
}

void KeeperLink::release(std::uint64_t run, Pace pace) {
  const bool leisurely = pace == Pace::leisurely;
  if (!lost_) (leisurely ? leisurely_ : dying_).insert(run);
  unanswered_.erase(run);
  std::ignore = send(KeeperRequestKind::release, ReleaseRequest{.run = run, .leisurely = leisurely});
}

net::awaitable<std::uint64_t> KeeperLink::measure_fork(std::uint32_t template_index) {
  Measuring one{.done = Event(socket_.get_executor())};
  if (lost_ || !send(KeeperRequestKind::measure, MeasureRequest{.template_index = template_index})) co_return 0;
  measuring_.push_back(&one);
  co_await one.done.wait();
  co_return one.ns;
}

net::awaitable<void> KeeperLink::listen() {
  std::string bytes(kMostKeeperBytes, '\0');
  for (;;) {
    boost::system::error_code failed;
    co_await socket_.async_wait(net::posix::stream_descriptor::wait_read,
                                net::redirect_error(net::use_awaitable, failed));
    if (failed) break;
    std::array<int, kStartedFds + kHandleFds> fds{};
    std::size_t fd_count = 0;
    const ssize_t got = wire::receive_with_fds(socket_.native_handle(), bytes, fds, fd_count, MSG_DONTWAIT);
    if (got < 0 && errno == EAGAIN) continue;
    if (got < 1) break;
    std::vector<UniqueFd> attached;
    for (std::size_t i = 0; i < fd_count; ++i) attached.emplace_back(fds[i]);
    try {
      dispatch(std::string_view(bytes).substr(0, static_cast<std::size_t>(got)), std::move(attached));
    } catch (const std::exception& error) {  // costs one run, which does not hear of this, and not all of them
      log::error("word of the keeper lost", {{"error", error.what()}});
    }
  }
  lost_ = true;
  unanswered_.clear();
  dying_.clear();
  leisurely_.clear();
  for (auto* one : std::exchange(measuring_, {})) one->done.set();
  const auto runs = runs_;  // a listener may dismiss itself
  for (const auto& [number, run] : runs) run->on_keeper_lost();
}

void KeeperLink::dispatch(std::string_view packet, std::vector<UniqueFd> attached) {
  const auto payload = packet.substr(1);
  answered_ = Clock::now();
  const auto find = [&](std::uint64_t run) -> KeeperListener* {
    const auto found = runs_.find(run);
    return found == runs_.end() ? nullptr : found->second;
  };
  switch (static_cast<KeeperReplyKind>(packet[0])) {
    case KeeperReplyKind::hello:
      return;
    case KeeperReplyKind::started:
      if (const auto reply = wire::decode<StartedReply>(payload)) {
        auto* run = find(reply->run);
        const bool whole = attached.size() >= kStartedFds;  // the kernel drops those for which there is no room
        if (run != nullptr && whole) run->on_started(*reply, std::move(attached));
        if (run != nullptr && !whole) run->on_failed(no_descriptors(reply->run));
      }
      return;
    case KeeperReplyKind::failed:
      if (const auto reply = wire::decode<FailedReply>(payload)) {
        note_ready(reply->run);  // nothing more is to be expected of it
        if (auto* run = find(reply->run)) run->on_failed(*reply);
      }
      return;
    case KeeperReplyKind::exited:
      if (const auto reply = wire::decode<ExitedReply>(payload)) {
        note_ready(reply->run);
        if (auto* run = find(reply->run)) run->on_exited(*reply);
      }
      return;
    case KeeperReplyKind::usage:
      if (const auto reply = wire::decode<UsageReply>(payload)) {
        if (auto* run = find(reply->run)) run->on_usage(reply->usage);
      }
      return;
    case KeeperReplyKind::limited:
      if (const auto reply = wire::decode<LimitedReply>(payload)) {
        if (auto* run = find(reply->run)) run->on_limited();
      }
      return;
    case KeeperReplyKind::measured:
      if (const auto reply = wire::decode<MeasuredReply>(payload); reply && !measuring_.empty()) {
        measuring_.front()->ns = reply->ns;
        measuring_.front()->done.set();
        measuring_.pop_front();
      }
      return;
    case KeeperReplyKind::gone:
      if (const auto reply = wire::decode<GoneReply>(payload)) {
        dying_.erase(reply->run);
        leisurely_.erase(reply->run);
        if (on_gone) on_gone();
      }
      return;
  }
}

}  // namespace hutch
