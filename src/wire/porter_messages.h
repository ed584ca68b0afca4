// What the engine and a session's porter say to each other: changes to files, made inside the sandbox by somebody who
// has no more rights than the program. One request at a time; each is answered by one `done` or one `failed`.
// runner/hutch_runner/porter.py is the other half of this file.
#pragma once

#include <cstdint>
#include <string>

namespace hutch::wire {

inline constexpr std::size_t kPorterPiece = 256U << 10;  // of a file, sent at once

// `data` and `piece` carry bytes and nothing else. `write` and `unpack` are followed by `data`, then `end` or `abort`;
// so is `write_files`, with a `next_file` before the data of each. They appear together, or none of them does.
enum class PorterTask : std::uint8_t {
  write = 10,
  data,
  end,
  abort,
  remove,
  make_directory,
  move,
  pack,
  unpack,
  write_files,
  next_file,
};
enum class PorterReply : std::uint8_t { done = 80, failed, piece };
enum class ArchiveFormat : std::uint8_t { tar, zip, last = zip };

struct WriteFile {
  std::string path;
  bool executable = false;
  bool exclusive = false;  // fail when it exists
  template <class A>
  void fields(A& a) {
    a(path), a(executable), a(exclusive);
  }
};

struct NextFile {
  std::string path;
  template <class A>
  void fields(A& a) {
    a(path);
  }
};

struct RemovePath {
  std::string path;
  bool recursive = false;
  template <class A>
  void fields(A& a) {
    a(path), a(recursive);
  }
};

struct MakeDirectory {
  std::string path;
  template <class A>
  void fields(A& a) {
    a(path);
  }
};

struct MovePath {
  std::string from, to;
  bool overwrite = false;
  template <class A>
  void fields(A& a) {
    a(from), a(to), a(overwrite);
  }
};

struct PackTree {
  std::string path;  // empty: the whole workspace
  ArchiveFormat format = ArchiveFormat::tar;
  template <class A>
  void fields(A& a) {
    a(path), a(format);
  }
};

struct UnpackTree {
  std::string path;
  ArchiveFormat format = ArchiveFormat::tar;
  std::uint32_t most_files = 0;
  template <class A>
  void fields(A& a) {
    a(path), a(format), a(most_files);
  }
};

struct PorterNothing {
  template <class A>
  void fields(A&) {}
};

struct PorterDone {
  bool created = false;  // there was nothing of that name before
  std::uint32_t count = 0;
  std::uint64_t size = 0;
  template <class A>
  void fields(A& a) {
    a(created), a(count), a(size);
  }
};

struct PorterFailed {
  std::string code;
  std::string message;
  template <class A>
  void fields(A& a) {
    a(code), a(message);
  }
};

}  // namespace hutch::wire
