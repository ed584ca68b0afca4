// Puts the heap of a preloaded interpreter where fork(2) is cheap. fork copies page tables only for pages that a
// process owns privately, and that copy is most of what a fork costs; see ARCHITECTURE.md, "Cheap forks".
#pragma once

#include <cstdint>

#include "zygote/memory_map.h"

namespace hutch::heap_image {

// Call once, single-threaded, after the last allocation that every child should share. Returns the bytes moved;
// 0 means that nothing was moved and forks are merely slower.
std::uint64_t make_fork_cheap();

// What the image has for this mapping of it; nothing for any other.
const char* original(const memory_map::Mapping& mapping);

// When one has compared: gives back what that cost.
void look_away();

}  // namespace hutch::heap_image
