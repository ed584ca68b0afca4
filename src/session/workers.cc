#include "session/workers.h"

#include <unistd.h>

#include <system_error>
#include <utility>

namespace hutch {
namespace {

constexpr unsigned kThreads = 2;

}  // namespace

Workers::Pool::Pool() {
  try {
    while (threads.size() < kThreads) threads.emplace_back([this] { context.run(); });
  } catch (...) {
    context.stop();  // those that there are are waited for
    throw;
  }
}

Result<void> Workers::start() {
  try {
    if (!pool_) pool_.emplace();
  } catch (const std::system_error& failed) {
    return system_error(failed.code().value()).during("make threads for files");
  }
  return {};
}

net::awaitable<void> Workers::enter(Owner owner) {
  if (!pool_) pool_.emplace();
  const auto lane = lanes_.try_emplace(owner).first;
  if (!lane->second.at_work && at_work_ < kThreads) {
    lane->second.at_work = true;
    ++at_work_;
    co_return;
  }
  const auto turn = std::make_shared<Event>(home_);  // shared: this may be gone before whoever leaves
  lane->second.waiting.push_back(turn);
  try {
    co_await turn->wait();
  } catch (...) {  // out of memory: the turn is another's
    if (turn->is_set()) {
      leave(owner);
    } else {
      std::erase(lanes_[owner].waiting, turn);
    }
    throw;
  }
}

void Workers::begin(Lanes::iterator lane) {
  lane->second.at_work = true;
  ++at_work_;
  lane->second.waiting.front()->set();
  lane->second.waiting.pop_front();
}

// The place goes to the owner who comes next, in the order of their numbers, and back to this one last.
void Workers::leave(Owner owner) {
  --at_work_;
  const auto left = lanes_.find(owner);
  left->second.at_work = false;
  auto next = left;
  do {
    if (++next == lanes_.end()) next = lanes_.begin();
  } while (next != left && (next->second.at_work || next->second.waiting.empty()));
  if (!next->second.at_work && !next->second.waiting.empty()) begin(next);
  if (!left->second.at_work && left->second.waiting.empty()) lanes_.erase(left);
}

// The priority is the thread's alone, as Linux has it.
void Workers::stand_back() {
  constexpr int kBehind = 10;
  [[maybe_unused]] thread_local const int lowered = ::nice(kBehind);
}

// A low priority is not enough: where the kernel shares the processors out by sessions it counts within the daemon
// only, and a program that has just begun would wait behind whoever hashes the files of another.
void Workers::choose_processors() const {
  thread_local Place mine = Place::anywhere;
  const Place place = kept_apart_ ? Place::others : Place::anywhere;
  if (std::exchange(mine, place) != place) processors_.give(0, place);
}

}  // namespace hutch
