// The zygote's C++ half: a CPython extension built against the limited API, so that one file serves every CPython from
// 3.10 on. serve() waits for fork requests; it returns only in a forked child, when every wall is up.
#define Py_LIMITED_API 0x030A0000
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "sandbox/join.h"
#include "sandbox/kernel.h"
#include "sandbox/privileges.h"
#include "wire/fd_passing.h"
#include "wire/plain_script.h"
#include "zygote/code_pages.h"
#include "zygote/fresh_memory.h"
#include "zygote/heap_image.h"
#include "zygote/hot_pages.h"
#include "zygote/trial.h"
#include "zygote/zygote_messages.h"

namespace hutch {
namespace {

constexpr std::size_t kMostInstructions = 4096;

struct Filter {
  std::array<sock_filter, kMostInstructions> code{};
  std::size_t length = 0;
  [[nodiscard]] std::span<const sock_filter> view() const { return {code.data(), length}; }
};

// Everything the loop needs, made before the first fork and never freed.
struct State {
  int keeper = -1;
  int own_pid_namespace = -1;
  Filter base;
  Filter last;
  pid_t* thread_id = nullptr;  // where glibc keeps the main thread's id; the child's must be written there
  void* robust_list = nullptr;
  std::size_t robust_list_size = 0;
  struct Random {
    void* begin = nullptr;
    std::size_t size = 0;
  };
  std::array<Random, 16> generators{};  // states of random number generators
  std::size_t generator_count = 0;
  struct Hooks {
    PyObject* list = nullptr;
    Py_ssize_t size = 0;
  };
  std::array<Hooks, 3> hooks{};  // before, in the parent, in the child
  std::size_t hooks_count = 0;
  std::uint64_t image_bytes = 0;
};

State state;  // one zygote per process

bool receive_filter(Filter& filter, std::uint32_t length) {
  if (length > kMostInstructions) return false;
  std::size_t fd_count = 0;
  const std::size_t size = length * sizeof(sock_filter);
  const ssize_t got =
      wire::receive_with_fds(state.keeper, {reinterpret_cast<char*>(filter.code.data()), size}, {}, fd_count);
  filter.length = length;
  return got == static_cast<ssize_t>(size);
}

bool receive_hello() {
  ZygoteHello hello;
  std::size_t fd_count = 0;
  std::span<int> fds{&state.own_pid_namespace, 1};
  const ssize_t got =
      wire::receive_with_fds(state.keeper, {reinterpret_cast<char*>(&hello), sizeof(hello)}, fds, fd_count);
  return got == static_cast<ssize_t>(sizeof(hello)) && fd_count == 1 &&
         receive_filter(state.base, hello.base_filter_length) && receive_filter(state.last, hello.final_filter_length);
}

// The child is made by a bare clone(2), because only clone can make it the keeper's child; what glibc's fork would
// have told the thread library is prepared here.
bool find_thread_bookkeeping() {
  if (::prctl(PR_GET_TID_ADDRESS, &state.thread_id, 0, 0, 0) != 0 || state.thread_id == nullptr) return false;
  if (*state.thread_id != static_cast<pid_t>(::syscall(SYS_gettid))) return false;
  return ::syscall(SYS_get_robust_list, 0, &state.robust_list, &state.robust_list_size) == 0;
}

bool install_base_filter() {
  if (privileges::set_no_new_privileges() != 0) return false;
  const sock_fprog program{.len = static_cast<unsigned short>(state.base.length), .filter = state.base.code.data()};
  return ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

constexpr std::uint64_t kTellThreadLibrary = CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID;

// CLONE_PARENT: the keeper, not the zygote, is told of the runner's end, by the kernel.
pid_t fork_for_keeper(const ForkRequest& request, int cgroup) {
  constexpr std::uint64_t kFlags = CLONE_PARENT | kTellThreadLibrary;
  if (request.cgroup_is_directory) {
    clone_args args{};
    args.flags = kFlags | CLONE_INTO_CGROUP;
    args.child_tid = reinterpret_cast<std::uint64_t>(state.thread_id);
    args.cgroup = static_cast<std::uint64_t>(cgroup);
    return kernel::clone3(args);
  }
  return static_cast<pid_t>(::syscall(SYS_clone, kFlags | SIGCHLD, nullptr, nullptr, state.thread_id, 0));
}

JoinPlan plan_for(const ForkRequest& request, std::span<const int> fds) {
  JoinPlan plan;
  plan.shell = {.net = fds[0],
                .ipc = fds[1],
                .uts = fds[2],
                .cgroup = fds[3],
                .mount = fds[4],
                .user = fds[5],
                .landlock = fds[7]};
  plan.shell.pid = fds[6];
  plan.streams = {.input = fds[8], .output = fds[9], .error = fds[10], .control = fds[11]};
  if (!request.cgroup_is_directory) {
    for (std::size_t i = 0; i < request.cgroup_file_count && i < kMostCgroupFiles; ++i) {
      plan.shell.cgroup_tasks[i] = fds[kFixedForkFds + i];
    }
  }
  plan.limits = request.limits;
  plan.uid = request.uid;
  plan.gid = request.gid;
  plan.groups = request.groups;
  plan.final_filter = state.last.view();
  plan.fault = request.fault;
  return plan;
}

// Fills memory from 256 random bits (xoshiro256++). The kernel takes thirty times as long for as many bytes, and what
// is seeded with them makes no secrets.
void stretch(std::array<std::uint64_t, 4>& seed, void* begin, std::size_t size) {
  auto* to = static_cast<char*>(begin);
  for (std::size_t done = 0; done < size; done += sizeof(std::uint64_t)) {
    const std::uint64_t next = std::rotl(seed[0] + seed[3], 23) + seed[0];
    const std::uint64_t shifted = seed[1] << 17;
    seed[2] ^= seed[0];
    seed[3] ^= seed[1];
    seed[1] ^= seed[2];
    seed[0] ^= seed[3];
    seed[2] ^= shifted;
    seed[3] = std::rotl(seed[3], 45);
    std::memcpy(to + done, &next, std::min(sizeof(next), size - done));
  }
}

// Two forks must never draw the same numbers. Written here, because a generator's own way of seeding may touch
// hundreds of pages, and each costs a copy.
void reseed_generators() {
  for (std::size_t i = 0; i < state.generator_count; ++i) {
    std::array<std::uint64_t, 4> seed{};
    // From the kernel: what the C library keeps of its own generator is the same in every fork until it notices.
    if (::syscall(SYS_getrandom, seed.data(), sizeof(seed), 0) != static_cast<long>(sizeof(seed))) ::_exit(125);
    stretch(seed, state.generators[i].begin, state.generators[i].size);
  }
}

// A program that forks calls them; see set_aside().
void restore_fork_hooks() {
  for (std::size_t i = 0; i < state.hooks_count; ++i) {
    Py_SET_SIZE(reinterpret_cast<PyVarObject*>(state.hooks[i].list), state.hooks[i].size);
  }
}

// In a child, when it is in its sandbox.
void wake_up(hot_pages::Which bring) {
  reseed_generators();
  hot_pages::touch(bring);
  PyOS_AfterFork_Child();
  restore_fork_hooks();
}

// True in the child.
bool serve_one(const ForkRequest& request, std::span<const int> fds) {
  JoinPlan plan = plan_for(request, fds);
  ForkReply reply;
  PyOS_BeforeFork();
  plan.begun_ns = kernel::monotonic_ns();
  pid_t pid = -1;
  // The pid namespace is joined here, so that one fork is enough: it takes effect for children only.
  if (::setns(plan.shell.pid, CLONE_NEWPID) == 0) {
    const int group = fds.size() > kFixedForkFds ? fds[kFixedForkFds] : -1;
    pid = fork_for_keeper(request, group);
    if (pid == 0) {
      ::syscall(SYS_set_robust_list, state.robust_list, state.robust_list_size);
      join_shell(plan);
      wake_up(request.in_advance ? hot_pages::Which::all : hot_pages::Which::not_inherited);
      return true;
    }
  }
  reply.pid = pid;
  reply.error_number = pid < 0 ? errno : 0;
  wire::send_with_fds(state.keeper, {reinterpret_cast<const char*>(&reply), sizeof(reply)}, {});
  ::setns(state.own_pid_namespace, CLONE_NEWPID);  // or a dead sandbox's pid namespace would live on with us
  PyOS_AfterFork_Parent();
  for (const int fd : fds) ::close(fd);
  return false;
}

// A session that nobody hears, for the sake of the pages it changes: every other will change the same, because it
// begins where they begin. True in the child.
bool try_out_session(std::size_t kind, std::string_view first, std::string_view then) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return false;
  PyOS_BeforeFork();
  const auto pid =
      static_cast<pid_t>(::syscall(SYS_clone, kTellThreadLibrary | SIGCHLD, nullptr, nullptr, state.thread_id, 0));
  if (pid == 0) {
    ::syscall(SYS_set_robust_list, state.robust_list, state.robust_list_size);
    trial::be_heard_by_nobody(sockets[1]);
    wake_up(hot_pages::Which::not_inherited);
    return true;
  }
  PyOS_AfterFork_Parent();
  ::close(sockets[1]);
  if (pid > 0) {
    const auto rests_after = [&](std::string_view tasks) {
      const ssize_t sent = ::send(sockets[0], tasks.data(), tasks.size(), MSG_NOSIGNAL);
      return sent == static_cast<ssize_t>(tasks.size()) && trial::comes_to_rest(pid, sockets[0]);
    };
    // Where nothing can be learned, sessions take more memory.
    if (rests_after(first)) {
      hot_pages::remember_session(pid, kind);
      if (rests_after(then)) hot_pages::remember_more(pid, kind);
    }
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  ::close(sockets[0]);
  return false;
}

// What any fork of this process costs, without a sandbox around it: the floor that a start is compared with.
void measure_fork() {
  ForkReply reply;
  const std::uint64_t begin = kernel::monotonic_ns();
  const auto pid = static_cast<pid_t>(::syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, 0));
  if (pid == 0) ::_exit(0);
  if (pid > 0) ::waitpid(pid, nullptr, 0);
  reply.pid = pid;
  reply.error_number = pid < 0 ? errno : 0;
  reply.fork_ns = kernel::monotonic_ns() - begin;
  wire::send_with_fds(state.keeper, {reinterpret_cast<const char*>(&reply), sizeof(reply)}, {});
}

PyObject* fail(const char* what) { return PyErr_Format(PyExc_RuntimeError, "zygote: %s (errno %d)", what, errno); }

PyObject* serve(PyObject*, PyObject* args) {
  unsigned long long preload_us = 0;
  PyObject* sessions = nullptr;
  if (PyArg_ParseTuple(args, "iKO!", &state.keeper, &preload_us, &PyTuple_Type, &sessions) == 0) return nullptr;
  if (!receive_hello()) return fail("the keeper's greeting did not arrive");
  if (!find_thread_bookkeeping()) return fail("cannot find the thread id (is CONFIG_CHECKPOINT_RESTORE off?)");
  hot_pages::own();
  for (Py_ssize_t kind = 0; kind < PyTuple_Size(sessions); ++kind) {
    const char* first = nullptr;
    const char* then = nullptr;
    Py_ssize_t first_size = 0;
    Py_ssize_t then_size = 0;
    if (PyArg_ParseTuple(PyTuple_GetItem(sessions, kind), "y#y#", &first, &first_size, &then, &then_size) == 0) {
      return nullptr;
    }
    if (try_out_session(static_cast<std::size_t>(kind), {first, static_cast<std::size_t>(first_size)},
                        {then, static_cast<std::size_t>(then_size)})) {
      Py_RETURN_FALSE;
    }
  }
  const ZygoteReady ready{.preload_us = preload_us, .heap_bytes = state.image_bytes};
  if (!install_base_filter()) return fail("cannot install the system call filter");
  wire::send_with_fds(state.keeper, {reinterpret_cast<const char*>(&ready), sizeof(ready)}, {});
  for (;;) {
    ForkRequest request;
    std::array<int, wire::kMostFds> fds{};
    std::size_t fd_count = 0;
    const ssize_t got =
        wire::receive_with_fds(state.keeper, {reinterpret_cast<char*>(&request), sizeof(request)}, fds, fd_count);
    if (got == static_cast<ssize_t>(sizeof(request)) && request.only_measure && fd_count == 0) {
      measure_fork();
      continue;
    }
    if (got != static_cast<ssize_t>(sizeof(request)) || fd_count != kFixedForkFds + request.cgroup_file_count) {
      ::_exit(0);  // the keeper is gone, and with it every reason to live
    }
    if (serve_one(request, {fds.data(), fd_count})) {
      return PyBool_FromLong(request.in_advance ? 1 : 0);
    }
  }
}

PyObject* reseed_at(PyObject*, PyObject* args) {
  unsigned long long address = 0;
  unsigned long long size = 0;
  if (PyArg_ParseTuple(args, "KK", &address, &size) == 0) return nullptr;
  if (size > 4096) return PyErr_Format(PyExc_ValueError, "too large for a generator's state");
  if (state.generator_count == state.generators.size()) return PyErr_Format(PyExc_ValueError, "too many generators");
  state.generators[state.generator_count++] = {.begin = reinterpret_cast<void*>(address), .size = size};
  Py_RETURN_NONE;
}

// Where these bytes are in the object itself, or 0.
PyObject* find_bytes(PyObject*, PyObject* args) {
  PyObject* object = nullptr;
  const char* bytes = nullptr;
  Py_ssize_t size = 0;
  if (PyArg_ParseTuple(args, "Oy#", &object, &bytes, &size) == 0) return nullptr;
  PyObject* whole = PyObject_GetAttrString(reinterpret_cast<PyObject*>(Py_TYPE(object)), "__basicsize__");
  if (whole == nullptr) return nullptr;
  const std::size_t object_size = PyLong_AsSize_t(whole);
  Py_DECREF(whole);
  if (PyErr_Occurred() != nullptr) return nullptr;
  const void* found = ::memmem(object, object_size, bytes, static_cast<std::size_t>(size));
  return PyLong_FromUnsignedLongLong(reinterpret_cast<std::uintptr_t>(found));
}

// The list keeps its contents and seems shorter, so that CPython calls only the first of them around our forks, and a
// child gets them all back by writing one word.
PyObject* set_aside(PyObject*, PyObject* args) {
  PyObject* list = nullptr;
  Py_ssize_t rest = 0;
  if (PyArg_ParseTuple(args, "On", &list, &rest) == 0) return nullptr;
  if (PyList_CheckExact(list) == 0 || rest < 0 || rest > PyList_Size(list) || state.hooks_count == state.hooks.size()) {
    return PyErr_Format(PyExc_ValueError, "not a list of hooks");
  }
  Py_INCREF(list);
  state.hooks[state.hooks_count++] = {.list = list, .size = PyList_Size(list)};
  Py_SET_SIZE(reinterpret_cast<PyVarObject*>(list), rest);
  Py_RETURN_NONE;
}

// What CPython does in a child of fork, done once here: whatever it looks up for the first time is found for all.
PyObject* rehearse_fork(PyObject*, PyObject*) {
  PyOS_BeforeFork();
  PyOS_AfterFork_Child();
  Py_RETURN_NONE;
}

PyObject* fill_gaps(PyObject*, PyObject*) {
  fresh_memory::fill_gaps();
  Py_RETURN_NONE;
}

PyObject* make_fork_cheap(PyObject*, PyObject*) {
  code_pages::join();
  code_pages::make_huge(reinterpret_cast<const void*>(&PyEval_EvalCode));
  state.image_bytes = heap_image::make_fork_cheap();
  Py_RETURN_NONE;
}

// The first words of the engine: a program of which nothing else is said, as nearly always, is taken apart here, where
// it costs a child no pages.
PyObject* receive(PyObject*, PyObject* args) {
  int fd = -1;
  if (PyArg_ParseTuple(args, "i", &fd) == 0) return nullptr;
  std::array<char, 64U << 10> said;
  ssize_t size = -1;
  do {
    size = ::read(fd, said.data(), said.size());
  } while (size < 0 && errno == EINTR);
  if (size < 0) return PyErr_SetFromErrno(PyExc_OSError);
  const std::string_view frame{said.data(), static_cast<std::size_t>(size)};
  if (const auto code = wire::code_of_plain_script(frame)) {
    return Py_BuildValue("y#y#", code->data(), static_cast<Py_ssize_t>(code->size()), "", Py_ssize_t{0});
  }
  return Py_BuildValue("Oy#", Py_None, frame.data(), static_cast<Py_ssize_t>(frame.size()));
}

PyObject* come_alone(PyObject*, PyObject*) {
  hot_pages::come_alone();
  Py_RETURN_NONE;
}

PyObject* remember_pages(PyObject*, PyObject* args) {
  int pid = 0;
  if (PyArg_ParseTuple(args, "i", &pid) == 0) return nullptr;
  return PyBool_FromLong(hot_pages::remember(pid) ? 1 : 0);
}

// With more threads a page could change under our hands.
bool has_one_thread() {
  struct stat tasks{};
  constexpr nlink_t kOneThread = 3;  // the directory, its parent, and one task
  return ::stat("/proc/self/task", &tasks) == 0 && tasks.st_nlink == kOneThread;
}

PyObject* rest(PyObject*, PyObject* args) {
  constexpr int kIdleMs = 1'000;
  constexpr int kForEver = -1;
  pollfd heard{.fd = -1, .events = POLLIN, .revents = 0};
  Py_ssize_t kind = 0;
  if (PyArg_ParseTuple(args, "in", &heard.fd, &kind) == 0) return nullptr;
  int got = 0;
  Py_BEGIN_ALLOW_THREADS;
  got = ::poll(&heard, 1, kIdleMs);
  if (got == 0 && has_one_thread()) {
    hot_pages::give_back(static_cast<std::size_t>(kind));
    got = ::poll(&heard, 1, kForEver);  // here, where it takes no page again
  }
  Py_END_ALLOW_THREADS;
  if (got < 0 && PyErr_CheckSignals() != 0) return nullptr;
  Py_RETURN_NONE;
}

PyObject* make_channel(PyObject*, PyObject*) {
  int sockets[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0) return PyErr_SetFromErrno(PyExc_OSError);
  return Py_BuildValue("ii", sockets[0], sockets[1]);
}

PyMethodDef methods[] = {
    {"come_alone", come_alone, METH_NOARGS,
     "come_alone(): in a child that will be looked at with remember_pages(); pages that it does not use are not "
     "there."},
    {"fill_gaps", fill_gaps, METH_NOARGS, "fill_gaps(): from now on new objects lie side by side."},
    {"find_bytes", find_bytes, METH_VARARGS, "find_bytes(object, bytes): their address in the object, or 0."},
    {"make_channel", make_channel, METH_NOARGS, "make_channel(): two connected sockets, as descriptors."},
    {"make_fork_cheap", make_fork_cheap, METH_NOARGS,
     "make_fork_cheap(): put the heap, as it is now, where fork need not copy its page tables."},
    {"receive", receive, METH_VARARGS,
     "receive(fd): (code, b'') for a program of which nothing else is said; else None and what was said so far."},
    {"rehearse_fork", rehearse_fork, METH_NOARGS, "rehearse_fork(): be for a moment like a child."},
    {"remember_pages", remember_pages, METH_VARARGS,
     "remember_pages(pid): learn from the pages that this child, which ran a program, has touched."},
    {"reseed_at", reseed_at, METH_VARARGS,
     "reseed_at(address, size): fill this memory with random bytes in each child."},
    {"rest", rest, METH_VARARGS,
     "rest(fd, kind): wait for something to read; after a second, drop copies of pages that are as they were before "
     "the "
     "fork, or as in every session of this kind that rests: one by its place among those that were tried out."},
    {"serve", serve, METH_VARARGS,
     "serve(fd, preload_us, sessions): fork runners on request; returns in the child only, whether it was made in "
     "advance. `sessions` is what each of those is told, first and then, that are tried out before."},
    {"set_aside", set_aside, METH_VARARGS,
     "set_aside(list, rest): only the first `rest` are seen until a child has been forked."},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT,
                      "_hutch_zygote",
                      "Forks runners for the keeper.",
                      -1,
                      methods,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr};

}  // namespace
}  // namespace hutch

extern "C" [[gnu::visibility("default")]] PyObject* PyInit__hutch_zygote() { return PyModule_Create(&hutch::module); }
