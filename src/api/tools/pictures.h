// Which pictures a model can be shown. One that its API refuses costs the whole conversation, and the bytes come from a
// sandbox: what they claim to be is looked at.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace hutch {

inline constexpr std::size_t kLargestPicture = 5'000'000;  // bytes
inline constexpr std::size_t kMostPictures = 4;            // in one result

bool is_picture(std::string_view mime);

struct PixelSize {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
};
// As the header of a PNG, JPEG, GIF or WebP says; nothing when it is not one.
std::optional<PixelSize> pixel_size(std::string_view mime, std::string_view bytes);

// Why it cannot be shown, in words that tell what would help; nothing when it can.
std::optional<std::string> unfit_picture(std::string_view mime, std::string_view bytes);

}  // namespace hutch
