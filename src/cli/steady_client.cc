#include "cli/steady_client.h"

#include <algorithm>
#include <thread>

namespace hutch {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);  // a daemon is restarted in less
constexpr auto kFirstPause = std::chrono::milliseconds(50);
constexpr auto kLongestPause = std::chrono::milliseconds(1'000);

}  // namespace

Result<SteadyClient> SteadyClient::connect(const RemoteOptions& options) {
  HUTCH_TRY(auto client, reach_daemon(options));
  return SteadyClient(std::move(client), options);
}

bool SteadyClient::reconnect() {
  const auto now = Clock::now();
  if (!broken_since_) {
    broken_since_ = now;
    pause_ = kFirstPause;
  }
  while (Clock::now() < *broken_since_ + kPatience) {
    std::this_thread::sleep_for(pause_);
    pause_ = std::min(pause_ * 2, kLongestPause);
    if (auto client = reach_daemon(options_)) {
      client_ = std::move(*client);
      return true;
    }
  }
  return false;
}

Result<HttpReply> SteadyClient::get(const std::string& path) {
  for (;;) {
    auto reply = client_.request("GET", path);
    if (reply) went_well();
    if (reply || !reconnect()) return reply;
  }
}

Result<HttpReply> SteadyClient::download(const std::string& path, std::uint64_t first,
                                         const std::function<void(std::string_view)>& on_piece) {
  for (;;) {
    auto reply = client_.download(path, first, [&](std::string_view piece) {
      first += piece.size();
      went_well();
      on_piece(piece);
    });
    if (reply) went_well();
    if (reply || !reconnect()) return reply;
  }
}

}  // namespace hutch
