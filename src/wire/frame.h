// Frames on a stream: u32 length, u8 type, payload. FrameBuffer collects bytes as they come and gives out whole frames;
// a length above the cap is refused before anything is allocated for it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "wire/codec.h"

namespace hutch::wire {

struct Frame {
  std::uint8_t type = 0;
  std::string payload;
};

class FrameBuffer {
 public:
  explicit FrameBuffer(std::uint32_t cap) : cap_(cap) {}

  void set_cap(std::uint32_t cap) { cap_ = cap; }
  void append(std::string_view bytes) { bytes_.append(bytes); }

  // The next whole frame, nothing yet, or an error after which the stream is of no use.
  Result<std::optional<Frame>> next() {
    if (bytes_.size() - at_ < sizeof(std::uint32_t)) return compact();
    std::uint32_t length = 0;
    for (int i = 3; i >= 0; --i)
      length = (length << 8) | static_cast<unsigned char>(bytes_[at_ + static_cast<std::size_t>(i)]);
    if (length < 1 || length > cap_) return make_error(ErrorCode::protocol, "frame of a forbidden length");
    if (bytes_.size() - at_ < sizeof(length) + length) return compact();
    Frame frame{.type = static_cast<std::uint8_t>(bytes_[at_ + 4]), .payload = bytes_.substr(at_ + 5, length - 1)};
    at_ += sizeof(length) + length;
    return std::optional<Frame>{std::move(frame)};
  }

 private:
  std::optional<Frame> compact() {
    bytes_.erase(0, at_);
    at_ = 0;
    return std::nullopt;
  }

  std::uint32_t cap_;
  std::string bytes_;
  std::size_t at_ = 0;
};

template <class Type>
std::string make_raw_frame(Type type, std::string_view payload) {
  const auto length = static_cast<std::uint32_t>(payload.size() + 1);
  std::string frame;
  frame.reserve(payload.size() + 5);
  for (int i = 0; i < 4; ++i) frame.push_back(static_cast<char>((length >> (8 * i)) & 0xff));
  frame.push_back(static_cast<char>(type));
  frame += payload;
  return frame;
}

template <class Type, class T>
std::string make_frame(Type type, const T& message) {
  return make_raw_frame(type, encode(message));
}

}  // namespace hutch::wire
