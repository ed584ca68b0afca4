#include "api/file_answer.h"

#include <sys/stat.h>
#include <unistd.h>

#include "api/http_text.h"

namespace hutch {
namespace {

constexpr std::size_t kPiece = 256U << 10;

}  // namespace

net::awaitable<Handled> answer_file(HttpExchange& exchange, UniqueFd file, std::string name, std::string content_type) {
  struct stat status{};
  if (::fstat(file.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    co_return std::unexpected(file_error(409, "not_a_file", "That is not a regular file."));
  }
  const auto size = static_cast<std::uint64_t>(status.st_size);
  Answer head{.content_type = std::move(content_type),
              .headers = {{"Content-Disposition", html_free_filename(name)},
                          {"Content-Security-Policy", "sandbox; default-src 'none'"},
                          {"Accept-Ranges", "bytes"}}};
  ByteRange range{.first = 0, .last = size == 0 ? 0 : size - 1};
  if (const auto asked = exchange.request().header("range"); !asked.empty()) {
    const auto parsed = parse_range(asked, size);
    if (!parsed) {
      exchange.extra.emplace_back("Content-Range", "bytes */" + std::to_string(size));
      co_return std::unexpected(ApiError{.status = 416,
                                         .category = "invalid_request",
                                         .code = "bad_range",
                                         .message = "The file is shorter than that range."});
    }
    if (*parsed) {
      range = **parsed;
      head.status = 206;
      head.headers.emplace_back("Content-Range", "bytes " + std::to_string(range.first) + "-" +
                                                     std::to_string(range.last) + "/" + std::to_string(size));
    }
  }
  std::uint64_t left = size == 0 ? 0 : range.last - range.first + 1;
  if (!co_await exchange.begin(std::move(head), left)) co_return Handled{};
  if (exchange.request().method == Method::head) co_return Handled{};
  std::string piece;
  auto at = static_cast<off_t>(range.first);
  while (left > 0) {
    piece.resize(std::min<std::uint64_t>(left, kPiece));
    const ssize_t got = ::pread(file.get(), piece.data(), piece.size(), at);
    if (got < 0) co_return std::unexpected(file_error(500, "io_error", "The file could not be read."));
    if (got == 0) co_return Handled{};  // it shrank under our eyes: hanging up says that it is not what was promised
    piece.resize(static_cast<std::size_t>(got));
    at += static_cast<off_t>(piece.size());
    left -= piece.size();
    if (!co_await exchange.write(piece)) co_return Handled{};
  }
  co_await exchange.end();
  co_return Handled{};
}

}  // namespace hutch
