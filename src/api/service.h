// All that a daemon consists of but its listeners, opened in the order in which it must be: the keeper forks before
// there is any thread.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <string>

#include "api/daemon.h"

namespace hutch {

enum class Priority : std::uint8_t { as_programs, before_programs };

struct Service {
  // Makes the directories of `settings.data` and takes its lock.
  static Result<std::unique_ptr<Service>> open(ServeSettings settings, const std::string& version, Priority priority);

  Service() = default;
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  ServeSettings settings;
  UniqueFd lock;
  net::io_context context{1};
  std::optional<Engine> engine;
  std::optional<Database> database;
  std::optional<Stores> stores;
  std::optional<Daemon> daemon;
};

}  // namespace hutch
