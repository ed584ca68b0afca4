// How the kernel shares processors out to this thread.
#pragma once

namespace hutch {

// For a thread that works in short bursts on others' behalf: when it wakes, it goes before those that use up their
// turns. It gets no more time than it would have had. Before Linux 6.12 this changes nothing.
void take_short_turns();

}  // namespace hutch
