#include "api/tools/pictures.h"

#include <fmt/format.h>

namespace hutch {
namespace {

constexpr std::uint32_t kMostPixels = 8'000;  // on a side

std::uint32_t byte_at(std::string_view bytes, std::size_t at) {
  return at < bytes.size() ? static_cast<unsigned char>(bytes[at]) : 0;
}

std::uint32_t big16(std::string_view bytes, std::size_t at) {
  return byte_at(bytes, at) << 8U | byte_at(bytes, at + 1);
}
std::uint32_t big32(std::string_view bytes, std::size_t at) { return big16(bytes, at) << 16U | big16(bytes, at + 2); }
std::uint32_t little16(std::string_view bytes, std::size_t at) {
  return byte_at(bytes, at + 1) << 8U | byte_at(bytes, at);
}
std::uint32_t little24(std::string_view bytes, std::size_t at) {
  return byte_at(bytes, at + 2) << 16U | little16(bytes, at);
}

std::optional<PixelSize> png_size(std::string_view bytes) {
  if (bytes.size() < 33 || !bytes.starts_with("\x89PNG\r\n\x1a\n") || bytes.substr(12, 4) != "IHDR") return {};
  return PixelSize{.width = big32(bytes, 16), .height = big32(bytes, 20)};
}

// Segments up to the one that begins a frame: SOF0 to SOF15 but for three others among them.
std::optional<PixelSize> jpeg_size(std::string_view bytes) {
  if (!bytes.starts_with("\xff\xd8")) return {};
  for (std::size_t at = 2; at + 9 < bytes.size();) {
    if (byte_at(bytes, at) != 0xff) return {};
    const std::uint32_t kind = byte_at(bytes, at + 1);
    if (kind == 0xff) {  // fill
      ++at;
      continue;
    }
    const bool frame = kind >= 0xc0 && kind <= 0xcf && kind != 0xc4 && kind != 0xc8 && kind != 0xcc;
    if (frame) return PixelSize{.width = big16(bytes, at + 7), .height = big16(bytes, at + 5)};
    if (kind == 0xda || kind == 0xd9) return {};  // the picture itself, or its end, and no frame yet
    const bool bare = kind == 0x01 || (kind >= 0xd0 && kind <= 0xd7);
    const std::uint32_t length = bare ? 0 : big16(bytes, at + 2);
    if (!bare && length < 2) return {};
    at += 2 + length;
  }
  return {};
}

std::optional<PixelSize> gif_size(std::string_view bytes) {
  if (bytes.size() < 13 || !(bytes.starts_with("GIF87a") || bytes.starts_with("GIF89a"))) return {};
  return PixelSize{.width = little16(bytes, 6), .height = little16(bytes, 8)};
}

std::optional<PixelSize> webp_size(std::string_view bytes) {
  if (bytes.size() < 30 || !bytes.starts_with("RIFF") || bytes.substr(8, 4) != "WEBP") return {};
  const auto kind = bytes.substr(12, 4);
  if (kind == "VP8X") return PixelSize{.width = little24(bytes, 24) + 1, .height = little24(bytes, 27) + 1};
  if (kind == "VP8 ") return PixelSize{.width = little16(bytes, 26) & 0x3fffU, .height = little16(bytes, 28) & 0x3fffU};
  if (kind != "VP8L" || byte_at(bytes, 20) != 0x2f) return {};
  const std::uint32_t packed = little24(bytes, 21) | byte_at(bytes, 24) << 24U;
  return PixelSize{.width = (packed & 0x3fffU) + 1, .height = (packed >> 14U & 0x3fffU) + 1};
}

}  // namespace

bool is_picture(std::string_view mime) {
  return mime == "image/png" || mime == "image/jpeg" || mime == "image/gif" || mime == "image/webp";
}

std::optional<PixelSize> pixel_size(std::string_view mime, std::string_view bytes) {
  if (mime == "image/png") return png_size(bytes);
  if (mime == "image/jpeg") return jpeg_size(bytes);
  if (mime == "image/gif") return gif_size(bytes);
  return mime == "image/webp" ? webp_size(bytes) : std::nullopt;
}

std::optional<std::string> unfit_picture(std::string_view mime, std::string_view bytes) {
  if (bytes.size() > kLargestPicture) {
    return fmt::format("it has {:.1f} MB, and {} MB can be shown: use a smaller figsize or dpi",
                       static_cast<double>(bytes.size()) / 1e6, kLargestPicture / 1'000'000);
  }
  const auto size = pixel_size(mime, bytes);
  if (!size || size->width == 0 || size->height == 0) return fmt::format("its bytes are no {}", mime);
  if (size->width <= kMostPixels && size->height <= kMostPixels) return {};
  return fmt::format("it has {} x {} pixels, and {} on a side can be shown: use a smaller figsize or dpi", size->width,
                     size->height, kMostPixels);
}

}  // namespace hutch
