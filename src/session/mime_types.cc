#include "session/mime_types.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include "base/utf8.h"

namespace hutch {
namespace {

constexpr std::pair<std::string_view, std::string_view> kTypes[] = {
    {"bmp", "image/bmp"},
    {"bz2", "application/x-bzip2"},
    {"c", "text/x-c"},
    {"css", "text/css"},
    {"csv", "text/csv"},
    {"db", "application/vnd.sqlite3"},
    {"docx", "application/vnd.openxmlformats-officedocument.wordprocessingml.document"},
    {"gif", "image/gif"},
    {"gz", "application/gzip"},
    {"htm", "text/html"},
    {"html", "text/html"},
    {"ipynb", "application/x-ipynb+json"},
    {"jpeg", "image/jpeg"},
    {"jpg", "image/jpeg"},
    {"js", "text/javascript"},
    {"json", "application/json"},
    {"jsonl", "application/jsonl"},
    {"log", "text/plain"},
    {"md", "text/markdown"},
    {"mp3", "audio/mpeg"},
    {"mp4", "video/mp4"},
    {"npy", "application/octet-stream"},
    {"npz", "application/zip"},
    {"parquet", "application/vnd.apache.parquet"},
    {"pdf", "application/pdf"},
    {"pkl", "application/octet-stream"},
    {"png", "image/png"},
    {"pptx", "application/vnd.openxmlformats-officedocument.presentationml.presentation"},
    {"py", "text/x-python"},
    {"sqlite", "application/vnd.sqlite3"},
    {"svg", "image/svg+xml"},
    {"tar", "application/x-tar"},
    {"tex", "text/x-tex"},
    {"tif", "image/tiff"},
    {"tiff", "image/tiff"},
    {"toml", "application/toml"},
    {"tsv", "text/tab-separated-values"},
    {"txt", "text/plain"},
    {"wav", "audio/wav"},
    {"webp", "image/webp"},
    {"xlsx", "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet"},
    {"xml", "application/xml"},
    {"yaml", "application/yaml"},
    {"yml", "application/yaml"},
    {"zip", "application/zip"},
    {"zst", "application/zstd"},
};

std::string by_content(int content) {
  std::array<char, 4096> head;
  const ssize_t size = ::pread(content, head.data(), head.size(), 0);
  if (size < 0) return "application/octet-stream";
  const std::string_view text{head.data(), static_cast<std::size_t>(size)};
  const bool plain = text.find('\0') == std::string_view::npos && is_utf8(text.substr(0, complete_utf8_prefix(text)));
  return plain ? "text/plain" : "application/octet-stream";
}

}  // namespace

std::string mime_type_of(std::string_view path, int content) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  const std::size_t dot = name.rfind('.');
  if (dot != std::string_view::npos) {
    std::string ending(name.substr(dot + 1));
    std::ranges::transform(ending, ending.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const auto* found =
        std::ranges::lower_bound(kTypes, ending, {}, &std::pair<std::string_view, std::string_view>::first);
    if (found != std::end(kTypes) && found->first == ending) return std::string(found->second);
  }
  return by_content(content);
}

}  // namespace hutch
