#include "base/log.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <unistd.h>

#include <chrono>

#include "base/utf8.h"

namespace hutch::log {
namespace {

int target = 2;

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char byte : clean_utf8(text)) {
    if (byte == '"' || byte == '\\') {
      result += '\\';
      result += byte;
    } else if (static_cast<unsigned char>(byte) < 0x20 || byte == 0x7f) {
      result += fmt::format("\\u{:04x}", static_cast<unsigned char>(byte));
    } else {
      result += byte;
    }
  }
  return result + '"';
}

void write(std::string_view level, std::string_view what, Fields fields) {
  const auto now = std::chrono::system_clock::now();
  const auto seconds = std::chrono::floor<std::chrono::seconds>(now);
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now - seconds).count();
  std::string line = fmt::format(R"({{"time":"{:%Y-%m-%dT%H:%M:%S}.{:03}Z","level":"{}","message":{})",
                                 fmt::gmtime(std::chrono::system_clock::to_time_t(seconds)), ms, level, quoted(what));
  for (const auto& [name, value] : fields) {
    if (!value.empty()) line += fmt::format(",{}:{}", quoted(name), quoted(value));
  }
  line += "}\n";
  [[maybe_unused]] const ssize_t written = ::write(target, line.data(), line.size());  // one call: lines stay whole
}

}  // namespace

void open(int fd) { target = fd; }
void info(std::string_view what, Fields fields) { write("info", what, fields); }
void warning(std::string_view what, Fields fields) { write("warning", what, fields); }
void error(std::string_view what, Fields fields) { write("error", what, fields); }

}  // namespace hutch::log
