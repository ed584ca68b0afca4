// A thread for what would hold up everybody else: hashing, walking directories, writing files. Made when it is first
// needed, and of a lower priority than whoever answers.
#pragma once

#include <unistd.h>

#include <boost/asio/bind_executor.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>
#include <optional>
#include <tuple>
#include <type_traits>

#include "session/task_group.h"

namespace hutch {

class Workers {
 public:
  explicit Workers(net::any_io_executor home) : home_(std::move(home)) {}

  // Does `work` over there and comes back with what it returns. It must touch nothing that others use meanwhile.
  template <class Work>
  net::awaitable<std::invoke_result_t<Work&>> run(Work work) {
    if (!pool_) start();
    co_await net::post(*pool_, net::bind_executor(*pool_, net::use_awaitable));  // bound: it would stay here otherwise
    auto result = work();
    co_await net::post(home_, net::use_awaitable);
    co_return result;
  }

 private:
  void start() {
    constexpr int kBehind = 10;
    pool_.emplace(1);
    net::post(*pool_, [] { std::ignore = ::nice(kBehind); });  // of this thread only, as Linux has it
  }

  net::any_io_executor home_;
  std::optional<net::thread_pool> pool_;
};

}  // namespace hutch
