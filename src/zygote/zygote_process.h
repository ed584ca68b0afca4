// A zygote as the keeper sees it: a warm interpreter at the end of a socket, which forks runners on request.
#pragma once

#include <sys/types.h>

#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "zygote/template.h"
#include "zygote/zygote_messages.h"

namespace hutch {

// Gives a child the dispositions and the mask that a program expects; the keeper ignores and blocks what is not for it.
void restore_signals();

// Environment of an interpreter, warm or cold: the template's, on top of the few variables that every program expects.
std::vector<std::string> interpreter_environment(const Template& source);

class ZygoteProcess {
 public:
  // Starts the interpreter inside the template's root; it is ready when ready() says so.
  static Result<ZygoteProcess> start(const Template& source, int template_mounts, int own_pid_namespace, Step fault);
  // One that is at the other end of this socket, whoever started it.
  static ZygoteProcess at(UniqueFd socket);

  ZygoteProcess(ZygoteProcess&&) = default;
  ZygoteProcess& operator=(ZygoteProcess&&) = default;

  [[nodiscard]] pid_t pid() const { return pid_; }
  [[nodiscard]] int socket() const { return socket_.get(); }
  [[nodiscard]] bool ready() const { return ready_; }
  [[nodiscard]] bool lost() const { return lost_; }  // of no more use
  [[nodiscard]] std::uint64_t forks() const { return forks_; }
  [[nodiscard]] std::uint64_t image() const { return image_; }  // bytes that every fork shares

  // The socket is readable for the first time.
  Result<void> receive_ready();
  // A fork of it becomes a runner in a shell; its pid is one of the keeper's namespace. Only one that is ready is
  // asked. Each request is answered once, when the socket is readable or after a while.
  Result<void> ask_for_runner(const ForkRequest& request, std::span<const int> fds);
  Result<ForkReply> receive_runner();

 private:
  ZygoteProcess() = default;

  pid_t pid_ = -1;
  UniqueFd socket_;
  bool ready_ = false;
  bool lost_ = false;
  std::uint64_t forks_ = 0;
  std::uint64_t image_ = 0;
};

}  // namespace hutch
