#include "zygote/proc_usage.h"

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"

namespace hutch {
namespace {

std::string read_at(int directory, const std::string& path) {
  const UniqueFd file{::openat(directory, path.c_str(), O_RDONLY | O_CLOEXEC)};
  std::array<char, 4096> text{};
  const ssize_t size = file ? ::read(file.get(), text.data(), text.size()) : -1;
  return {text.data(), size > 0 ? static_cast<std::size_t>(size) : 0};
}

std::vector<std::uint64_t> numbers(std::string_view text) {
  std::vector<std::uint64_t> result;
  const std::string copy(text);
  const char* at = copy.c_str();
  while (*at != '\0') {
    char* end = nullptr;
    const std::uint64_t value = std::strtoull(at, &end, 10);
    if (end == at) {
      ++at;
      continue;
    }
    result.push_back(value);
    at = end;
  }
  return result;
}

// `key` begins with the end of the line before: what follows "Name:" is the program's choice, but the kernel escapes
// line ends in it.
std::uint64_t kilobytes(const std::string& status, std::string_view key) {
  const std::size_t at = status.find(key);
  return at == std::string::npos ? 0 : std::strtoull(status.c_str() + at + key.size(), nullptr, 10);
}

void add_process(int proc, const std::string& pid, std::uint64_t image, UsageNumbers& sum) {
  const std::string status = read_at(proc, pid + "/status");
  const std::uint64_t shared = kilobytes(status, "\nRssShmem:") << 10;
  sum.memory_now += (kilobytes(status, "\nRssAnon:") << 10) + (shared > image ? shared - image : 0);
  const std::string stat = read_at(proc, pid + "/stat");
  const std::size_t name_end = stat.rfind(')');  // the name may hold anything
  if (name_end == std::string::npos || stat.size() < name_end + 4) return;
  const auto fields = numbers(stat.substr(name_end + 4));  // after the state: ppid is field 4
  if (fields.size() < 17) return;
  const auto ticks = static_cast<std::uint64_t>(::sysconf(_SC_CLK_TCK));
  sum.cpu_us += (fields[10] + fields[11]) * 1'000'000U / ticks;
  sum.processes += fields[16];  // threads
}

}  // namespace

UsageNumbers usage_from_proc(int proc_directory, std::uint64_t image) {
  UsageNumbers sum;
  const int copy = ::openat(proc_directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  DIR* directory = copy >= 0 ? ::fdopendir(copy) : nullptr;
  if (directory == nullptr) return sum;
  while (const dirent* entry = ::readdir(directory)) {
    const std::string_view name = entry->d_name;
    if (name.find_first_not_of("0123456789") == std::string_view::npos && name != "1") {
      add_process(proc_directory, std::string(name), image, sum);
    }
  }
  ::closedir(directory);
  sum.peak_memory = sum.memory_now;
  return sum;
}

}  // namespace hutch
