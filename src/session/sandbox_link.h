// The engine's hold on one sandbox: the descriptors that the keeper handed over, and what came in through them before
// anybody's code ran.
#pragma once

#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <cstdint>
#include <functional>
#include <vector>

#include "base/unique_fd.h"
#include "sandbox/cgroup.h"
#include "session/task_group.h"
#include "wire/frame.h"
#include "wire/runner_messages.h"
#include "zygote/keeper_messages.h"

namespace hutch {

class SandboxLink {
 public:
  explicit SandboxLink(const net::any_io_executor& executor);

  void adopt(const StartedReply& reply, std::vector<UniqueFd> fds);
  void close();  // everything but the workspace

  [[nodiscard]] bool is_dead();  // its runner has hung up

  // Reads what is there. Whole frames go to `handle`, until it says false; false when there is nothing more to come:
  // the sandbox hung up, talked nonsense, or `handle` said so. Until `ready` a descriptor may come along; afterwards
  // there is no room for one, so none can be smuggled in.
  bool receive(const std::function<bool(const wire::Frame&)>& handle);
  net::awaitable<bool> readable();
  void expect_frames_of(std::uint32_t most_bytes) { frames_.set_cap(most_bytes); }

  std::uint64_t number = 0;  // as the keeper knows it
  StartedReply started;
  std::vector<std::uint64_t> join_steps;  // when the first began and when each ended, in nanoseconds
  bool walls_up = false;                  // its runner said `ready`
  std::uint64_t cpu_before_us = 0;        // used before the program's own

  UniqueFd workspace;
  net::posix::stream_descriptor input, output, error, listener;
  net::local::stream_protocol::socket control;
  CgroupHandle cgroup;

 private:
  wire::FrameBuffer frames_{wire::kMaxIdleFrame};
};

}  // namespace hutch
