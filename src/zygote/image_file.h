// A sealed memory file with what is in memory, and a view of it to compare with.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string_view>

#include "zygote/memory_map.h"

namespace hutch::image_file {

inline constexpr int kDontUnmap = 4;  // MREMAP_DONTUNMAP; Linux 5.13 for files

int make(const char* name, std::size_t size);  // a descriptor, or -1
bool write_fully(int file, const char* from, std::size_t size, off_t at);
// Whoever gets hold of the file can never change what every later fork will read.
bool seal(int file);

// Private and for reading; empty when there is none.
struct View {
  char* begin = nullptr;
  std::size_t size = 0;
};
View view(int file, std::size_t size);

// What the view has for this mapping of the file that is called `name` there; nothing for any other.
const char* find(const View& view, const memory_map::Mapping& mapping, std::string_view name);

// When one has compared: gives back what that cost.
void look_away(View& view);

}  // namespace hutch::image_file
