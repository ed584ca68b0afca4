#include "zygote/rest_image.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstring>
#include <span>

#include "zygote/image_file.h"

namespace hutch::rest_image {
namespace {

using memory_map::kPage;

constexpr std::array kNames = {"hutch-rest-1", "hutch-rest-2"};
constexpr std::array<std::string_view, kMostKinds> kMapped = {"/memfd:hutch-rest-1", "/memfd:hutch-rest-2"};
constexpr std::size_t kMostPieces = 1'000;
constexpr std::size_t kBridge = 8 * kPage;  // of what did not change: one mapping costs less than two

// What was at `begin` is at `offset` of the image.
struct Piece {
  std::uintptr_t begin = 0;
  std::size_t size = 0;
  std::uintptr_t mapping = 0;
  std::size_t offset = 0;
  [[nodiscard]] std::uintptr_t end() const { return begin + size; }
};

constexpr std::size_t kListSize = (sizeof(std::size_t) + sizeof(Piece) * kMostPieces + kPage - 1) / kPage * kPage;

std::array<image_file::View, kMostKinds> images;  // each the list of pieces, then they

std::span<const Piece> pieces_of(const image_file::View& image) {
  std::size_t pieces = 0;
  std::memcpy(&pieces, image.begin, sizeof(pieces));
  return {reinterpret_cast<const Piece*>(image.begin + sizeof(pieces)), pieces};
}

bool copy(int from, std::uintptr_t at, std::size_t size, int to, std::size_t offset) {
  char buffer[16 * kPage];
  while (size > 0) {
    const ssize_t got = ::pread(from, buffer, std::min(size, sizeof(buffer)), static_cast<off_t>(at));
    if (got <= 0 || !image_file::write_fully(to, buffer, static_cast<std::size_t>(got), static_cast<off_t>(offset))) {
      return false;
    }
    at += static_cast<std::size_t>(got);
    offset += static_cast<std::size_t>(got);
    size -= static_cast<std::size_t>(got);
  }
  return true;
}

void map_over(std::uintptr_t begin, std::size_t size, const char* from) {
  void* place = reinterpret_cast<void*>(begin);
  // A copy of the mapping that we look through: nobody here has the file open.
  if (::mremap(const_cast<char*>(from), size, size, MREMAP_MAYMOVE | MREMAP_FIXED | image_file::kDontUnmap, place) !=
      place) {
    ::_exit(125);  // what was there may be gone
  }
  if (::mprotect(place, size, PROT_READ | PROT_WRITE) != 0) ::_exit(125);
}

bool is_same(std::uintptr_t page, const char* as) {
  return std::memcmp(reinterpret_cast<const void*>(page), as, kPage) == 0;
}

}  // namespace

struct Maker::Pieces {
  std::size_t count = 0;
  Piece list[kMostPieces];
};

Maker::Maker() {
  void* room = ::mmap(nullptr, sizeof(Pieces), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (room != MAP_FAILED) pieces_ = static_cast<Pieces*>(room);
}

Maker::~Maker() {
  if (pieces_ != nullptr) ::munmap(pieces_, sizeof(Pieces));
}

void Maker::add(std::uintptr_t begin, std::size_t size, std::uintptr_t mapping) {
  if (pieces_ == nullptr) return;
  if (pieces_->count > 0) {
    Piece& last = pieces_->list[pieces_->count - 1];
    if (last.mapping == mapping && begin - last.end() <= kBridge) {
      last.size = begin + size - last.begin;
      return;
    }
  }
  if (pieces_->count < kMostPieces)
    pieces_->list[pieces_->count++] = {.begin = begin, .size = size, .mapping = mapping};
}

void Maker::keep(pid_t child, std::size_t kind) {
  if (pieces_ == nullptr || kind >= kMostKinds) return;
  const std::span<Piece> pieces(pieces_->list, pieces_->count);
  std::size_t size = kListSize;
  for (Piece& piece : pieces) {
    piece.offset = size;
    size += piece.size;
  }
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/mem", child);
  const int memory = ::open(path, O_RDONLY | O_CLOEXEC);
  const int file = image_file::make(kNames[kind], size);
  bool kept = memory >= 0 && file >= 0 &&
              image_file::write_fully(file, reinterpret_cast<const char*>(&pieces_->count), sizeof(std::size_t), 0) &&
              image_file::write_fully(file, reinterpret_cast<const char*>(pieces.data()), pieces.size_bytes(),
                                      sizeof(std::size_t));
  for (const Piece& piece : pieces) kept = kept && copy(memory, piece.begin, piece.size, file, piece.offset);
  if (kept && image_file::seal(file)) images[kind] = image_file::view(file, size);
  image_file::look_away(images[kind]);  // where the kernel cannot move a view, there is none from now on
  if (memory >= 0) ::close(memory);
  if (file >= 0) ::close(file);
}

const char* original(const memory_map::Mapping& mapping) {
  if (!mapping.writable) return nullptr;  // our view
  for (std::size_t kind = 0; kind < kMostKinds; ++kind) {
    if (const char* found = image_file::find(images[kind], mapping, kMapped[kind])) return found;
  }
  return nullptr;
}

void share(std::size_t kind, const memory_map::Mapping& mapping, const char* before) {
  if (images[kind].begin == nullptr || !mapping.writable) return;
  const image_file::View& image = images[kind];
  for (const Piece& piece : pieces_of(image)) {
    const std::uintptr_t end = std::min(piece.end(), mapping.end);
    std::uintptr_t first = std::max(piece.begin, mapping.begin);
    bool changed = false;  // anything since `first`
    const auto rested = [&](std::uintptr_t page) { return image.begin + piece.offset + (page - piece.begin); };
    for (std::uintptr_t page = first; page < end; page += kPage) {
      if (is_same(page, rested(page))) {
        changed = changed || !is_same(page, before + (page - mapping.begin));
        continue;
      }
      if (changed) map_over(first, page - first, rested(first));
      first = page + kPage;
      changed = false;
    }
    if (changed) map_over(first, end - first, rested(first));
  }
}

void look_away() {
  for (auto& image : images) image_file::look_away(image);
}

}  // namespace hutch::rest_image
