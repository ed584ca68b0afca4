// /proc/<pid>/maps, smaps and pagemap, read without allocating: whoever looks at its own memory must not change it.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace hutch::memory_map {

inline constexpr std::size_t kPage = 4096;

// Bits of a pagemap entry that need no privilege.
inline constexpr std::uint64_t kPresent = 1ULL << 63;
inline constexpr std::uint64_t kSwapped = 1ULL << 62;
inline constexpr std::uint64_t kOfFile = 1ULL << 61;
inline constexpr std::uint64_t kExclusive = 1ULL << 56;  // mapped by this process alone

struct Mapping {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::uint64_t offset = 0;  // in the file
  bool readable = false, writable = false, executable = false, is_private = false;
  std::string_view name;  // a path, "[heap]", "[stack]", or nothing
  [[nodiscard]] std::size_t size() const { return end - begin; }
  [[nodiscard]] bool of_file() const { return name.starts_with('/'); }
};

inline std::uintptr_t hexadecimal(const char*& at) {
  std::uintptr_t value = 0;
  for (;; ++at) {
    if (*at >= '0' && *at <= '9') {
      value = value << 4 | static_cast<std::uintptr_t>(*at - '0');
    } else if (*at >= 'a' && *at <= 'f') {
      value = value << 4 | static_cast<std::uintptr_t>(*at - 'a' + 10);
    } else {
      return value;
    }
  }
}

// One line: "begin-end rwxp offset dev inode   path".
inline Mapping parse_line(std::string_view line) {
  Mapping mapping;
  const char* at = line.data();
  mapping.begin = hexadecimal(at);
  ++at;
  mapping.end = hexadecimal(at);
  ++at;
  mapping.readable = at[0] == 'r';
  mapping.writable = at[1] == 'w';
  mapping.executable = at[2] == 'x';
  mapping.is_private = at[3] == 'p';
  const std::size_t name = line.find_first_of("[/", static_cast<std::size_t>(at - line.data()));
  at += 5;
  mapping.offset = hexadecimal(at);
  if (name != std::string_view::npos) mapping.name = line.substr(name);
  return mapping;
}

// Calls `each(line)` for every line of the file at `path`; false when it cannot be read, does not fit into `scratch`,
// or `each` says so.
template <class Each>
bool for_each_line(const char* path, char* scratch, std::size_t room, Each each) {
  const int maps = ::open(path, O_RDONLY | O_CLOEXEC);
  if (maps < 0) return false;
  std::size_t size = 0;
  ssize_t got = 0;
  while (size + 1 < room && (got = ::read(maps, scratch + size, room - size - 1)) > 0) {
    size += static_cast<std::size_t>(got);
  }
  ::close(maps);
  if (got != 0) return false;
  std::string_view rest{scratch, size};
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    if (!each(rest.substr(0, end))) return false;
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  return true;
}

// The same with `each(mapping)`, for maps.
template <class Each>
bool for_each_mapping(const char* path, char* scratch, std::size_t room, Each each) {
  return for_each_line(path, scratch, room, [&each](std::string_view line) { return each(parse_line(line)); });
}

// The same with `each(mapping, flags)`, for smaps, which takes the kernel several times as long: after the line of maps
// come others, each with a capital letter at its beginning, and the flags last.
template <class Each>
bool for_each_mapping_with_flags(const char* path, char* scratch, std::size_t room, Each each) {
  constexpr std::string_view kFlags = "VmFlags:";
  Mapping mapping;
  return for_each_line(path, scratch, room, [&](std::string_view line) {
    if (line.starts_with(kFlags)) return each(mapping, line.substr(kFlags.size()));
    if (line.empty() || line[0] < 'A' || line[0] > 'Z') mapping = parse_line(line);
    return true;
  });
}

// Calls `each(first page, pages, entries)` for each window of the pagemap of [begin, end).
template <class Each>
bool for_each_window(int pagemap, std::uintptr_t begin, std::uintptr_t end, std::uint64_t* window, std::size_t room,
                     Each each) {
  const std::size_t first = begin / kPage;
  const std::size_t pages = (end - begin) / kPage;
  for (std::size_t done = 0; done < pages;) {
    const std::size_t batch = pages - done < room ? pages - done : room;
    const ssize_t got = ::pread(pagemap, window, batch * sizeof(std::uint64_t),
                                static_cast<off_t>((first + done) * sizeof(std::uint64_t)));
    if (got != static_cast<ssize_t>(batch * sizeof(std::uint64_t))) return false;
    each(done, batch);
    done += batch;
  }
  return true;
}

}  // namespace hutch::memory_map
