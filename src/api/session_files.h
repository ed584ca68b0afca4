// Files of a session, for every handler that looks at them or changes them. Reading is done here, beneath the
// workspace's descriptor; whatever changes something is done by the session's porter, inside.
#pragma once

#include <boost/json.hpp>
#include <memory>
#include <string>

#include "api/api_error.h"
#include "session/session.h"

namespace hutch {

// The errors of the file API.
Handled check_path(const std::string& path, bool may_be_empty);
ApiError not_there(int error_number);
ApiError from_refusal(const Porter::Refusal& refusal);

// Borrowed for one request, and given back.
class PorterLoan {
 public:
  static net::awaitable<Api<PorterLoan>> take(std::shared_ptr<Session> session) {
    auto porter = co_await session->borrow_porter();
    if (!porter) co_return std::unexpected(from_refusal({.code = "io_error", .message = porter.error().message}));
    co_return PorterLoan(std::move(session), std::move(*porter));
  }
  PorterLoan(PorterLoan&&) = default;
  PorterLoan& operator=(PorterLoan&&) = default;
  ~PorterLoan() {
    if (porter_) session_->give_back(std::move(porter_));
  }
  Porter* operator->() const { return porter_.get(); }

 private:
  PorterLoan(std::shared_ptr<Session> session, std::shared_ptr<Porter> porter)
      : session_(std::move(session)), porter_(std::move(porter)) {}
  std::shared_ptr<Session> session_;
  std::shared_ptr<Porter> porter_;
};

net::awaitable<void> note_change(Session& session);
Api<boost::json::object> describe_file(Session& session, const std::string& path);

struct Listing {
  boost::json::array entries;
  bool truncated = false;
};
// `depth` levels, of which 1 is the directory itself. May be called on another thread.
Listing list_directory(int workspace, const std::string& top, std::size_t depth);

inline constexpr std::size_t kDeepestListing = 32;

// At most so many bytes of it.
Api<std::string> read_part(Session& session, const std::string& path, std::uint64_t offset, std::size_t most);
// A whole file in memory: at most so many bytes, a larger one is an error.
Api<std::string> read_whole(Session& session, const std::string& path, std::size_t most);
net::awaitable<Handled> write_whole(std::shared_ptr<Session> session, std::string path, std::string content);

}  // namespace hutch
