#include "sandbox/rest.h"

#include <sys/rseq.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

namespace hutch {
namespace {

#if defined(__x86_64__)

constexpr std::uintptr_t kPage = 4096;
constexpr std::uintptr_t kEnd = 0x7ffffffff000;  // of what a process may map, with four levels of page tables

// The kernel writes into this part of the thread's memory whenever it moves the thread.
bool take_leave_of_rseq() {
  if (__rseq_size == 0) return true;
  auto* area = static_cast<char*>(__builtin_thread_pointer()) + __rseq_offset;
  constexpr std::size_t kFirstVersion = 32;  // what the C library registers, however little of it it uses
  return ::syscall(SYS_rseq, area, kFirstVersion, RSEQ_FLAG_UNREGISTER, RSEQ_SIG) == 0;
}

[[gnu::always_inline]] inline void call(long number, std::uintptr_t first, std::uintptr_t second) {
  asm volatile("syscall" : "+a"(number) : "D"(first), "S"(second) : "rcx", "r11", "memory");
}

// There is no memory any more but the page that this begins, and the stack's from `stack` to `top`. What cannot be
// unmapped stays.
[[noreturn, gnu::noinline, gnu::aligned(kPage), clang::no_sanitize("all"), gnu::no_stack_protector]] void rest_alone(
    std::uintptr_t code, std::uintptr_t stack, std::uintptr_t top) {
  call(SYS_munmap, 0, code);
  call(SYS_munmap, code + kPage, stack - (code + kPage));
  call(SYS_munmap, top, kEnd - top);
  for (;;) call(SYS_pause, 0, 0);
}

void give_back_memory() {
  if (!take_leave_of_rseq()) return;
  const auto code = reinterpret_cast<std::uintptr_t>(&rest_alone);
  const auto here = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) & ~(kPage - 1);
  if (code < here - kPage) rest_alone(code, here - kPage, here + kPage);
}

#else

void give_back_memory() {}

#endif

}  // namespace

void rest_for_ever() {
  give_back_memory();
  for (;;) ::pause();
}

}  // namespace hutch
