// A whole daemon without a listener, in this process: for the commands that need no server. What it keeps goes into a
// directory of its own and is gone at the end.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <string>

#include "api/daemon.h"

namespace hutch {

class LocalService {
 public:
  // Before any thread is started: it forks.
  static Result<std::unique_ptr<LocalService>> start(ServeSettings settings, const std::string& version);
  ~LocalService();
  LocalService(const LocalService&) = delete;
  LocalService& operator=(const LocalService&) = delete;

  [[nodiscard]] net::io_context& context();
  [[nodiscard]] Daemon& daemon();
  [[nodiscard]] Caller owner() const;  // who may do everything here
  // Runs the event loop until `work` is over, then ends every session.
  void run(net::awaitable<void> work);

 private:
  struct State;
  explicit LocalService(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace hutch
