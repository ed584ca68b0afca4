// Sandboxes made in advance: runners that have every wall up and have rehearsed, each waiting for its one task. As many
// per template as demand asks for, between a minimum and a maximum; refilled one at a time, and when that takes nothing
// from anybody who waits. Those that are kept back are made also beside programs that run, where their owners pay for
// it, but never in the moment of a start or an answer, nor while sandboxes pile up that are being taken apart.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "session/keeper_link.h"
#include "session/pool_rules.h"
#include "session/sandbox_link.h"
#include "session/task_group.h"

namespace hutch {

struct PoolCounts {
  std::uint64_t hits = 0;    // starts that found one
  std::uint64_t misses = 0;  // starts that found none, and would have taken one
  std::uint32_t ready = 0;
};

class ReadyPool {
 public:
  ReadyPool(net::any_io_executor executor, KeeperLink& keeper, std::size_t templates, PoolOptions options);
  ~ReadyPool();
  ReadyPool(const ReadyPool&) = delete;
  ReadyPool& operator=(const ReadyPool&) = delete;

  // A warm start of this template, from here or not: its shells will be made up for.
  void note_start(std::uint32_t template_index);

  // One that fits the request, never to be returned; nothing when there is none.
  std::optional<SandboxLink> claim(const StartRequest& request);

  // Programs that run now; the pool grows only beside few of them.
  void note_load(std::uint32_t running);
  [[nodiscard]] bool crowded() const { return running_ > options_.cores; }

  // Refills and shrinks, for ever.
  net::awaitable<void> tend();
  [[nodiscard]] PoolCounts counts() const;

 private:
  struct Resting;  // one sandbox
  struct Shelf {   // of one template
    PoolDemand demand;
    std::deque<std::unique_ptr<Resting>> ready;
    bool used = false;  // since shells were last asked for
  };

  [[nodiscard]] bool fits(const StartRequest& request) const;
  [[nodiscard]] bool may_refill() const;
  [[nodiscard]] std::optional<std::uint32_t> next_to_fill() const;
  void shrink();
  void stock_shells();
  net::awaitable<void> make(std::uint32_t index);
  net::awaitable<bool> rest(Resting& resting);
  void drop(Resting& resting);
  void wake() { alarm_.cancel(); }

  net::any_io_executor executor_;
  KeeperLink& keeper_;
  PoolOptions options_;
  std::deque<Shelf> shelves_;  // by the number of the template
  net::steady_timer alarm_;
  Clock::time_point last_claim_;
  Clock::time_point last_end_;
  std::uint32_t running_ = 0;
  PoolCounts counts_;
};

}  // namespace hutch
