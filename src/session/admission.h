// Who may run now. At most so many at once; the others wait, and owners take turns, so that one with a hundred requests
// does not keep out another with one. Sandboxes that are still being taken apart count once there are many of them.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <optional>

#include "base/result.h"
#include "session/task_group.h"

namespace hutch {

struct AdmissionOptions {
  std::uint32_t most_running = 16;
  std::uint32_t most_waiting = 512;
  std::uint32_t backlog = 16;  // sandboxes being taken apart that nobody need wait for
  std::uint32_t reserve = 0;   // more places, for owners who have nothing running and little of late
  Clock::duration lately = std::chrono::seconds(10);
};

class Admission {
 public:
  using Owner = std::uint64_t;

  Admission(net::any_io_executor executor, AdmissionOptions options) : executor_(executor), options_(options) {}

  class Turn;  // of somebody who waits, and may give up

  // True: whoever called runs, and calls leave() when it is over. False when too many wait already, or it gave up.
  net::awaitable<bool> enter(Owner owner, Turn& turn);
  void leave(Owner owner, Clock::duration took);
  // Without waiting; false when one would have to.
  bool try_enter(Owner owner);
  [[nodiscard]] bool may_enter(Owner owner) const;
  // Somebody who is served already and needs a place again: waits however many others do.
  net::awaitable<bool> enter_again(Owner owner, Turn& turn);
  void give_up(Turn& turn);  // nothing happens when it was that one's turn already

  // Of late somebody who asks for little has passed those who wait.
  [[nodiscard]] bool some_ask_for_little() const { return passed_ && Clock::now() - *passed_ < kOfLate; }

  // How many sandboxes are being taken apart.
  void note_dying(std::size_t count);

  // When a place may be free, from how long runs took lately.
  [[nodiscard]] std::chrono::milliseconds retry_after() const;
  [[nodiscard]] std::uint32_t running() const { return all_.running(); }
  [[nodiscard]] std::uint32_t waiting() const { return waiting_; }
  [[nodiscard]] std::uint32_t most_running() const { return options_.most_running; }

 private:
  struct Line {  // of one owner
    Owner owner = 0;
    std::deque<Turn*> turns;
  };

  // How many places somebody has, and has had on average of late.
  class Use {
   public:
    void change(std::int32_t by, const Admission& of);
    [[nodiscard]] std::uint32_t running() const { return running_; }
    [[nodiscard]] double of_late(const Admission& of) const;

   private:
    std::uint32_t running_ = 0;
    double mean_ = 0;
    Clock::time_point since_ = Clock::now();
  };

  [[nodiscard]] bool has_room(Owner owner) const;
  [[nodiscard]] bool may_use_reserve(Owner owner) const;
  void take_place(Owner owner);
  void admit_next();

  net::any_io_executor executor_;
  AdmissionOptions options_;
  std::list<Line> lines_;      // whoever is in front goes next, and then to the back
  std::map<Owner, Use> uses_;  // of owners who had a place of late
  Use all_;
  static constexpr std::chrono::seconds kOfLate{2};
  std::optional<Clock::time_point> passed_;
  std::uint32_t waiting_ = 0;
  std::size_t dying_ = 0;
  double mean_ms_ = 100;
};

class Admission::Turn {
 public:
  explicit Turn(const net::any_io_executor& executor) : over_(executor) {}

 private:
  friend class Admission;
  Event over_;
  bool has_place_ = false;
};

}  // namespace hutch
