// The pages that every program touches on its way, found by watching one. They are copied by fork itself, and brought
// into every child that is made in advance, so that its program finds them at hand.
#pragma once

#include <sys/types.h>

#include <cstddef>

namespace hutch::hot_pages {

enum class Which { all, not_inherited };

// In a child that is to be watched: lets go of the pages of files that it has from its parent, and has each that it
// uses come back alone: the kernel brings neighbours along only within a mapping, so every other page becomes one.
void come_alone();

// Remembers what the child `pid` of this process, which ran a program, has touched since its fork. False when nothing
// could be learned; then the others do nothing.
bool remember(pid_t pid);
// The same for one that is a session of that kind, and rests: first as it rests when little was done in it, then what
// it has touched when more was.
void remember_session(pid_t pid, std::size_t kind);
void remember_more(pid_t pid, std::size_t kind);

// In the parent: has them itself from now on, so that fork hands them on.
void own();

// In a child: brings in what was remembered.
void touch(Which which);

// In a child with one thread, a session of that kind: gives back, of what was remembered, what it has copied and not
// changed, or changed as every session does.
void give_back(std::size_t kind);

}  // namespace hutch::hot_pages
