#include "zygote/trial.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

#include "sandbox/join.h"
#include "sandbox/kernel.h"

namespace hutch::trial {

void be_heard_by_nobody(int control) {
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd = 0; fd < kControlFd; ++fd) ::dup2(null, fd);
  if (control != kControlFd) ::dup2(control, kControlFd);
  kernel::close_range(kControlFd + 1, ~0U);
}

bool comes_to_rest(pid_t child, int heard) {
  constexpr int kMostMs = 2'000;
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/stat", child);
  bool spoke = false;
  for (int waited = 0; waited < kMostMs; ++waited) {
    char text[256] = {};
    while (::recv(heard, text, sizeof(text), MSG_DONTWAIT) > 0) spoke = true;
    const int stat = ::open(path, O_RDONLY | O_CLOEXEC);
    const ssize_t got = stat >= 0 ? ::read(stat, text, sizeof(text) - 1) : -1;
    if (stat >= 0) ::close(stat);
    const char* name_end = got > 0 ? std::strrchr(text, ')') : nullptr;
    if (name_end == nullptr || std::strlen(name_end) < 3) return false;
    if (spoke && name_end[2] == 'S') return true;
    ::usleep(1'000);
  }
  return false;
}

}  // namespace hutch::trial
