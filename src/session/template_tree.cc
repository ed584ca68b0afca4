#include "session/template_tree.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

namespace hutch {

namespace fs = std::filesystem;

namespace {

constexpr std::size_t kFingerprintDigits = 16;
constexpr std::uintmax_t kLargestScript = 1024 * 1024;

Error fault(const std::error_code& failed, std::string_view doing, const fs::path& path) {
  return system_error(failed.value()).during(std::string(doing) + " " + path.string());
}

// NAME-FINGERPRINT with nothing, ".error" or ".partial-PID" behind it.
std::optional<TreeEntry::Kind> kind_of(std::string_view file, std::string_view name) {
  if (!file.starts_with(name)) return std::nullopt;
  file.remove_prefix(name.size());
  if (file.size() < kFingerprintDigits + 1 || file.front() != '-') return std::nullopt;
  const auto digits = file.substr(1, kFingerprintDigits);
  if (digits.find_first_not_of("0123456789abcdef") != std::string_view::npos) return std::nullopt;
  const auto rest = file.substr(1 + kFingerprintDigits);
  if (rest.empty()) return TreeEntry::Kind::tree;
  if (rest == ".error") return TreeEntry::Kind::failure;
  if (rest.starts_with(".partial-")) return TreeEntry::Kind::partial;
  return std::nullopt;
}

Result<void> replace_in_file(const fs::path& path, std::string_view from, std::string_view to) {
  std::ifstream stream(path, std::ios::binary);
  std::ostringstream content;
  content << stream.rdbuf();
  auto text = std::move(content).str();
  auto at = text.find(from);
  if (at == std::string::npos) return {};
  for (; at != std::string::npos; at = text.find(from, at + to.size())) text.replace(at, from.size(), to);
  std::error_code failed;
  const auto mode = fs::status(path, failed).permissions();
  // A new file: the old one may share its content with the installer's cache.
  fs::path next = path;
  next += ".new";
  std::ofstream out(next, std::ios::binary | std::ios::trunc);
  out << text;
  out.close();
  if (!out) return system_error(errno).during("write " + next.string());
  fs::permissions(next, mode, failed);
  if (!failed) fs::rename(next, path, failed);
  if (failed) return fault(failed, "write", path);
  return {};
}

}  // namespace

std::vector<TreeEntry> tree_entries(const fs::path& directory, std::string_view name) {
  std::vector<TreeEntry> entries;
  std::error_code failed;
  for (fs::directory_iterator entry(directory, failed), end; !failed && entry != end; entry.increment(failed)) {
    if (const auto kind = kind_of(entry->path().filename().string(), name); kind) {
      entries.push_back({.kind = *kind, .path = entry->path()});
    }
  }
  std::ranges::sort(entries, {}, &TreeEntry::path);
  return entries;
}

Result<void> remove_tree(const fs::path& path) {
  std::error_code failed;
  fs::remove_all(path, failed);
  if (failed) return fault(failed, "remove", path);
  return {};
}

Result<Bytes> open_to_readers(const fs::path& tree) {
  constexpr auto kRead = fs::perms::owner_read | fs::perms::group_read | fs::perms::others_read;
  constexpr auto kSearch = fs::perms::owner_exec | fs::perms::group_exec | fs::perms::others_exec;
  Bytes size;
  std::error_code failed;
  fs::permissions(tree, kRead | kSearch, fs::perm_options::add, failed);
  for (fs::recursive_directory_iterator entry(tree, failed), end; !failed && entry != end; entry.increment(failed)) {
    const auto status = entry->symlink_status(failed);
    if (failed) break;
    if (fs::is_symlink(status)) continue;
    const bool runs = fs::is_directory(status) || (status.permissions() & fs::perms::owner_exec) != fs::perms::none;
    const auto wanted = runs ? kRead | kSearch : kRead;
    if ((status.permissions() & wanted) != wanted) {
      fs::permissions(entry->path(), wanted, fs::perm_options::add, failed);
    }
    if (!failed && fs::is_regular_file(status)) size.count += entry->file_size(failed);
    if (failed) break;
  }
  if (failed) return fault(failed, "open to readers", tree);
  return size;
}

Result<void> show_scripts_inside(const fs::path& environment, std::string_view inside) {
  std::error_code failed;
  for (fs::directory_iterator entry(environment / "bin", failed), end; !failed && entry != end;
       entry.increment(failed)) {
    const auto status = entry->symlink_status(failed);
    if (failed || !fs::is_regular_file(status) || entry->file_size(failed) > kLargestScript) continue;
    HUTCH_TRY(replace_in_file(entry->path(), environment.string(), inside));
  }
  if (failed) return fault(failed, "read", environment / "bin");
  return replace_in_file(environment / "pyvenv.cfg", environment.string(), inside);
}

}  // namespace hutch
