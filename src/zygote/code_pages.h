// How a zygote's code lies in memory: every fork, every exit and every first use of a page pays for that.
#pragma once

namespace hutch::code_pages {

// A library's headers and constants lie on both sides of its code, in mappings of their own only because they are not
// to be executed. They become one: each mapping costs every fork and every child's memory.
void join();

// The code around `inside`, as much of it as fills huge pages, is copied into such: one entry in the page tables
// instead of 512 for a child to be given and to give back, and for the processor to remember. Where there are none it
// stays as it is.
void make_huge(const void* inside);

// Nothing that is executable is writable, before or after.

}  // namespace hutch::code_pages
