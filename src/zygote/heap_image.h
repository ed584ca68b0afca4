// Puts the heap of a preloaded interpreter where fork(2) is cheap. fork copies page tables only for pages that a
// process owns privately, and that copy is most of what a fork costs; see ARCHITECTURE.md, "Cheap forks".
#pragma once

#include <cstdint>

namespace hutch::heap_image {

// Call once, single-threaded, after the last allocation that every child should share. Returns the bytes moved;
// 0 means that nothing was moved and forks are merely slower.
std::uint64_t make_fork_cheap();

// What the image has for the page at `address`; nothing when it is in none. After forget_originals(), nothing is.
const char* original(std::uintptr_t address);
void forget_originals();

}  // namespace hutch::heap_image
