#include "session/porter.h"

#include <boost/asio/buffer.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/write.hpp>

#include "wire/frame.h"

namespace hutch {
namespace {

constexpr auto kStartTime = std::chrono::seconds(20);
constexpr auto kPatience = std::chrono::seconds(30);  // with a program that may have stopped it

}  // namespace

Porter::Porter(net::any_io_executor executor, KeeperLink& keeper)
    : executor_(executor), keeper_(keeper), keeper_lives_(keeper.life()), link_(executor), heard_(executor) {}

// Whoever waits for it at the end of the daemon is destroyed after the engine, and the keeper has taken it apart by
// then.
Porter::~Porter() {
  if (link_.number == 0 || keeper_lives_.expired()) return;
  keeper_.dismiss(link_.number);
  keeper_.release(link_.number);
}

net::awaitable<Result<void>> Porter::start(StartRequest request) {
  link_.number = keeper_.enlist(*this);
  request.run = link_.number;
  request.helper = true;
  HUTCH_CO_TRY(keeper_.start(request));
  const auto deadline = Clock::now() + kStartTime;
  if (!co_await heard_.wait_until(deadline) || !failure_.empty()) {
    broken_ = true;
    co_return make_error(ErrorCode::internal, failure_.empty() ? "the porter does not start" : failure_);
  }
  started_ = true;
  busy_ = true;
  while (!link_.walls_up && !broken_) {
    if (!co_await read_some(kStartTime)) break;
  }
  keeper_.note_ready(link_.number);
  if (broken_ || !link_.walls_up) co_return make_error(ErrorCode::internal, "the porter did not come up");
  net::co_spawn(executor_, answer_denials(shared_from_this()), net::detached);
  if (!co_await write(wire::make_frame(wire::TaskType::open_porter, wire::OpenPorter{}))) {
    co_return make_error(ErrorCode::internal, "the porter hung up");
  }
  busy_ = false;
  co_return Result<void>{};
}

// Nothing that it does is refused; but a call that the filter announces would wait for ever.
net::awaitable<void> Porter::answer_denials(std::shared_ptr<Porter> self) {
  const std::weak_ptr<Porter> weak = self;
  boost::system::error_code failed;
  while (self && self->link_.listener.is_open()) {
    auto& listener = self->link_.listener;
    self.reset();
    co_await listener.async_wait(net::posix::stream_descriptor::wait_read,
                                 net::redirect_error(net::use_awaitable, failed));
    self = failed ? nullptr : weak.lock();
    if (self && !self->denials_.answer_one(self->link_.listener.native_handle())) co_return;
  }
}

// For a timer, whose last word may come when we are gone.
std::function<void(const boost::system::error_code&)> Porter::stop_waiting() {
  return [weak = weak_from_this()](const boost::system::error_code& cancelled) {
    const auto self = cancelled ? nullptr : weak.lock();
    if (!self) return;
    boost::system::error_code ignored;
    self->link_.control.cancel(ignored);
  };
}

net::awaitable<bool> Porter::write(std::string bytes) {
  if (broken_) co_return false;
  busy_ = true;
  net::steady_timer late(executor_, kPatience);
  late.async_wait(stop_waiting());
  boost::system::error_code failed;
  co_await net::async_write(link_.control, net::buffer(bytes), net::redirect_error(net::use_awaitable, failed));
  if (failed) give_up("the sandbox does not take the file");
  co_return !failed;
}

net::awaitable<bool> Porter::send_data(std::string_view bytes) {
  if (broken_ || outcome_) co_return false;
  const std::string frame = wire::make_raw_frame(wire::PorterTask::data, bytes);
  if (!co_await write(frame)) co_return false;
  while (link_.control.available() > 0 && !outcome_) {  // a refusal in the middle
    if (!co_await read_some(kPatience)) co_return false;
  }
  co_return !outcome_;
}

net::awaitable<bool> Porter::read_some(Clock::duration patience) {
  net::steady_timer late(executor_, patience);
  late.async_wait(stop_waiting());
  if (!co_await link_.readable()) {
    give_up("the sandbox did not answer in time");
    co_return false;
  }
  if (link_.receive([this](const wire::Frame& frame) { return take_frame(frame); })) co_return true;
  if (!outcome_) give_up("the sandbox's porter is gone");
  co_return false;
}

bool Porter::take_frame(const wire::Frame& frame) {
  if (static_cast<wire::RunnerType>(frame.type) == wire::RunnerType::ready) return true;
  if (outcome_ || !busy_) return false;
  switch (static_cast<wire::PorterReply>(frame.type)) {
    case wire::PorterReply::piece:
      if (!packing_ || frame.payload.empty()) return false;
      pieces_.push_back(frame.payload);
      return true;
    case wire::PorterReply::done:
      if (const auto done = wire::decode<wire::PorterDone>(frame.payload)) outcome_ = *done;
      return outcome_.has_value();
    case wire::PorterReply::failed:
      if (auto failed = wire::decode<wire::PorterFailed>(frame.payload)) {
        outcome_ = std::unexpected(Refusal{.code = std::move(failed->code), .message = std::move(failed->message)});
      }
      return outcome_.has_value();
  }
  return false;
}

net::awaitable<Porter::Outcome> Porter::outcome() {
  while (!outcome_ && !broken_) {
    pieces_.clear();  // nobody wants them any more
    if (!co_await read_some(kPatience)) break;
  }
  if (!outcome_) {
    co_return std::unexpected(
        Refusal{.code = "io_error", .message = failure_.empty() ? "the sandbox's porter is gone" : failure_});
  }
  busy_ = false;
  pieces_.clear();
  auto result = std::move(*outcome_);
  outcome_.reset();
  co_return result;
}

net::awaitable<std::optional<std::string>> Porter::next_piece() {
  while (pieces_.empty() && !outcome_ && !broken_) {
    if (!co_await read_some(kPatience)) break;
  }
  if (pieces_.empty()) co_return std::nullopt;
  std::string piece = std::move(pieces_.front());
  pieces_.pop_front();
  co_return piece;
}

void Porter::give_up(std::string why) {
  broken_ = true;
  if (failure_.empty()) failure_ = std::move(why);
}

void Porter::on_started(const StartedReply& reply, std::vector<UniqueFd> fds) {
  link_.adopt(reply, std::move(fds));
  heard_.set();
}

void Porter::on_failed(const FailedReply& reply) {
  failure_ = reply.message.empty() ? "the sandbox is gone" : reply.message;
  broken_ = true;
  heard_.set();
}

void Porter::on_exited(const ExitedReply&) {
  give_up("the sandbox's porter was killed");
  boost::system::error_code ignored;
  link_.control.cancel(ignored);
  heard_.set();
}

void Porter::on_usage(const UsageNumbers&) {}

void Porter::on_keeper_lost() {
  give_up("every sandbox is gone");
  heard_.set();
}

}  // namespace hutch
