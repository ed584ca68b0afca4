// Fewer mappings: each costs every fork, every exit and every child's memory.
#pragma once

namespace hutch::joined_code {

// A library's headers and constants lie on both sides of its code, in mappings of their own only because they are not
// to be executed. They become one. Nothing that is executable is writable, before or after.
void join();

}  // namespace hutch::joined_code
