#include "zygote/fresh_memory.h"

#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>

namespace hutch::fresh_memory {
namespace {

constexpr std::size_t kWord = 16;            // what both allocators round to
constexpr std::size_t kMostOfObjects = 512;  // larger ones CPython leaves to malloc
constexpr std::size_t kMostOfSmallChunks = 1024;
constexpr int kInARow = 8;                    // so many neighbours in turn are no gap any more
constexpr std::size_t kMostBytes = 4U << 20;  // of one size: another allocator may never put two side by side

template <class Allocate>
void fill(std::size_t size, std::size_t stride, Allocate allocate) {
  std::uintptr_t last = 0;
  int in_a_row = 0;
  for (std::size_t filled = 0; filled < kMostBytes && in_a_row < kInARow; filled += size) {
    const auto next = reinterpret_cast<std::uintptr_t>(allocate(size));
    in_a_row = next == last + stride ? in_a_row + 1 : 0;
    last = next;
  }
}

}  // namespace

void fill_gaps() {
  for (std::size_t size = kWord; size <= kMostOfObjects; size += kWord) fill(size, size, PyObject_Malloc);
  const auto chunk = [](std::size_t size) { fill(size - sizeof(std::size_t), size, std::malloc); };
  // Large ones first: the rest of a large gap would be cut up for the small.
  for (const std::size_t size : {65536U, 32768U, 16384U, 8192U, 4096U, 2048U}) chunk(size);
  for (std::size_t size = kMostOfSmallChunks; size >= 2 * kWord; size -= kWord) chunk(size);
}

}  // namespace hutch::fresh_memory
