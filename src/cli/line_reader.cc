#include "cli/line_reader.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace hutch {

LineReader::LineReader() : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

void LineReader::call_off() const {
  if (wake_) std::ignore = ::eventfd_write(wake_.get(), 1);
}

void LineReader::forget_call() const {
  eventfd_t calls = 0;
  if (wake_) std::ignore = ::eventfd_read(wake_.get(), &calls);
}

std::expected<std::string, NoLine> LineReader::next() {
  for (;;) {
    if (const std::size_t end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    if (ended_ && pending_.empty()) return std::unexpected(NoLine::end);
    if (ended_) return std::exchange(pending_, {});
    pollfd ready[] = {{.fd = 0, .events = POLLIN, .revents = 0}, {.fd = wake_.get(), .events = POLLIN, .revents = 0}};
    if (::poll(ready, 2, -1) < 0 && errno != EINTR) ended_ = true;
    if (ready[1].revents != 0) {
      forget_call();
      return std::unexpected(NoLine::called_off);
    }
    if (ready[0].revents == 0) continue;
    std::string chunk(4U << 10, '\0');
    const ssize_t got = ::read(0, chunk.data(), chunk.size());
    if (got > 0) pending_.append(chunk, 0, static_cast<std::size_t>(got));
    ended_ = got == 0 || (got < 0 && errno != EINTR);
  }
}

}  // namespace hutch
