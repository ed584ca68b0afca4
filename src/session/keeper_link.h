// The engine's end of the conversation with the keeper: requests go out at once, replies reach the run they name.
#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "session/task_group.h"
#include "zygote/keeper.h"

namespace hutch {

// What a run hears from the keeper. Called on the engine's thread.
class KeeperListener {
 public:
  virtual ~KeeperListener() = default;
  virtual void on_started(const StartedReply& reply, std::vector<UniqueFd> fds) = 0;
  virtual void on_failed(const FailedReply& reply) = 0;
  virtual void on_exited(const ExitedReply& reply) = 0;
  virtual void on_usage(const UsageNumbers& usage) = 0;
  virtual void on_limited() = 0;
  virtual void on_keeper_lost() = 0;
  // It answers nobody, or does so again.
  virtual void on_keeper_stuck(bool /*stuck*/) {}
};

class KeeperLink {
 public:
  KeeperLink(const net::any_io_executor& executor, KeeperHandle keeper);

  ~KeeperLink();  // hangs up, and waits for the keeper's own end
  KeeperLink(const KeeperLink&) = delete;
  KeeperLink& operator=(const KeeperLink&) = delete;

  // Expired when it is gone: for a listener that may be destroyed later.
  [[nodiscard]] std::weak_ptr<const void> life() const { return life_; }
  void wait_until_gone();  // the same, but only until the keeper has taken everything apart
  [[nodiscard]] const KeeperHello& hello() const { return hello_; }
  [[nodiscard]] bool lost() const { return lost_; }
  [[nodiscard]] int counts() const { return counts_.get(); }  // for handles of control groups

  std::uint64_t enlist(KeeperListener& listener);  // the run's number
  void hand_over(std::uint64_t run, KeeperListener& listener) { runs_[run] = &listener; }
  void dismiss(std::uint64_t run);

  // Its listener hears `on_started` while the runner is being forked; that it lives is known from its own first word.
  Result<void> start(const StartRequest& request);
  void note_ready(std::uint64_t run) { unanswered_.erase(run); }
  void signal(std::uint64_t run, int number);
  void kill_others(std::uint64_t run);  // than its runner
  void ask_usage(const UsageRequest& request);
  void limit(const LimitRequest& request);
  void spare(const SpareRequest& request);
  // Of processors: how often that was begun, and 0 while none are spared.
  [[nodiscard]] std::uint64_t sparing() const { return spares_ ? spared_ : 0; }
  void place(const PlaceRequest& request);
  void settle(const SettleRequest& request);
  void stock(const StockRequest& request);
  enum class Pace { at_once, leisurely };  // when its program is over and others need the processors
  void release(std::uint64_t run, Pace pace = Pace::at_once);
  net::awaitable<std::uint64_t> measure_fork(std::uint32_t template_index);  // nanoseconds; 0: it cannot be told

  // Sandboxes that are being taken apart, without those that the keeper lets rest first. `on_gone` hears of each that
  // is gone.
  [[nodiscard]] std::size_t dying() const {
    return dying_.size() + (leisurely_.size() > kMostAsleep ? leisurely_.size() - kMostAsleep : 0);
  }
  [[nodiscard]] std::size_t dying_or_asleep() const { return dying_.size() + leisurely_.size(); }
  std::function<void()> on_gone;

  net::awaitable<void> listen();  // until the keeper is gone

 private:
  template <class T>
  Result<void> send(KeeperRequestKind kind, const T& message);
  bool send_now(const std::string& packet);
  void wait_for_room();
  void await_answer();
  void dispatch(std::string_view packet, std::vector<UniqueFd> attached);

  KeeperHello hello_;
  UniqueFd counts_;
  pid_t pid_;
  net::posix::stream_descriptor socket_;
  std::map<std::uint64_t, KeeperListener*> runs_;
  std::set<std::uint64_t> dying_;
  std::set<std::uint64_t> leisurely_;
  std::deque<std::string> waiting_;                        // for room in the socket
  std::map<std::uint64_t, Clock::time_point> unanswered_;  // starts
  Clock::time_point answered_;
  net::steady_timer alarm_;
  bool alarmed_ = false;
  bool stuck_ = false;
  struct Measuring {
    Event done;
    std::uint64_t ns = 0;
  };
  std::deque<Measuring*> measuring_;
  std::uint64_t next_run_ = 1;
  std::uint64_t spared_ = 0;  // how often
  bool spares_ = false;
  bool lost_ = false;
  std::shared_ptr<const void> life_ = std::make_shared<const char>();
};

}  // namespace hutch
