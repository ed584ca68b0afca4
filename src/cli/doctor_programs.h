// The programs of doctor's attacks. Each prints ESCAPED or BLOCKED with a reason, once or more; one ESCAPED is enough.
// `P` is a dictionary of what the doctor planted.
#pragma once

#include <string_view>

namespace hutch {

struct AttackProgram {
  std::string_view name;
  std::string_view tries;
  std::string_view wall;  // what is meant to hold
  std::string_view code;
};

// Comes before every program.
inline constexpr std::string_view kAttackPrelude = R"py(
import ctypes, errno, os, socket, stat, sys, time
libc = ctypes.CDLL(None, use_errno=True)
def escaped(what): print('ESCAPED', what, flush=True)
def blocked(what): print('BLOCKED', what, flush=True)
def attempt(what, action):
    try:
        result = action()
    except OSError as problem:
        blocked(what + ': ' + errno.errorcode.get(problem.errno, str(problem)))
    else:
        escaped(what + ' worked' + ('' if result is None else ': ' + str(result)[:80]))
def call(name, *arguments):
    if getattr(libc, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)
)py";

inline constexpr AttackProgram kAttackPrograms[] = {
    {"host_file", "read a file that lies open to everybody on the host", "private root, Landlock", R"py(
for prefix in ('', '/proc/1/root', '/proc/self/root/..', '/workspace/../..', '/proc/%d/root' % P['pid']):
    attempt(prefix or 'open', lambda: open(prefix + P['canary']).read())
)py"},
    {"host_processes", "find the doctor among the processes in /proc", "pid namespace, own /proc", R"py(
seen = [name for name in os.listdir('/proc') if name.isdigit()]
names = []
for pid in seen:
    try: names.append(open('/proc/%s/comm' % pid).read().strip())
    except OSError: pass
if P['comm'] in names: escaped('the doctor is visible as ' + P['comm'])
elif len(seen) > 4: escaped('%d processes are visible' % len(seen))
else: blocked('%d process visible' % len(seen))
)py"},
    {"user_namespace", "become root of a new user namespace", "system call filter, namespace limits of 0", R"py(
attempt('unshare', lambda: call('unshare', 0x10000000))
)py"},
    {"mount", "mount a file system", "system call filter, no capabilities", R"py(
attempt('mount', lambda: call('mount', b'none', b'/tmp', b'tmpfs', 0, None))
attempt('remount /', lambda: call('mount', None, b'/', None, 32 | 4096, None))
)py"},
    {"trace", "trace and read another process", "system call filter, no capabilities", R"py(
attempt('ptrace', lambda: call('ptrace', 0x4206, 1, None, None))  # PTRACE_SEIZE, which does not stop it
class Piece(ctypes.Structure): _fields_ = [('base', ctypes.c_void_p), ('size', ctypes.c_size_t)]
room = ctypes.create_string_buffer(8)
here, there = Piece(ctypes.addressof(room), 8), Piece(4096, 8)
def read():
    try: call('process_vm_readv', 1, ctypes.byref(here), 1, ctypes.byref(there), 1, 0)
    except OSError as problem:
        if problem.errno != errno.EFAULT: raise  # EFAULT: the right was granted, the address was wrong
attempt('process_vm_readv', read)
)py"},
    {"raw_socket", "open raw, packet and netlink sockets", "system call filter, net namespace", R"py(
attempt('raw', lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1).close())
attempt('packet', lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0).close())
attempt('netlink', lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0).close())
)py"},
    {"loopback", "connect to a server of the host on 127.0.0.1 and to an abstract socket", "net namespace, Landlock",
     R"py(
def connect(family, address):
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.settimeout(1)
        s.connect(address)
attempt('tcp', lambda: connect(socket.AF_INET, ('127.0.0.1', P['port'])))
attempt('abstract socket', lambda: connect(socket.AF_UNIX, '\0' + P['abstract']))
)py"},
    {"write_system", "write to /usr and to the interpreter", "read-only root, Landlock", R"py(
def create():
    path = '/usr/' + P['comm']
    open(path, 'x').close()
    os.unlink(path)
attempt('create in /usr', create)
attempt('open the interpreter', lambda: open(os.path.realpath(sys.executable or '/usr/bin/python3'), 'r+b').close())
)py"},
    {"device_node", "make a device node", "no capabilities, Landlock, nodev", R"py(
attempt('character', lambda: os.mknod('/tmp/c', stat.S_IFCHR | 0o600, os.makedev(1, 1)))
attempt('block', lambda: os.mknod('/tmp/b', stat.S_IFBLK | 0o600, os.makedev(8, 0)))
)py"},
    {"become_root", "become uid 0, and hold a capability", "ids of its own, empty bounding set", R"py(
attempt('setuid', lambda: os.setuid(0))
attempt('setgid', lambda: os.setgid(0))
held = [line.split() for line in open('/proc/self/status') if line.startswith('Cap')]
held = [name for name, value in held if int(value, 16)]
escaped('capabilities in ' + ' '.join(held)) if held else blocked('no capability in any set')
)py"},
    {"init_memory", "read environment, memory and root of process 1", "pid namespace, hidden processes", R"py(
attempt('environ', lambda: open('/proc/1/environ').read())
attempt('mem', lambda: open('/proc/1/mem', 'rb').close())
attempt('root', lambda: os.listdir('/proc/1/root/root'))
)py"},
    {"environment", "find a secret of the doctor's environment", "clean environment", R"py(
text = repr(dict(os.environ))
for name in ('/proc/self/environ', '/proc/1/environ', '/proc/%d/environ' % P['pid']):
    try: text += open(name, errors='replace').read()
    except OSError: pass
escaped('HUTCH_DOCTOR_SECRET is there') if 'HUTCH_DOCTOR_SECRET' in text else blocked('%d variables, none of them ours' % len(os.environ))
)py"},
    {"memory", "use 256 MiB where 64 MiB are allowed", "memory limit", R"py(
held = []
try:
    for _ in range(32): held.append(b'x' * (8 << 20))
except MemoryError:
    blocked('MemoryError at %d MiB' % (8 * len(held)))
else:
    escaped('held 256 MiB')
)py"},
    {"processes", "have 200 processes where 16 are allowed", "process limit", R"py(
children = []
try:
    for _ in range(200):
        pid = os.fork()
        if pid == 0:
            time.sleep(20)
            os._exit(0)
        children.append(pid)
except OSError as problem:
    blocked('fork %d: %s' % (len(children) + 1, errno.errorcode[problem.errno]))
if len(children) > 16: escaped('%d processes at once' % len(children))
for pid in children: os.kill(pid, 9)
)py"},
    {"time", "run for ever where 1 s is allowed", "time limit", R"py(
while True: pass
)py"},
};

}  // namespace hutch
