#include "api/tools/pictures.h"

#include <gtest/gtest.h>

namespace hutch {
namespace {

using namespace std::string_literals;

std::string png(std::uint32_t width, std::uint32_t height) {
  std::string bytes = "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR"s;
  for (const auto side : {width, height}) {
    for (const unsigned shift : {24U, 16U, 8U, 0U}) bytes += static_cast<char>(side >> shift & 0xffU);
  }
  return bytes + std::string(9, '\0');
}

TEST(Pictures, SizeIsReadFromTheHeader) {
  const auto size = [](std::string_view mime, const std::string& bytes) {
    const auto found = pixel_size(mime, bytes);
    return found ? std::to_string(found->width) + "x" + std::to_string(found->height) : "none";
  };
  EXPECT_EQ(size("image/png", png(640, 480)), "640x480");
  EXPECT_EQ(size("image/gif", "GIF89a\x80\x02\xe0\x01\0\0\0"s), "640x480");
  EXPECT_EQ(size("image/jpeg", "\xff\xd8\xff\xe0\0\x04JF\xff\xc2\0\x11\x08\x01\xe0\x02\x80\x03\x01\x22"s), "640x480");
  const std::string riff = "RIFF\x20\0\0\0WEBP"s;
  EXPECT_EQ(size("image/webp", riff + "VP8X\x0a\0\0\0\0\0\0\0\x7f\x02\0\xdf\x01\0"s), "640x480");
  EXPECT_EQ(size("image/webp", riff + "VP8 \x0a\0\0\0\0\0\0\x9d\x01\x2a\x80\x02\xe0\x01"s), "640x480");
  EXPECT_EQ(size("image/webp", riff + "VP8L\x0a\0\0\0\x2f\x7f\xc2\x77\0\0\0\0\0\0"s), "640x480");
}

TEST(Pictures, WhatIsNoPictureIsNotShown) {
  EXPECT_EQ(unfit_picture("image/png", png(640, 480)), std::nullopt);
  EXPECT_EQ(unfit_picture("image/png", "hello"), "its bytes are no image/png");
  EXPECT_EQ(unfit_picture("image/jpeg", png(640, 480)), "its bytes are no image/jpeg");
  EXPECT_EQ(unfit_picture("image/png", png(0, 480)), "its bytes are no image/png");
  for (const auto& broken : {"\xff\xd8"s, "\xff\xd8\xff\xe0\0\0\0\0\0\0\0\0\0"s,
                             "\xff\xd8\xff\xda\0\x08\0\0\0\0\0\0\0"s, "\xff\xd8"s + std::string(64, '\xff')}) {
    EXPECT_EQ(unfit_picture("image/jpeg", broken), "its bytes are no image/jpeg");
  }
}

TEST(Pictures, WhatIsTooLargeIsNotShown) {
  EXPECT_EQ(unfit_picture("image/png", png(8000, 8000)), std::nullopt);
  EXPECT_EQ(unfit_picture("image/png", png(100, 9000)),
            "it has 100 x 9000 pixels, and 8000 on a side can be shown: use a smaller figsize or dpi");
  EXPECT_EQ(unfit_picture("image/png", png(10, 10) + std::string(6'000'000, 'x')),
            "it has 6.0 MB, and 5 MB can be shown: use a smaller figsize or dpi");
}

}  // namespace
}  // namespace hutch
