// One message with descriptors attached, over a Unix socket. No allocation, so that it works between fork and exec.
// Descriptors are received close-on-exec. Only sockets whose other end is our own code may receive descriptors at all.
#pragma once

#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

namespace hutch::wire {

inline constexpr std::size_t kMostFds = 32;

inline ssize_t send_with_fds(int socket, std::span<const char> bytes, std::span<const int> fds, int flags = 0) {
  iovec piece{.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostFds * sizeof(int))];
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  if (!fds.empty()) {
    if (fds.size() > kMostFds) {
      errno = EINVAL;
      return -1;
    }
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
  }
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &message, MSG_NOSIGNAL | flags);
  } while (sent < 0 && errno == EINTR);
  return sent;
}

// Fills `fds` from the front; `fd_count` says how many came. Those beyond the room are closed by the kernel.
inline ssize_t receive_with_fds(int socket, std::span<char> bytes, std::span<int> fds, std::size_t& fd_count,
                                int flags = 0) {
  iovec piece{.iov_base = bytes.data(), .iov_len = bytes.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(kMostFds * sizeof(int))];
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  message.msg_control = fds.empty() ? nullptr : control;
  message.msg_controllen = fds.empty() ? 0 : CMSG_SPACE(std::min(fds.size(), kMostFds) * sizeof(int));
  fd_count = 0;
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &message, MSG_CMSG_CLOEXEC | flags);
  } while (got < 0 && errno == EINTR);
  if (got < 0) return got;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof(int), sizeof(int));
      if (fd_count < fds.size()) {
        fds[fd_count++] = fd;
      } else {
        ::close(fd);
      }
    }
  }
  return got;
}

}  // namespace hutch::wire
