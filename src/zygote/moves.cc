#include "zygote/moves.h"

namespace hutch {

void Moves::go_on(const List& list, const Move& move) {
  for (std::size_t spent = 0; spent < kAtOnce && !waiting_.empty();) {
    const auto next = waiting_.begin();
    auto& [run, progress] = *next;
    if (progress.threads.empty() && progress.lists_left > 0) {
      --progress.lists_left;
      progress.threads = list(run);
      spent += kListing;
    }
    for (; spent < kAtOnce && !progress.threads.empty(); ++spent) {
      move(run, progress.threads.back());
      progress.threads.pop_back();
    }
    if (progress.threads.empty() && progress.lists_left == 0) waiting_.erase(next);
  }
}

}  // namespace hutch
