// A session's porters, and how its files are saved and brought back.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/log.h"
#include "session/session.h"

namespace hutch {
namespace {

constexpr std::size_t kMostIdlePorters = 2;
constexpr std::uint32_t kMostSavedFiles = 100'000;
constexpr std::uint32_t kOwnInodes = 8;  // of the space: its directories, and what unpacking needs for itself
constexpr std::uint64_t kHeaderAllowance = 64U << 20;  // in an archive: a kilobyte or two for each file
constexpr auto kTimeToPack = std::chrono::minutes(5);

Error too_large_to_save() {
  return make_error(ErrorCode::limit,
                    "with holes and hard links in full, they are larger than what the session has room for");
}

Error too_many_to_save() {
  return make_error(ErrorCode::limit, "with hard links counted, there are more of them than could be brought back");
}

// Of the session's space, and not of the daemon's disk.
Error does_not_fit() {
  return {.code = ErrorCode::system,
          .message = "The saved files do not fit into the session's space.",
          .hint = "Make a session with more (limits.scratch, limits.inodes).",
          .system_errno = ENOSPC};
}

}  // namespace

net::awaitable<Result<std::shared_ptr<Porter>>> Session::borrow_porter() {
  touch();
  while (!porters_.empty()) {
    auto porter = std::move(porters_.back());
    porters_.pop_back();
    if (porter->usable()) co_return porter;
  }
  if (sandbox_ == 0) co_return make_error(ErrorCode::not_found, "the session has no sandbox");
  auto porter = engine_.make_porter();
  HUTCH_CO_TRY(co_await porter->start({.template_index = template_index_,
                                       .weaker_limits = settings_.weaker_limits,
                                       .into = sandbox_,
                                       .limits = LimitNumbers::from(limits_)}));
  co_return porter;
}

void Session::give_back(std::shared_ptr<Porter> porter) {
  touch();
  if (porter->usable() && sandbox_ != 0 && porters_.size() < kMostIdlePorters) porters_.push_back(std::move(porter));
}

void Session::note_files_changed() {
  files_touched_ = true;
  unsaved_ = true;
}

net::awaitable<Result<void>> Session::save() {
  const auto self = shared_from_this();
  if (!settings_.persist) co_return Result<void>{};
  // Half of what was saved must not take the place of all, and what is being saved is what was there before: there may
  // be more since. Either may begin while we wait for the other.
  while (saving_ || (opening_ && !has_files_)) {
    const auto opening_now = opening_;
    co_await (saving_ ? saved_ : opening_now->over).wait();
  }
  if (!has_files_ || !unsaved_) co_return Result<void>{};
  const std::string temporary = settings_.saved_files.string() + ".new";
  saving_ = true;
  saved_.reset();
  unsaved_ = false;
  Result<void> packed;
  try {
    packed = co_await pack_into(temporary);
  } catch (const std::exception& error) {  // whoever waits for the same is not to wait for ever
    log::error("files not packed", {{"session", settings_.id}, {"error", error.what()}});
    packed = could_not_go_on();
  }
  if (packed && ended_) packed = make_error(ErrorCode::disconnected, "the session has ended");
  if (packed && ::rename(temporary.c_str(), settings_.saved_files.c_str()) != 0) packed = system_error(errno);
  if (!packed) {
    ::unlink(temporary.c_str());
    unsaved_ = true;
  }
  saving_ = false;
  saved_.set();
  co_return packed;
}

// One archive, packed inside the sandbox and never opened outside one. Holes and further names of a file are written
// out in full: what is packed may neither take much more of our disk than it takes of the sandbox's space, nor need
// more space than that when it is unpacked.
net::awaitable<Result<void>> Session::pack_into(const std::string& path) {
  auto borrowed = co_await borrow_porter();
  if (!borrowed) co_return make_error(ErrorCode::internal, "the sandbox does not answer");
  const auto porter = std::move(*borrowed);
  const UniqueFd file{::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (!file) co_return system_error(errno);
  if (!co_await porter->send(wire::PorterTask::pack, wire::PackTree{})) {
    co_return make_error(ErrorCode::internal, "the sandbox did not pack them");
  }
  const std::uint64_t most = std::min(limits_.scratch.count, used_bytes(workspace_.get())) + kHeaderAllowance;
  const auto deadline = Clock::now() + kTimeToPack;
  std::uint64_t size = 0;
  while (auto piece = co_await porter->next_piece()) {
    size += piece->size();
    if (size > most) co_return too_large_to_save();
    if (Clock::now() > deadline) co_return make_error(ErrorCode::timed_out, "the sandbox takes too long to pack them");
    if (::write(file.get(), piece->data(), piece->size()) != static_cast<ssize_t>(piece->size())) {
      co_return make_error(ErrorCode::limit, "the daemon's disk is full");
    }
  }
  const auto outcome = co_await porter->outcome();
  if (!outcome) co_return make_error(ErrorCode::internal, outcome.error().message);
  give_back(porter);
  if (outcome->size > limits_.scratch.count) co_return too_large_to_save();
  if (outcome->count + kOwnInodes > std::min(limits_.inodes, kMostSavedFiles)) co_return too_many_to_save();
  const bool on_disk = co_await engine_.workers().run(owner_, [&file] { return ::fdatasync(file.get()) == 0; });
  if (!on_disk) co_return make_error(ErrorCode::limit, "the daemon's disk does not take them");
  co_return Result<void>{};
}

net::awaitable<Result<void>> Session::bring_back_files() {
  if (!settings_.persist) co_return Result<void>{};
  std::error_code unknown;
  if (!std::filesystem::exists(settings_.saved_files, unknown) && !unknown) co_return Result<void>{};
  try {
    co_return co_await restore();
  } catch (const std::exception& error) {  // half of them are there, perhaps: a failure like any other
    log::error("files not brought back", {{"session", settings_.id}, {"error", error.what()}});
    co_return could_not_go_on();
  }
}

net::awaitable<Result<void>> Session::restore() {
  UniqueFd file{::open(settings_.saved_files.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  if (!file) co_return system_error(errno).during("open the saved files of the session");
  HUTCH_CO_TRY(auto porter, co_await borrow_porter());
  bool sent = co_await porter->send(wire::PorterTask::unpack, wire::UnpackTree{.most_files = kMostSavedFiles});
  std::string piece(wire::kPorterPiece, '\0');
  while (sent) {
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    // Not the end of the archive: what is there by now would be taken for all of it.
    if (got < 0) co_return system_error(errno).during("read the saved files of the session");
    if (got == 0) break;
    sent = co_await porter->send_data(std::string_view(piece).substr(0, static_cast<std::size_t>(got)));
  }
  co_await porter->send(wire::PorterTask::end, wire::PorterNothing{});
  const auto outcome = co_await porter->outcome();
  if (!outcome && (outcome.error().code == "disk_full" || outcome.error().code == "too_many_files")) {
    co_return does_not_fit();
  }
  if (!outcome) {
    co_return make_error(ErrorCode::internal, "the saved files could not be brought back: " + outcome.error().message);
  }
  give_back(std::move(porter));
  files_touched_ = true;
  co_return Result<void>{};
}

}  // namespace hutch
