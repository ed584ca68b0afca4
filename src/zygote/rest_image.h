// What sessions that rest have changed in the heap image, as further images, one for each kind of session. All of a
// kind come to rest in much the same state: what is the same in this one as in the one that was watched need not be
// its own.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

#include "zygote/memory_map.h"

namespace hutch::rest_image {

inline constexpr std::size_t kMostKinds = 2;

// In the zygote: begins a list of what is to be kept, adds to it in the order of addresses, and copies all of it from
// the memory of that child, which rests. What there is no room for is not kept.
class Maker {
 public:
  Maker();
  ~Maker();
  Maker(const Maker&) = delete;
  Maker& operator=(const Maker&) = delete;

  void add(std::uintptr_t begin, std::size_t size, std::uintptr_t mapping);  // where the one begins that it is in
  void keep(pid_t child, std::size_t kind);

 private:
  struct Pieces;
  Pieces* pieces_ = nullptr;
};

// What one of the images has for this mapping of it; nothing for any other.
const char* original(const memory_map::Mapping& mapping);

// In a session of that kind, which rests, with one thread. `before` is what the heap image has for this mapping of it.
// Maps the image of the kind over what is the same in it and not as before.
void share(std::size_t kind, const memory_map::Mapping& mapping, const char* before);

void look_away();

}  // namespace hutch::rest_image
