// Threads for what would hold up everybody else: hashing, walking directories, writing files. Made by start(), or when
// they are first needed, and of a lower priority than whoever answers. Owners take turns, and each has one thread at a
// time: whoever has much to hash waits for himself.
#pragma once

#include <atomic>
#include <boost/asio/bind_executor.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "base/result.h"
#include "session/task_group.h"
#include "zygote/processors.h"

namespace hutch {

class Workers {
 public:
  using Owner = std::uint64_t;  // as for admission

  explicit Workers(net::any_io_executor home) : home_(std::move(home)) {}

  // Now, while there is room for threads: who serves for long is to hear at once that there is none.
  Result<void> start();

  static Owner owner_of(std::string_view key_id) { return std::hash<std::string_view>{}(key_id); }

  // Whether what begins from now on leaves the spared processors to others.
  void keep_apart(bool apart) { kept_apart_ = apart; }

  // Does `work` over there and comes back with what it returns, or with what it threw. It must touch nothing that
  // others use meanwhile.
  template <class Work>
  net::awaitable<std::invoke_result_t<Work&>> run(Owner owner, Work work) {
    co_await enter(owner);
    std::optional<std::invoke_result_t<Work&>> result;
    std::exception_ptr thrown;
    try {
      const auto there = pool_->context.get_executor();
      co_await net::post(there, net::bind_executor(there, net::use_awaitable));  // bound: it would stay here otherwise
      stand_back();
      choose_processors();
      result.emplace(work());
    } catch (...) {
      thrown = std::current_exception();  // for whoever called, who is at home
    }
    co_await net::post(home_, net::use_awaitable);
    leave(owner);
    if (thrown) std::rethrow_exception(thrown);
    co_return std::move(*result);
  }

 private:
  struct Lane {  // of one owner
    bool at_work = false;
    std::deque<std::shared_ptr<Event>> waiting;
  };
  using Lanes = std::map<Owner, Lane>;

  net::awaitable<void> enter(Owner owner);
  void leave(Owner owner);
  void begin(Lanes::iterator lane);
  static void stand_back();
  void choose_processors() const;

  // Asio's own pool waits for ever for its first thread when the second is refused.
  struct Pool {
    Pool();  // throws std::system_error
    ~Pool() { context.stop(); }

    net::io_context context;
    net::executor_work_guard<net::io_context::executor_type> work{context.get_executor()};
    std::vector<std::jthread> threads;
  };

  net::any_io_executor home_;
  Processors processors_;
  std::atomic<bool> kept_apart_{false};
  std::optional<Pool> pool_;
  Lanes lanes_;  // of those who work or wait
  unsigned at_work_ = 0;
};

}  // namespace hutch
