#include "cli/session_input.h"

#include "cli/report.h"

namespace hutch {

Result<void> give_line(const RemoteOptions& remote, const std::string& session,
                       const std::expected<std::string, NoLine>& line) {
  if (!line && line.error() == NoLine::called_off) return {};
  HUTCH_TRY(auto client, reach_daemon(remote));
  const std::string address = "/v1/sessions/" + session;
  if (!line) {
    Report().notice("standard input has ended: the code that waits for a line is interrupted");
    HUTCH_TRY(std::ignore, expect_object(client.request("POST", address + "/interrupt")));
    return {};
  }
  const boost::json::object body{{"text", *line + "\n"}};
  HUTCH_TRY(const auto reply, client.request("POST", address + "/stdin", boost::json::serialize(body)));
  if (reply.status == 409) return {};  // it does not wait any more
  HUTCH_TRY(std::ignore, expect_object(reply));
  return {};
}

InputGiver::~InputGiver() {
  {
    const std::scoped_lock lock(mutex_);
    over_ = true;
    changed_.notify_all();
  }
  lines_.call_off();
  if (thread_.joinable()) thread_.join();
}

void InputGiver::want_line() {
  const std::scoped_lock lock(mutex_);
  wanted_ = true;
  changed_.notify_all();
  if (!thread_.joinable()) thread_ = std::thread([this] { give_lines(); });
}

void InputGiver::give_lines() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return wanted_ || over_; });
    if (over_) return;
    lock.unlock();
    const auto line = lines_.next();
    lock.lock();
    wanted_ = false;  // also for code that was interrupted meanwhile, and has asked again
    lock.unlock();
    if (auto given = give_line(remote_, session_, line); !given) Report().error(given.error().message, "");
    lock.lock();
  }
}

}  // namespace hutch
