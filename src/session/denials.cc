#include "session/denials.h"

#include <linux/seccomp.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "sandbox/seccomp_filter.h"

namespace hutch {
namespace {

constexpr std::size_t kMostKinds = 64;

std::string family_name(std::uint32_t family) {
  switch (family) {
    case AF_INET:
    case AF_INET6:
      return "raw or unusual internet socket";
    case AF_NETLINK:
      return "AF_NETLINK";
    case AF_PACKET:
      return "AF_PACKET";
    case AF_VSOCK:
      return "AF_VSOCK";
    case AF_ALG:
      return "AF_ALG";
    case AF_BLUETOOTH:
      return "AF_BLUETOOTH";
    default:
      return "family " + std::to_string(family);
  }
}

}  // namespace

bool Denials::answer_one(int listener) {
  // The kernel may have a larger struct than our headers; it asks for zeroed room.
  alignas(seccomp_notif) std::array<char, 512> room{};
  auto* call = reinterpret_cast<seccomp_notif*>(room.data());
  if (::ioctl(listener, SECCOMP_IOCTL_NOTIF_RECV, call) != 0) {
    if (errno != ENOENT) return errno == EINTR;
    pollfd hangup{.fd = listener, .events = 0, .revents = 0};  // the last process with this filter is gone
    return ::poll(&hangup, 1, 0) == 0;
  }
  const bool socket = call->data.nr == SYS_socket;
  std::string detail = socket ? family_name(static_cast<std::uint32_t>(call->data.args[0])) : std::string{};
  if (counts_.size() < kMostKinds || counts_.contains({call->data.nr, detail})) {
    ++counts_[{call->data.nr, std::move(detail)}];
  }
  ++total_;
  alignas(seccomp_notif_resp) std::array<char, 512> answer_room{};
  auto* answer = reinterpret_cast<seccomp_notif_resp*>(answer_room.data());
  answer->id = call->id;
  answer->error = -tripwire_errno(call->data.nr);
  return ::ioctl(listener, SECCOMP_IOCTL_NOTIF_SEND, answer) == 0 || errno == ENOENT;
}

std::vector<wire::Denial> Denials::report() const {
  std::vector<wire::Denial> result;
  for (const auto& [what, count] : counts_) {
    result.push_back({.syscall = std::string(syscall_name(what.first)),
                      .detail = what.second,
                      .count = count,
                      .hint = std::string(denial_hint(what.first))});
  }
  return result;
}

}  // namespace hutch
