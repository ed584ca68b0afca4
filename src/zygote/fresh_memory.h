// New objects of a warm interpreter land in the gaps that its imports left, and each gap is in another page, which
// every child has to copy. Once the gaps are filled, new objects lie side by side in pages of their own.
#pragma once

namespace hutch::fresh_memory {

// Takes every gap for ever. Call before the heap becomes an image, single-threaded.
void fill_gaps();

}  // namespace hutch::fresh_memory
