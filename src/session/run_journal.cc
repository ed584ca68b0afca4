#include "session/run_journal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <optional>

#include "base/sha256.h"

namespace hutch {
namespace {

constexpr std::size_t kCheckSize = 16;
constexpr std::uint64_t kMostJournal = 1ULL << 30;

// u64 length, the beginning of the entry's SHA-256, the entry.
std::string check_of(std::string_view entry) {
  Sha256 hash;
  hash.update(entry);
  return hash.hex().substr(0, kCheckSize);
}

Result<std::string> read_all(int file) {
  struct stat status{};
  if (::fstat(file, &status) != 0) return system_error(errno);
  if (static_cast<std::uint64_t>(status.st_size) > kMostJournal) {
    return make_error(ErrorCode::limit, "the journal of runs is larger than 1 GiB");
  }
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t got = ::pread(file, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
    if (got < 0) return system_error(errno);
    if (got == 0) break;
    at += static_cast<std::size_t>(got);
  }
  bytes.resize(at);
  return bytes;
}

// The next entry; nothing at the end, or where the rest was never completed.
std::optional<std::string_view> next_entry(std::string_view& rest) {
  std::uint64_t length = 0;
  if (rest.size() < sizeof(length) + kCheckSize) return std::nullopt;
  std::memcpy(&length, rest.data(), sizeof(length));
  rest.remove_prefix(sizeof(length));
  const std::string_view check = rest.substr(0, kCheckSize);
  rest.remove_prefix(kCheckSize);
  if (length > rest.size()) return std::nullopt;
  const std::string_view entry = rest.substr(0, length);
  rest.remove_prefix(length);
  return check_of(entry) == check ? std::optional(entry) : std::nullopt;
}

}  // namespace

Result<RunJournal> RunJournal::open(const std::filesystem::path& path,
                                    const std::function<Result<void>(std::string_view)>& replay) {
  UniqueFd file{::open(path.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (!file) return system_error(errno).during("open the journal of runs");
  HUTCH_TRY(const auto bytes, read_all(file.get()));
  std::string_view rest = bytes;
  while (const auto entry = next_entry(rest)) {
    HUTCH_TRY(replay(*entry));
  }
  return RunJournal(std::move(file));
}

Result<void> RunJournal::append(std::string_view entry) {
  const std::uint64_t length = entry.size();
  std::string bytes(reinterpret_cast<const char*>(&length), sizeof(length));
  bytes += check_of(entry);
  bytes += entry;
  struct stat before{};
  if (::fstat(file_.get(), &before) != 0) return system_error(errno);
  if (::write(file_.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size())) return {};
  const Error failed = system_error(errno).during("write the journal of runs");
  std::ignore = ::ftruncate(file_.get(), before.st_size);  // half an entry would hide those after it
  return failed;
}

Result<void> RunJournal::clear() {
  if (::ftruncate(file_.get(), 0) != 0) return system_error(errno).during("clear the journal of runs");
  return {};
}

}  // namespace hutch
