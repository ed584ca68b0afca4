#include "zygote/image_file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace hutch::image_file {

int make(const char* name, std::size_t size) {
  constexpr unsigned kNoExecSeal = 8;  // Linux 6.3
  int file = ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING | kNoExecSeal);
  if (file < 0) file = ::memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (file >= 0 && ::ftruncate(file, static_cast<off_t>(size)) != 0) {
    ::close(file);
    return -1;
  }
  return file;
}

bool write_fully(int file, const char* from, std::size_t size, off_t at) {
  while (size > 0) {
    const ssize_t put = ::pwrite(file, from, size, at);
    if (put <= 0) return false;
    from += put;
    size -= static_cast<std::size_t>(put);
    at += put;
  }
  return true;
}

bool seal(int file) {
  return ::fcntl(file, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0;
}

View view(int file, std::size_t size) {
  void* begin = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file, 0);
  if (begin == MAP_FAILED) return {};
  return {.begin = static_cast<char*>(begin), .size = size};
}

const char* find(const View& view, const memory_map::Mapping& mapping, std::string_view name) {
  if (!mapping.readable || !mapping.name.starts_with(name) || mapping.offset > view.size) return nullptr;
  return mapping.size() <= view.size - mapping.offset ? view.begin + mapping.offset : nullptr;
}

// Moved away, the mapping leaves an empty one behind and takes its page tables with it, whole ones if it moves by a
// multiple of what one covers.
void look_away(View& view) {
  constexpr std::uintptr_t kTable = 2U << 20;
  if (view.begin == nullptr) return;
  const View seen = view;
  const std::size_t room = seen.size + kTable;
  void* aside = ::mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (aside == MAP_FAILED) return;
  const auto distance = reinterpret_cast<std::uintptr_t>(seen.begin) - reinterpret_cast<std::uintptr_t>(aside);
  const void* moved = ::mremap(seen.begin, seen.size, seen.size, MREMAP_MAYMOVE | MREMAP_FIXED | kDontUnmap,
                               static_cast<char*>(aside) + distance % kTable);
  ::munmap(aside, room);
  if (moved != MAP_FAILED) return;
  view = {};  // an older kernel: this was the last time
  ::munmap(seen.begin, seen.size);
}

}  // namespace hutch::image_file
