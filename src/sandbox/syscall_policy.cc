#include "sandbox/syscall_policy.h"

#include <asm/ioctls.h>
#include <fcntl.h>
#include <linux/prctl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <initializer_list>
#include <utility>

namespace hutch {

const int kUnknownErrno = ENOSYS;

namespace {

struct Call {
  int number;
  std::string_view name;
};
#define CALL(name) \
  Call { SYS_##name, #name }

using Calls = std::initializer_list<Call>;

// Writing the table: each of these adds one rule per call.
class Table {
 public:
  void allow(Calls calls, std::string_view why) { add(calls, DuringSetup::as_in_program, {Form{}}, {}, 0, why); }

  void allow_if(Calls calls, std::vector<Form> forms, int otherwise, std::string_view why) {
    add(calls, DuringSetup::as_in_program, forms, Refusal::error, otherwise, why);
  }

  // Set-up may do anything, the program only these forms.
  void narrow_to(Calls calls, std::vector<Form> forms, Refusal refusal, int otherwise, std::string_view why) {
    add(calls, DuringSetup::anything, forms, refusal, otherwise, why);
  }

  void setup_only(Calls calls, int otherwise, std::string_view why) {
    add(calls, DuringSetup::anything, {}, Refusal::error, otherwise, why);
  }

  void tripwire(Calls calls, std::string_view why) {
    add(calls, DuringSetup::anything, {}, Refusal::tripwire, EPERM, why);
  }

  void deny(Calls calls, std::string_view why, int error = EPERM) {
    add(calls, DuringSetup::as_in_program, {}, Refusal::error, error, why);
  }

  // For calls that libraries probe: they take it for an older kernel and fall back.
  void absent(Calls calls, std::string_view why) { deny(calls, why, ENOSYS); }

  std::vector<Rule> sorted() && {
    std::ranges::sort(rules_, {}, &Rule::number);
    return std::move(rules_);
  }

 private:
  void add(Calls calls, DuringSetup setup, const std::vector<Form>& forms, Refusal refusal, int error,
           std::string_view why) {
    for (const Call& call : calls) rules_.push_back({call.number, call.name, setup, forms, refusal, error, why});
  }

  std::vector<Rule> rules_;
};

Condition none_of(std::uint32_t argument, std::uint32_t bits) { return {argument, bits, {0}}; }
Condition exactly(std::uint32_t argument, std::vector<std::uint32_t> values) {
  return {argument, 0xffff'ffff, std::move(values)};
}
// The values count after the flags that may always be added are masked off.
Condition one_of_plus(std::uint32_t argument, std::uint32_t flags, std::vector<std::uint32_t> values) {
  return {argument, ~flags, std::move(values)};
}

constexpr std::uint32_t kSetIdBits = S_ISUID | S_ISGID;
constexpr std::uint32_t kSocketFlags = SOCK_CLOEXEC | SOCK_NONBLOCK;

void add_memory(Table& table) {
  table.allow({CALL(brk), CALL(mremap), CALL(munmap), CALL(madvise)}, "malloc of every libc");
  table.allow({CALL(msync)}, "mmap.flush, numpy.memmap, sqlite");
  table.allow_if({CALL(mmap)},
                 {{none_of(2, PROT_EXEC), none_of(3, MAP_HUGETLB)},
                  {{2, PROT_EXEC | PROT_WRITE, {PROT_EXEC}}, none_of(3, MAP_ANONYMOUS | MAP_HUGETLB)}},
                 EPERM,
                 "malloc, thread stacks; the dynamic linker maps code from files, never writable (W^X); not from the "
                 "host's pool of huge pages, which no control group of memory is charged for");
  table.allow_if({CALL(mprotect)}, {{none_of(2, PROT_EXEC)}}, EPERM, "malloc arenas, stack guards, RELRO; never code");
  table.absent({CALL(pkey_mprotect), CALL(pkey_alloc), CALL(pkey_free), CALL(memfd_secret)}, "probed by JITs only");
  table.absent({CALL(get_mempolicy), CALL(set_mempolicy), CALL(mbind), CALL(set_mempolicy_home_node)},
               "libnuma takes it for a machine without NUMA");
  table.deny({CALL(mlock), CALL(mlock2), CALL(munlock), CALL(mlockall), CALL(munlockall)},
             "memory that cannot be reclaimed");
  table.deny({CALL(migrate_pages), CALL(move_pages), CALL(process_madvise), CALL(process_mrelease)},
             "acts on the memory of other processes");
  table.deny({CALL(mincore), CALL(remap_file_pages)}, "page cache oracle; obsolete and rich in bugs");
  // Not even with MFD_NOEXEC_SEAL: that stops exec, but not mapping what was written as code.
  table.absent({CALL(memfd_create)}, "writable memory that can be mapped as code");
}

void add_descriptors(Table& table) {
  table.allow({CALL(read), CALL(write), CALL(readv), CALL(writev), CALL(lseek), CALL(close)}, "everybody");
  table.allow({CALL(pread64), CALL(pwrite64), CALL(preadv), CALL(pwritev)},
              "sqlite, os.pread and friends, the dynamic linker");
  table.allow_if({CALL(preadv2), CALL(pwritev2)}, {{none_of(5, ~std::uint32_t{RWF_APPEND | RWF_DSYNC | RWF_SYNC})}},
                 EOPNOTSUPP, "os.preadv, os.pwritev; RWF_NOWAIT tells what is in the page cache");
  table.allow({CALL(close_range)}, "subprocess with close_fds; set-up");
  table.allow({CALL(dup), CALL(dup3), CALL(pipe2)}, "subprocess, shells, asyncio");
  table.allow_if({CALL(fcntl)},
                 {{exactly(1, {F_DUPFD, F_DUPFD_CLOEXEC, F_GETFD, F_SETFD, F_GETFL, F_SETFL, F_GETLK, F_SETLK, F_SETLKW,
                               F_OFD_GETLK, F_OFD_SETLK, F_OFD_SETLKW, F_GETPIPE_SZ, F_SETPIPE_SZ})}},
                 EPERM, "os.dup, set_inheritable, O_NONBLOCK, locks of sqlite; no leases or watches on others' files");
  table.allow({CALL(flock)}, "file locks of pip, matplotlib, joblib");
  table.allow({CALL(fsync), CALL(fdatasync), CALL(ftruncate), CALL(fallocate)},
              "sqlite, shared_memory, tempfile, coreutils");
  table.allow_if({CALL(fadvise64)},
                 {{exactly(3, {POSIX_FADV_NORMAL, POSIX_FADV_RANDOM, POSIX_FADV_SEQUENTIAL, POSIX_FADV_WILLNEED,
                               POSIX_FADV_NOREUSE})}},
                 EPERM, "cat, cp, sort, Arrow; not DONTNEED, which empties the host's page cache");
  table.allow({CALL(fstat), CALL(fstatfs), CALL(getdents64)}, "open, os.scandir, os.statvfs");
  table.allow({CALL(sendfile), CALL(copy_file_range)}, "shutil.copyfile, cp, asyncio");
#ifdef __x86_64__
  table.allow({CALL(dup2), CALL(pipe)}, "shells; older libc");
  table.absent({CALL(getdents)}, "replaced by getdents64");
#endif
  table.absent({CALL(splice), CALL(tee), CALL(vmsplice)},
               "zero-copy with a long history of bugs; copying is the fallback");
  table.absent(
      {CALL(io_setup), CALL(io_destroy), CALL(io_submit), CALL(io_cancel), CALL(io_getevents), CALL(io_pgetevents)},
      "old asynchronous I/O, hardly used, kernel memory");
  table.deny({CALL(sync), CALL(syncfs), CALL(sync_file_range), CALL(readahead)},
             "flushes or fills the host's page cache");
}

void add_paths(Table& table) {
  table.allow_if({CALL(openat)}, {{none_of(3, kSetIdBits)}}, EPERM, "everybody; no set-id file is ever created");
  table.allow_if({CALL(mkdirat), CALL(fchmodat)}, {{none_of(2, kSetIdBits)}}, EPERM,
                 "os.mkdir, os.chmod; no set-id bits");
  table.allow_if({CALL(fchmod)}, {{none_of(1, kSetIdBits)}}, EPERM, "shutil, shared_memory; no set-id bits");
  table.allow_if({CALL(mknodat)}, {{{2, S_IFMT | kSetIdBits, {0, S_IFREG, S_IFIFO}}}}, EPERM,
                 "os.mkfifo, shell pipes; no device nodes, no set-id bits");
  table.allow({CALL(newfstatat), CALL(statx), CALL(faccessat), CALL(faccessat2), CALL(readlinkat)}, "os.stat, import");
  table.allow({CALL(renameat), CALL(linkat), CALL(symlinkat), CALL(unlinkat), CALL(truncate)},
              "os.rename and friends, coreutils");
  table.allow_if({CALL(renameat2)}, {{none_of(4, ~std::uint32_t{RENAME_NOREPLACE | RENAME_EXCHANGE})}}, EPERM,
                 "mv, ln; RENAME_WHITEOUT leaves a device node behind");
  table.allow({CALL(chdir), CALL(fchdir), CALL(getcwd), CALL(umask)}, "shells, os.chdir, tempfile");
  table.allow({CALL(utimensat), CALL(statfs)}, "shutil.copystat, touch, pathlib, df");
  table.allow({CALL(getxattr), CALL(lgetxattr), CALL(fgetxattr), CALL(listxattr), CALL(llistxattr), CALL(flistxattr)},
              "shutil.copystat, ls, cp");
  table.allow({CALL(fchown), CALL(fchownat)}, "tar, cp -p, install: changes nothing without capabilities");
#ifdef __x86_64__
  table.allow_if({CALL(open)}, {{none_of(2, kSetIdBits)}}, EPERM, "older libc, static programs");
  table.allow_if({CALL(creat), CALL(mkdir), CALL(chmod)}, {{none_of(1, kSetIdBits)}}, EPERM, "glibc; no set-id bits");
  table.allow_if({CALL(mknod)}, {{{1, S_IFMT | kSetIdBits, {0, S_IFREG, S_IFIFO}}}}, EPERM, "mkfifo of older libc");
  table.allow({CALL(stat), CALL(lstat), CALL(access), CALL(readlink)}, "glibc's dynamic linker, older libc");
  table.allow({CALL(rename), CALL(link), CALL(symlink), CALL(unlink), CALL(rmdir)}, "glibc");
  table.allow({CALL(chown), CALL(lchown)}, "tarfile: changes nothing without capabilities");
  table.absent({CALL(utime), CALL(utimes), CALL(futimesat)}, "replaced by utimensat");
  table.absent({CALL(ustat), CALL(sysfs), CALL(uselib)}, "obsolete");
#endif
  table.absent({CALL(openat2)}, "its flags stand behind a pointer, which a filter cannot read");
  // cp -p, install and sed -i pass over EOPNOTSUPP in silence but complain about EPERM; shutil passes over both.
  table.deny({CALL(setxattr), CALL(lsetxattr), CALL(fsetxattr)}, "unaccounted kernel memory", EOPNOTSUPP);
  table.deny({CALL(removexattr), CALL(lremovexattr), CALL(fremovexattr)}, "none can be set");
  table.deny({CALL(name_to_handle_at), CALL(lookup_dcookie)}, "file handles reach past the mount namespace");
  table.deny(
      {CALL(inotify_init1), CALL(inotify_add_watch), CALL(inotify_rm_watch), CALL(fanotify_init), CALL(fanotify_mark)},
      "quotas shared with the host user");
#ifdef __x86_64__
  table.deny({CALL(inotify_init)}, "quotas shared with the host user");
#endif
}

void add_waiting(Table& table) {
  table.allow({CALL(ppoll), CALL(pselect6)}, "select, subprocess.communicate");
  table.allow({CALL(epoll_create1), CALL(epoll_ctl), CALL(epoll_pwait), CALL(eventfd2)}, "asyncio, selectors, libuv");
#ifdef __x86_64__
  table.allow({CALL(poll), CALL(select), CALL(epoll_wait)}, "glibc");
  table.absent({CALL(epoll_create), CALL(eventfd), CALL(signalfd), CALL(epoll_ctl_old), CALL(epoll_wait_old)},
               "replaced by newer forms");
#endif
  table.absent({CALL(epoll_pwait2), CALL(signalfd4)}, "probed; epoll_wait and handlers are the fallback");
  table.allow({CALL(rt_sigaction), CALL(rt_sigprocmask), CALL(rt_sigreturn), CALL(sigaltstack)}, "everybody");
  table.allow({CALL(rt_sigpending), CALL(rt_sigtimedwait), CALL(rt_sigsuspend)}, "signal.sigwait, shells");
  table.allow({CALL(kill), CALL(tkill), CALL(tgkill)}, "subprocess, abort, pthread_kill; the pid namespace bounds it");
  table.allow({CALL(setitimer), CALL(getitimer)}, "signal.setitimer");
#ifdef __x86_64__
  table.allow({CALL(pause), CALL(alarm)}, "signal.pause, signal.alarm");
#endif
  table.deny({CALL(rt_sigqueueinfo), CALL(rt_tgsigqueueinfo)}, "forges the sender of a signal");
}

void add_threads_and_time(Table& table) {
  table.allow({CALL(futex), CALL(set_robust_list), CALL(rseq), CALL(membarrier)}, "threads of every libc");
  table.allow({CALL(sched_yield), CALL(sched_getaffinity), CALL(sched_setaffinity), CALL(getcpu)},
              "os.cpu_count, OpenBLAS, OpenMP, joblib");
  table.allow(
      {CALL(sched_getscheduler), CALL(sched_getparam), CALL(sched_get_priority_max), CALL(sched_get_priority_min)},
      "pthread_getschedparam");
  table.deny({CALL(sched_setscheduler), CALL(sched_setparam), CALL(sched_setattr), CALL(setpriority), CALL(ioprio_set)},
             "takes time from other sandboxes");
  table.deny({CALL(sched_getattr), CALL(sched_rr_get_interval), CALL(ioprio_get), CALL(get_robust_list)},
             "nobody needs it");
  table.absent({CALL(futex_waitv)}, "probed by Wine only");
  table.allow({CALL(clock_gettime), CALL(clock_getres), CALL(gettimeofday), CALL(times)}, "time, when the vDSO cannot");
  table.allow({CALL(nanosleep), CALL(clock_nanosleep)}, "time.sleep, sleep");
  table.allow({CALL(timerfd_create), CALL(timerfd_settime), CALL(timerfd_gettime)}, "event loops, os.timerfd_create");
#ifdef __x86_64__
  table.allow({CALL(time)}, "time, when the vDSO cannot");
#endif
  table.absent(
      {CALL(timer_create), CALL(timer_settime), CALL(timer_gettime), CALL(timer_getoverrun), CALL(timer_delete)},
      "kernel memory per timer; timeout(1) falls back to alarm");
  table.deny({CALL(settimeofday), CALL(clock_settime), CALL(clock_adjtime), CALL(adjtimex)}, "the host's clock");
}

void add_processes(Table& table) {
  constexpr std::uint32_t kForbiddenCloneFlags = CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC |
                                                 CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_PARENT |
                                                 CLONE_PTRACE | CLONE_UNTRACED;
  table.narrow_to({CALL(clone)}, {{none_of(0, kForbiddenCloneFlags)}}, Refusal::error, EPERM,
                  "threads, fork, posix_spawn; no namespaces, no escape from the parent or a tracer");
  table.setup_only({CALL(clone3)}, ENOSYS, "the zygote forks into a cgroup; glibc falls back to clone");
  table.allow({CALL(execve)}, "subprocess, shells");
  table.deny({CALL(execveat)}, "runs what has no name; fexecve falls back to /proc");
  table.allow({CALL(exit), CALL(exit_group), CALL(wait4), CALL(waitid), CALL(restart_syscall)}, "everybody");
  table.allow({CALL(getpid), CALL(getppid), CALL(gettid), CALL(set_tid_address)}, "everybody");
  table.allow({CALL(getpgid), CALL(setpgid), CALL(getsid), CALL(setsid)}, "shells, subprocess; set-up");
  table.allow({CALL(pidfd_open), CALL(pidfd_send_signal)}, "asyncio child watcher; the pid namespace bounds it");
  table.narrow_to({CALL(prctl)},
                  {{exactly(0,
                            {
                                PR_SET_NAME,
                                PR_GET_NAME,
                                PR_SET_PDEATHSIG,
                                PR_GET_PDEATHSIG,
                                PR_GET_DUMPABLE,
                                PR_GET_KEEPCAPS,
                                PR_GET_TIMERSLACK,
                                PR_GET_CHILD_SUBREAPER,
                                PR_GET_NO_NEW_PRIVS,
                                PR_CAPBSET_READ,
                                PR_GET_SECCOMP,
#ifdef __aarch64__
                                PR_SVE_GET_VL,
                                PR_GET_TAGGED_ADDR_CTRL,
#endif
                            })},
                   {exactly(0, {PR_SET_VMA}), exactly(1, {PR_SET_VMA_ANON_NAME})}},
                  Refusal::error, EPERM, "thread names, multiprocessing, malloc names its arenas; queries");
#ifdef __x86_64__
  table.allow({CALL(fork), CALL(vfork), CALL(getpgrp)}, "glibc, shells");
  // From asm/prctl.h, which names the last three only in newer headers.
  constexpr std::uint32_t kSetFs = 0x1002, kGetFs = 0x1003, kXcompSupported = 0x1021, kXcompGet = 0x1022,
                          kXcompAsk = 0x1023;
  table.allow_if({CALL(arch_prctl)}, {{exactly(0, {kSetFs, kGetFs, kXcompSupported, kXcompGet, kXcompAsk})}}, EPERM,
                 "thread-local storage; numeric libraries ask for AMX");
  table.deny({CALL(modify_ldt), CALL(ioperm), CALL(iopl)}, "segments and I/O ports");
  table.absent({CALL(set_thread_area), CALL(get_thread_area)}, "32-bit only");
#endif
  table.tripwire({CALL(ptrace), CALL(process_vm_readv), CALL(process_vm_writev)}, "reads other processes");
  table.deny({CALL(pidfd_getfd), CALL(kcmp)}, "reads other processes");
  table.deny({CALL(personality)}, "turns off address randomisation");
}

void add_identity(Table& table) {
  table.allow(
      {CALL(getuid), CALL(geteuid), CALL(getgid), CALL(getegid), CALL(getresuid), CALL(getresgid), CALL(getgroups)},
      "os.getuid and friends, shells");
  table.allow({CALL(getpriority), CALL(getrusage), CALL(sysinfo), CALL(uname), CALL(getrandom)},
              "resource, os.sysconf, platform, random");
  table.allow({CALL(getrlimit), CALL(setrlimit)}, "resource, ulimit: the hard limit is the sandbox's");
  table.narrow_to({CALL(prlimit64)}, {{exactly(0, {0})}}, Refusal::error, EPERM, "the same, of the caller only");
  table.setup_only({CALL(capset), CALL(capget), CALL(setresuid), CALL(setresgid), CALL(setgroups)}, EPERM,
                   "set-up gives up its privileges");
  table.deny({CALL(setuid), CALL(setgid), CALL(setreuid), CALL(setregid), CALL(setfsuid), CALL(setfsgid)},
             "a program has one identity");
}

void add_sockets(Table& table) {
  table.narrow_to({CALL(socket)},
                  {{exactly(0, {AF_UNIX}), one_of_plus(1, kSocketFlags, {SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET})},
                   {exactly(0, {AF_INET, AF_INET6}), one_of_plus(1, kSocketFlags, {SOCK_STREAM, SOCK_DGRAM}),
                    exactly(2, {0, IPPROTO_TCP, IPPROTO_UDP})}},
                  Refusal::tripwire, EAFNOSUPPORT, "asyncio, multiprocessing, servers on loopback, the egress proxy");
  table.allow_if({CALL(socketpair)}, {{exactly(0, {AF_UNIX})}}, EAFNOSUPPORT, "asyncio wakes itself, multiprocessing");
  table.allow({CALL(bind), CALL(listen), CALL(accept), CALL(accept4), CALL(connect), CALL(shutdown)}, "socket");
  table.allow({CALL(getsockname), CALL(getpeername), CALL(getsockopt)}, "socket");
  table.allow({CALL(sendto), CALL(recvfrom), CALL(sendmsg), CALL(recvmsg)},
              "socket, multiprocessing passes descriptors");
  table.absent({CALL(sendmmsg), CALL(recvmmsg)}, "the resolver tries it, and there is no name server to ask");
}

Form socket_options(std::uint32_t level, std::vector<std::uint32_t> options) {
  return {exactly(1, {level}), exactly(2, std::move(options))};
}

// Others attach programs to a socket, which no control group is charged for and whose code takes from what the whole
// host may have, turn on features of the host's network for everybody, pin memory, or change the protocol.
void add_socket_options(Table& table) {
  table.allow_if({CALL(setsockopt)},
                 {socket_options(SOL_SOCKET, {SO_REUSEADDR, SO_REUSEPORT, SO_KEEPALIVE, SO_BROADCAST, SO_LINGER,
                                              SO_SNDBUF, SO_RCVBUF, SO_SNDTIMEO, SO_RCVTIMEO, SO_PASSCRED}),
                  socket_options(IPPROTO_TCP, {TCP_NODELAY, TCP_CORK, TCP_KEEPIDLE, TCP_KEEPINTVL, TCP_KEEPCNT,
                                               TCP_USER_TIMEOUT, TCP_QUICKACK, TCP_DEFER_ACCEPT}),
                  socket_options(IPPROTO_IPV6, {IPV6_V6ONLY, IPV6_RECVERR, IPV6_TCLASS}),
                  socket_options(IPPROTO_IP, {IP_TOS, IP_RECVERR})},
                 EPERM, "asyncio, http.server, clients of databases, the resolver (RECVERR)");
}

void add_isolation(Table& table) {
  table.setup_only({CALL(landlock_restrict_self), CALL(seccomp)}, EPERM, "set-up raises the walls");
  table.tripwire({CALL(setns), CALL(unshare), CALL(mount), CALL(pivot_root), CALL(chroot)},
                 "leaves the sandbox's root");
  table.tripwire({CALL(open_by_handle_at)}, "file handles reach past the mount namespace");
  table.tripwire({CALL(init_module), CALL(finit_module), CALL(kexec_load)}, "replaces the kernel");
  table.tripwire({CALL(bpf), CALL(perf_event_open), CALL(userfaultfd), CALL(io_uring_setup)},
                 "the usual way to attack the kernel");
  table.tripwire({CALL(keyctl), CALL(add_key), CALL(request_key)}, "keys outlive the sandbox");
  table.deny({CALL(landlock_create_ruleset), CALL(landlock_add_rule)}, "set-up brings its rules along");
  table.deny({CALL(umount2), CALL(open_tree), CALL(move_mount), CALL(fsopen), CALL(fsconfig), CALL(fsmount),
              CALL(fspick), CALL(mount_setattr)},
             "changes the sandbox's root");
  table.deny({CALL(io_uring_enter), CALL(io_uring_register)}, "the ring cannot be made");
  table.deny({CALL(delete_module), CALL(kexec_file_load), CALL(reboot)}, "replaces the kernel");
  table.deny({CALL(sethostname), CALL(setdomainname), CALL(swapon), CALL(swapoff), CALL(acct), CALL(syslog),
              CALL(quotactl), CALL(quotactl_fd), CALL(vhangup)},
             "administers the host");
  table.deny({CALL(shmget), CALL(shmat), CALL(shmctl), CALL(shmdt), CALL(semget), CALL(semop), CALL(semctl),
              CALL(semtimedop), CALL(msgget), CALL(msgsnd), CALL(msgrcv), CALL(msgctl), CALL(mq_open), CALL(mq_unlink),
              CALL(mq_timedsend), CALL(mq_timedreceive), CALL(mq_notify), CALL(mq_getsetattr)},
             "outlives the process; multiprocessing uses futexes and /dev/shm");
  table.absent({CALL(nfsservctl)}, "removed from the kernel");
#ifdef __x86_64__
  table.absent({CALL(_sysctl), CALL(create_module), CALL(get_kernel_syms), CALL(query_module), CALL(getpmsg),
                CALL(putpmsg), CALL(afs_syscall), CALL(tuxcall), CALL(security), CALL(vserver)},
               "removed from the kernel");
#endif
}

void add_ioctl(Table& table) {
  // Never TIOCSTI or TIOCLINUX, which type into the terminal.
  table.allow_if(
      {CALL(ioctl)},
      {{exactly(1, {TCGETS, TCSETS, TCSETSW, TCSETSF, TIOCGWINSZ, TIOCGPGRP, FIONREAD, FIONBIO, FIOCLEX, FIONCLEX})}},
      ENOTTY, "isatty, os.get_terminal_size, getpass, asyncio, non-blocking sockets, close on exec");
}

std::vector<Rule> make_policy() {
  Table table;
  add_memory(table);
  add_descriptors(table);
  add_paths(table);
  add_waiting(table);
  add_threads_and_time(table);
  add_processes(table);
  add_identity(table);
  add_sockets(table);
  add_socket_options(table);
  add_isolation(table);
  add_ioctl(table);
  return std::move(table).sorted();
}

}  // namespace

std::span<const Rule> syscall_policy() {
  static const std::vector<Rule> policy = make_policy();
  return policy;
}

const Rule* find_rule(int number) {
  const auto policy = syscall_policy();
  const auto found = std::ranges::lower_bound(policy, number, {}, &Rule::number);
  return found != policy.end() && found->number == number ? &*found : nullptr;
}

}  // namespace hutch
