// A child that is only watched: nobody hears it, and it does what every other will do.
#pragma once

#include <sys/types.h>

namespace hutch::trial {

// In the child: `control` is the only descriptor that leads anywhere.
void be_heard_by_nobody(int control);

// In the parent, which is at the other end: until the child has said something and sleeps. What it said last, it said a
// moment before it comes to rest.
bool comes_to_rest(pid_t child, int heard);

}  // namespace hutch::trial
