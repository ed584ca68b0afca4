// Which sandboxes are to move to other processors, and how far that has come. One may have thousands of threads, and
// when processors are no longer spared thousands of sandboxes move at once: whoever waits for the keeper waits for a
// few threads only.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <vector>

namespace hutch {

class Moves {
 public:
  using List = std::function<std::vector<pid_t>(std::uint64_t run)>;  // its threads now
  using Move = std::function<void(std::uint64_t run, pid_t thread)>;

  // Begins anew with one that is under way: it may go elsewhere now.
  void add(std::uint64_t run) { waiting_.insert_or_assign(run, Progress{}); }
  [[nodiscard]] bool empty() const { return waiting_.empty(); }

  // A few of them. Each is listed twice: who is just being born has what its parent had.
  void go_on(const List& list, const Move& move);

  static constexpr std::size_t kAtOnce = 256;  // threads
  static constexpr std::size_t kListing = 16;  // what asking for a list takes, in threads

 private:
  struct Progress {
    int lists_left = 2;
    std::vector<pid_t> threads;  // of the last list, still to be moved
  };

  std::map<std::uint64_t, Progress> waiting_;  // by run
};

}  // namespace hutch
