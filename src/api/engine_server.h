// The engine as a process: loads the templates, starts the keeper, then serves clients on a Unix socket of mode 0600
// until nobody has asked for anything for a while; or serves one client on a descriptor it was given.
#pragma once

#include <chrono>
#include <string>

#include "base/result.h"
#include "sandbox/limits.h"

namespace hutch {

struct EngineSettings {
  std::chrono::milliseconds idle_exit = std::chrono::minutes(10);
  std::uint32_t most_running = 0;  // 0: four for each core
  std::uint32_t most_waiting = 512;
  std::uint32_t most_sessions = 1'000;
  std::uint32_t pool_least = 1;
  std::uint32_t pool_most = 8;
  LimitCeiling ceiling = LimitCeiling::of_this_machine();  // of what a request may ask for
  [[nodiscard]] std::string identity() const;              // an engine with another one is not used
};

// Returns when the engine has left; what it made is gone by then.
Result<void> serve_engine(const EngineSettings& settings);
// `socket` is connected to the one client; `template_name` is all it serves.
[[noreturn]] void serve_private_engine(const EngineSettings& settings, int socket, const std::string& template_name);

}  // namespace hutch
