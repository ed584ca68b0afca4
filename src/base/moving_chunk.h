// Room to move bytes through, one per thread, made when it is first used. What is in it does not outlive a wait.
#pragma once

#include <memory>
#include <span>

namespace hutch {

inline std::span<char> moving_chunk() {
  constexpr std::size_t kSize = 64U << 10;
  static thread_local const auto bytes = std::make_unique_for_overwrite<char[]>(kSize);
  return {bytes.get(), kSize};
}

}  // namespace hutch
