// The pages that every program touches on its way, found by watching one and brought into every child that is made in
// advance, so that its program finds them at hand.
#pragma once

#include <sys/types.h>

namespace hutch::hot_pages {

// Remembers what the child `pid` of this process has touched since its fork. False when nothing could be learned;
// then touch() does nothing.
bool remember(pid_t pid);

// In a child: brings in what was remembered.
void touch();

}  // namespace hutch::hot_pages
