#include "sandbox/seccomp_filter.h"

#include <sys/syscall.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>

#include "sandbox/seccomp_filters.inc"
#include "sandbox/syscall_policy.h"

namespace hutch {
namespace {

// FNV-1a with 64 bits, over the fields in a fixed order.
class Hash {
 public:
  void add(std::span<const sock_filter> program) {
    for (const sock_filter& instruction : program) {
      add_bytes(instruction.code, 2);
      add_bytes(instruction.jt, 1);
      add_bytes(instruction.jf, 1);
      add_bytes(instruction.k, 4);
    }
  }

  std::uint64_t value() const { return value_; }

 private:
  void add_bytes(std::uint32_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      value_ ^= (number >> (8 * i)) & 0xff;
      value_ *= 0x100000001b3;
    }
  }

  std::uint64_t value_ = 0xcbf29ce484222325;
};

}  // namespace

std::span<const sock_filter> base_filter() { return kBaseProgram; }

std::span<const sock_filter> final_filter() { return kFinalProgram; }

std::string filter_hash() {
  static const std::string known = [] {  // in every record
    Hash hash;
    hash.add(kBaseProgram);
    hash.add(kFinalProgram);
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(hash.value()));
    return std::string(text);
  }();
  return known;
}

std::string_view syscall_name(int number) {
  const Rule* rule = find_rule(number);
  return rule == nullptr ? "unknown" : rule->name;
}

bool is_tripwire(int number) {
  const Rule* rule = find_rule(number);
  return rule != nullptr && rule->refusal == Refusal::tripwire;
}

int tripwire_errno(int number) {
  const Rule* rule = find_rule(number);
  return rule == nullptr || rule->refusal_errno == 0 ? EPERM : rule->refusal_errno;
}

std::string_view denial_hint(int number) {
  switch (number) {
    case SYS_socket:
    case SYS_socketpair:
      return "raw network is not available; use TCP, UDP or Unix sockets";
    case SYS_mount:
    case SYS_umount2:
    case SYS_pivot_root:
    case SYS_chroot:
    case SYS_setns:
    case SYS_unshare:
    case SYS_clone:
    case SYS_clone3:
      return "mounts and namespaces cannot be changed; work inside /workspace and /tmp";
    case SYS_ptrace:
    case SYS_process_vm_readv:
    case SYS_process_vm_writev:
    case SYS_pidfd_getfd:
    case SYS_kcmp:
      return "other processes cannot be inspected; use logging or faulthandler";
    case SYS_mmap:
    case SYS_mprotect:
    case SYS_memfd_create:
      return "memory cannot be both written and executed; run without a JIT compiler";
    case SYS_io_uring_setup:
      return "io_uring is not available; use ordinary files, threads or asyncio";
    case SYS_bpf:
    case SYS_perf_event_open:
    case SYS_userfaultfd:
      return "kernel tracing is not available; use cProfile or time.perf_counter";
    case SYS_keyctl:
    case SYS_add_key:
    case SYS_request_key:
      return "kernel keyrings are not available; keep secrets in memory";
    case SYS_init_module:
    case SYS_finit_module:
    case SYS_kexec_load:
      return "the kernel cannot be changed from inside the sandbox";
    case SYS_open_by_handle_at:
      return "files cannot be opened by handle; open them by path";
    default:
      return "this system call is not available in the sandbox; use the Python standard library instead";
  }
}

}  // namespace hutch
