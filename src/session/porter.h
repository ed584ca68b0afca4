// Who changes files in a live session: a second process in its sandbox, forked from the same warm interpreter, with no
// more rights than the program, so that space, memory and ownership are the sandbox's own. The program may kill or stop
// it, or race with it; it can lie only about its own files.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "session/denials.h"
#include "session/keeper_link.h"
#include "session/sandbox_link.h"
#include "wire/porter_messages.h"

namespace hutch {

class Porter final : public KeeperListener, public std::enable_shared_from_this<Porter> {
 public:
  // What it could not do, in the words of the file API.
  struct Refusal {
    std::string code;
    std::string message;
  };
  using Outcome = std::expected<wire::PorterDone, Refusal>;

  Porter(net::any_io_executor executor, KeeperLink& keeper);
  ~Porter() override;
  Porter(const Porter&) = delete;
  Porter& operator=(const Porter&) = delete;

  net::awaitable<Result<void>> start(StartRequest request);  // .into names the sandbox

  template <class T>
  net::awaitable<bool> send(wire::PorterTask task, T message) {
    packing_ = task == wire::PorterTask::pack;
    co_return co_await write(wire::make_frame(task, message));
  }
  // False when it is of no more use, or has refused already: then outcome() says why.
  net::awaitable<bool> send_data(std::string_view bytes);
  net::awaitable<Outcome> outcome();
  // The next piece of what it packs; nothing when it has ended, and outcome() says how.
  net::awaitable<std::optional<std::string>> next_piece();

  [[nodiscard]] bool usable() const { return started_ && !broken_ && !busy_; }

 private:
  void on_started(const StartedReply& reply, std::vector<UniqueFd> fds) override;
  void on_failed(const FailedReply& reply) override;
  void on_exited(const ExitedReply& reply) override;
  void on_usage(const UsageNumbers& usage) override;
  void on_limited() override {}
  void on_keeper_lost() override;

  net::awaitable<bool> write(std::string bytes);
  std::function<void(const boost::system::error_code&)> stop_waiting();
  net::awaitable<bool> read_some(Clock::duration patience);
  bool take_frame(const wire::Frame& frame);
  void give_up(std::string why);
  static net::awaitable<void> answer_denials(std::shared_ptr<Porter> self);

  net::any_io_executor executor_;
  KeeperLink& keeper_;
  std::weak_ptr<const void> keeper_lives_;
  SandboxLink link_;
  Denials denials_;
  Event heard_;
  std::deque<std::string> pieces_;
  std::optional<Outcome> outcome_;
  std::string failure_;
  bool started_ = false;
  bool broken_ = false;
  bool busy_ = false;     // a request is under way
  bool packing_ = false;  // and it may send pieces
};

}  // namespace hutch
