// The pages that every program touches on its way, found by watching one. They are copied by fork itself, and brought
// into every child that is made in advance, so that its program finds them at hand.
#pragma once

#include <sys/types.h>

namespace hutch::hot_pages {

enum class Which { all, not_inherited };
enum class Of { programs, sessions };

// Remembers what the child `pid` of this process has touched since its fork. False when nothing could be learned;
// then the others do nothing.
bool remember(pid_t pid, Of of);

// In the parent: has them itself from now on, so that fork hands them on.
void own();

// In a child: brings in what was remembered.
void touch(Which which);

// In a child with one thread: gives back, of what was remembered, what it has copied and not changed.
void give_back();

}  // namespace hutch::hot_pages
