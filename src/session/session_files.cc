// A session's porters, and how its files are saved and brought back.
#include <fcntl.h>
#include <unistd.h>

#include <array>

#include "session/session.h"

namespace hutch {
namespace {

constexpr std::size_t kMostIdlePorters = 2;
constexpr std::uint32_t kMostSavedFiles = 100'000;

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

// One archive, packed inside the sandbox and never opened outside one. The old one is replaced when the new is whole.
net::awaitable<void> Session::save() {
  const auto self = shared_from_this();
  while (saving_) co_await saved_.wait();  // of what was there before; there may be more since
  if (!settings_.persist || sandbox_ == 0 || !unsaved_) co_return;
  saving_ = true;
  saved_.reset();
  unsaved_ = false;
  bool whole = false;
  auto porter = co_await borrow_porter();
  const std::string temporary = settings_.saved_files.string() + ".new";
  UniqueFd file{::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600)};
  if (porter && file && co_await (*porter)->send(wire::PorterTask::pack, wire::PackTree{})) {
    bool written = true;
    while (auto piece = co_await (*porter)->next_piece()) {
      written = written && ::write(file.get(), piece->data(), piece->size()) == static_cast<ssize_t>(piece->size());
    }
    whole = (co_await (*porter)->outcome()).has_value() && written;
    give_back(std::move(*porter));
  }
  if (whole) {
    ::rename(temporary.c_str(), settings_.saved_files.c_str());
  } else {
    ::unlink(temporary.c_str());
    unsaved_ = true;
  }
  saving_ = false;
  saved_.set();
}

net::awaitable<Result<void>> Session::restore() {
  UniqueFd file{::open(settings_.saved_files.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW)};
  if (!file) co_return system_error(errno).during("open the saved files of the session");
  HUTCH_CO_TRY(auto porter, co_await borrow_porter());
  bool sent = co_await porter->send(wire::PorterTask::unpack, wire::UnpackTree{.most_files = kMostSavedFiles});
  std::string piece(wire::kPorterPiece, '\0');
  while (sent) {
    const ssize_t got = ::read(file.get(), piece.data(), piece.size());
    if (got <= 0) break;
    sent = co_await porter->send_data(std::string_view(piece).substr(0, static_cast<std::size_t>(got)));
  }
  co_await porter->send(wire::PorterTask::end, wire::PorterNothing{});
  const auto outcome = co_await porter->outcome();
  if (!outcome) {
    co_return make_error(ErrorCode::internal, "the saved files could not be brought back: " + outcome.error().message);
  }
  give_back(std::move(porter));
  files_touched_ = true;
  co_return Result<void>{};
}

}  // namespace hutch
