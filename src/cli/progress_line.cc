#include "cli/progress_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>

#include "base/utf8.h"

namespace hutch {
namespace {

constexpr std::size_t kBar = 20;

}  // namespace

std::string progress_text(std::size_t done, std::size_t of, std::string_view text, std::size_t width) {
  const std::size_t full = of == 0 ? kBar : std::min(kBar, done * kBar / of);
  const std::string words = printable(text.substr(0, std::min(text.find('\n'), width)));
  std::string line = fmt::format("[{:<{}}] {}/{} {}", std::string(full, '#'), kBar, done, of, words);
  if (line.size() <= width) return line;
  line.resize(width);  // bytes: never wider than the terminal
  line.resize(complete_utf8_prefix(line));
  return line;
}

ProgressLine::ProgressLine(Where where) : draws_(where == Where::terminal && ::isatty(STDERR_FILENO) != 0) {}

void ProgressLine::show(std::size_t done, std::size_t of, std::string_view text) const {
  if (!draws_) return;
  winsize size{};
  const std::size_t width = ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1U : 79;
  fmt::print(stderr, "\r\033[K{}", progress_text(done, of, text, width));
  std::fflush(stderr);
}

void ProgressLine::clear() const {
  if (!draws_) return;
  fmt::print(stderr, "\r\033[K");
  std::fflush(stderr);
}

}  // namespace hutch
