// What is left for an init to do once its shell is made: to be there, and to own as little as possible.
#pragma once

namespace hutch {

// Gives back all memory but a few pages: a sandbox holds no copy of its keeper's, and thousands of inits cost little.
[[noreturn]] void rest_for_ever();

}  // namespace hutch
