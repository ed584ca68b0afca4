"""Ordinary programs that must keep working behind every wall: the standard library on `bare`, data work on `default`."""
from __future__ import annotations

import concurrent.futures
import os
import subprocess
import time
import unittest

import support
from support import Scenario

setUpModule, tearDownModule = support.begin, support.finish

STANDARD = {
    "threads": """
import threading, queue, concurrent.futures as f
q = queue.Queue()
threads = [threading.Thread(target=lambda i=i: q.put(i * i)) for i in range(10)]
[t.start() for t in threads]; [t.join() for t in threads]
assert sorted(q.get() for _ in range(10)) == [i * i for i in range(10)]
with f.ThreadPoolExecutor(4) as pool: assert list(pool.map(abs, [-1, -2])) == [1, 2]
l = threading.local(); b = threading.Barrier(2); threading.Thread(target=b.wait).start(); b.wait(5)
""",
    "multiprocessing": """
import multiprocessing as m
from multiprocessing import shared_memory
def work(q, x): q.put(x + 1)
def double(x): return 2 * x
def main():
    for method in ('fork', 'spawn', 'forkserver'):
        c = m.get_context(method)
        q = c.Queue(); p = c.Process(target=work, args=(q, 1)); p.start()
        assert q.get(timeout=20) == 2; p.join(20); assert p.exitcode == 0, p.exitcode
        with c.Pool(2) as pool: assert pool.map(double, [1, 2]) == [2, 4]
    s = shared_memory.SharedMemory(create=True, size=100); s.buf[0] = 7
    t = shared_memory.SharedMemory(s.name); assert t.buf[0] == 7; t.close(); s.close(); s.unlink()
    v = m.Value('i', 3); a = m.Array('d', [1.0]); e = m.Event(); e.set(); assert e.wait(1) and v.value == 3
    p = m.Process(target=__import__('time').sleep, args=(9,)); p.start(); p.terminate(); p.join(10)
    assert p.exitcode == -15, p.exitcode
    with m.Manager() as manager: d = manager.dict(); d['k'] = 1; assert dict(d) == {'k': 1}
if __name__ == '__main__': main()
""",
    "subprocess": """
import subprocess as s, sys, os
assert s.run(['echo', 'a'], capture_output=True, text=True).stdout == 'a\\n'
assert s.check_output('seq 10 | grep 1 | wc -l', shell=True, text=True).strip() == '2'
assert s.run([sys.executable, '-c', 'import sys; sys.exit(4)']).returncode == 4
p = s.Popen(['cat'], stdin=s.PIPE, stdout=s.PIPE); assert p.communicate(b'x' * 300000)[0] == b'x' * 300000
p = s.Popen(['sleep', '9']); p.terminate(); assert p.wait(10) == -15, p.returncode
try: s.run(['sleep', '9'], timeout=0.2); assert 0
except s.TimeoutExpired: pass
assert os.popen('echo popen').read() == 'popen\\n'
assert os.system('exit 3') >> 8 == 3
assert s.run(['sort'], input='b\\na\\n', text=True, capture_output=True).stdout == 'a\\nb\\n'
s.run(['sh', '-c', 'echo $((6*7)) > f; mv f g; cp g h; cat h; rm g h; ls -la'], check=True, stdout=s.DEVNULL)
""",
    "signals": """
import signal, os, time
hits = []
for number in (signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP, signal.SIGALRM):
    signal.signal(number, lambda n, f: hits.append(n)); os.kill(os.getpid(), number)
signal.setitimer(signal.ITIMER_REAL, 0.05); time.sleep(0.2); assert len(hits) == 5, hits
signal.signal(signal.SIGTERM, signal.SIG_DFL)
pid = os.fork()
if pid == 0: time.sleep(5); os._exit(0)
os.kill(pid, signal.SIGTERM); assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == -15
assert signal.getsignal(signal.SIGQUIT) == signal.SIG_DFL
""",
    "asyncio": """
import asyncio, sys
async def main():
    assert await asyncio.gather(*(asyncio.sleep(0.01, i) for i in range(100))) == list(range(100))
    p = await asyncio.create_subprocess_exec(sys.executable, '-c', 'print(5)', stdout=-1)
    assert (await p.communicate())[0] == b'5\\n'
    p = await asyncio.create_subprocess_shell('cat', stdin=-1, stdout=-1)
    assert (await p.communicate(b'hi'))[0] == b'hi'
    assert await asyncio.to_thread(sum, [1, 2]) == 3
    async with asyncio.timeout(5): await asyncio.wait_for(asyncio.sleep(0), 1)
    async def echo(r, w): w.write(await r.readline()); await w.drain(); w.close()
    server = await asyncio.start_unix_server(echo, '/tmp/s')
    r, w = await asyncio.open_unix_connection('/tmp/s'); w.write(b'line\\n'); assert await r.readline() == b'line\\n'
    w.close(); server.close()
asyncio.run(main())
""",
    "sqlite": """
import sqlite3
for place in (':memory:', 'db.sqlite', '/tmp/db'):
    c = sqlite3.connect(place); c.execute('pragma journal_mode=wal')
    c.execute('create table t (a integer primary key, b text)')
    c.executemany('insert into t(b) values (?)', [(str(i),) for i in range(1000)]); c.commit()
    assert c.execute('select count(*), max(a) from t').fetchone() == (1000, 1000)
    c.close()
""",
    "files": """
import tempfile, os, zipfile, tarfile, csv, json, shutil, pathlib, mmap, gzip, bz2, lzma, pickle, io, glob, fcntl
with tempfile.TemporaryDirectory() as d:
    p = pathlib.Path(d, 'ü.txt'); p.write_text('x' * 1000); assert p.stat().st_size == 1000
    with zipfile.ZipFile(d + '/z.zip', 'w', zipfile.ZIP_DEFLATED) as z: z.write(p, 'a/b.txt')
    with zipfile.ZipFile(d + '/z.zip') as z: z.extractall(d + '/out'); assert z.testzip() is None
    with tarfile.open(d + '/t.tar.gz', 'w:gz') as t: t.add(d + '/out', 'root')
    with tarfile.open(d + '/t.tar.gz') as t: assert 'root/a/b.txt' in t.getnames(); t.extractall(d + '/tar')
    with open(d + '/c.csv', 'w', newline='') as f: csv.writer(f).writerows([[1, 'a,b'], [2, 'c']])
    assert list(csv.reader(open(d + '/c.csv'))) == [['1', 'a,b'], ['2', 'c']]
    with open(p, 'r+b') as f, mmap.mmap(f.fileno(), 0) as m: m[0:1] = b'y'; fcntl.flock(f, fcntl.LOCK_EX)
    assert p.read_text()[0] == 'y'
    os.link(p, d + '/hard'); os.symlink(p, d + '/soft'); shutil.copytree(d + '/out', d + '/copy'); os.chmod(p, 0o600)
    os.utime(p, (1, 1)); os.rename(p, d + '/renamed'); shutil.move(d + '/renamed', '/workspace/moved')
with tempfile.NamedTemporaryFile() as f: f.write(b'x'); f.flush()
assert json.loads(json.dumps({'a': [1, None]})) == {'a': [1, None]}
for module in (gzip, bz2, lzma): assert module.decompress(module.compress(b'data' * 100)) == b'data' * 100
assert pickle.loads(pickle.dumps({1: {2}})) == {1: {2}}
assert shutil.disk_usage('.').total == 64 << 20
""",
    "ctypes callbacks": """
import ctypes
libc = ctypes.CDLL(None)
compare = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int))
numbers = (ctypes.c_int * 5)(5, 3, 1, 4, 2)
try:
    order = compare(lambda a, b: a[0] - b[0])
except MemoryError:  # this libffi makes callbacks in memory that is writable and executable, which no sandbox has
    order = None
if order: libc.qsort(numbers, 5, 4, order); assert list(numbers) == [1, 2, 3, 4, 5]
""",
    "native code": """
import ctypes, decimal, ssl, hashlib, zlib, struct, fractions, locale, platform, getpass, pwd, time, datetime, zoneinfo
assert ctypes.CDLL(None).abs(-5) == 5
decimal.getcontext().prec = 50; assert str(decimal.Decimal(1) / 7).startswith('0.142857')
ssl.create_default_context(); ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
assert len(hashlib.scrypt(b'p', salt=b's', n=1024, r=8, p=1)) == 64
assert getpass.getuser() == 'hutch' and pwd.getpwuid(1000).pw_dir == '/tmp'
assert platform.system() == 'Linux'; locale.setlocale(locale.LC_ALL, ''); time.strftime('%c')
assert zoneinfo.ZoneInfo('Europe/Berlin').utcoffset(datetime.datetime(2026, 1, 1)).seconds == 3600
""",
    "introspection": """
import sys, os, traceback, logging, inspect, resource, gc, threading, faulthandler, pdb, unittest, doctest, socket, select
assert __name__ == '__main__' and sys.stdin.read() == ''
logging.basicConfig(); resource.getrusage(resource.RUSAGE_SELF); gc.collect()
a, b = socket.socketpair(); a.send(b'x'); assert select.select([b], [], [], 1)[0]; p = select.poll(); e = select.epoll()
assert socket.gethostname() == 'hutch' and os.cpu_count() >= 1 and len(os.sched_getaffinity(0)) >= 1
sys.setrecursionlimit(5000)
def deep(n): return n and deep(n - 1)
deep(4000)
assert eval('1 + 1') == 2; exec('x = 1'); import importlib; importlib.reload(logging)
""",
}

DATA = {
    "numpy": """
import numpy as np, tempfile
a = np.random.default_rng(1).random((300, 300))
assert np.allclose(a @ np.linalg.inv(a), np.eye(300), atol=1e-6)
u, s, v = np.linalg.svd(a); assert np.allclose(u * s @ v, a)
x = np.random.rand(4096); assert np.allclose(np.fft.ifft(np.fft.fft(x)).real, x)
m = np.memmap('/tmp/m', dtype='f8', mode='w+', shape=(1000, 10)); m[:] = 2; m.flush()
assert np.memmap('/tmp/m', dtype='f8', mode='r').sum() == 20000
np.save('a.npy', a); assert (np.load('a.npy') == a).all(); np.savez_compressed('z', a=a)
""",
    "pandas": """
import pandas as pd, numpy as np, io
d = pd.DataFrame({'k': list('abca'), 'v': [1, 2, 3, 4], 't': pd.date_range('2026-01-01', periods=4)})
assert d.groupby('k').v.sum().to_dict() == {'a': 5, 'b': 2, 'c': 3}
d.to_csv('d.csv', index=False); assert (pd.read_csv('d.csv').v == d.v).all()
d.to_json('d.json', date_format='iso'); assert (pd.read_json('d.json').v == d.v.values).all()
d.to_excel('d.xlsx', index=False); assert (pd.read_excel('d.xlsx').k == d.k).all()
assert d.merge(d, on='k').shape == (6, 5); d.pivot_table(index='k', values='v', aggfunc='mean'); d.describe()
assert d.resample('2D', on='t').v.sum().tolist() == [3, 7]
""",
    "matplotlib": """
import warnings; warnings.simplefilter('error', UserWarning)
import matplotlib.pyplot as plt, os
figure, (a, b) = plt.subplots(1, 2)
a.plot([1, 2, 3]); a.set_title('漢字 かな 한국어 Ünïcode'); b.hist([1, 2, 2, 3]); b.set_xlabel('中文标签')
for kind in ('png', 'svg', 'pdf'):
    plt.savefig('plot.' + kind); assert os.path.getsize('plot.' + kind) > 2000
assert open('plot.png', 'rb').read(4) == b'\\x89PNG'
""",
    "scipy": """
import scipy.optimize as o, scipy.stats as st, scipy.sparse as sp, scipy.signal as sg, scipy.integrate as i
assert abs(o.brentq(lambda x: x * x - 2, 0, 2) - 2 ** .5) < 1e-9
assert st.ttest_ind([1, 2, 3], [4, 5, 6]).pvalue < 0.1
assert sp.linalg.spsolve(sp.eye(10, format='csc'), [1] * 10).sum() == 10
assert abs(i.quad(lambda x: x, 0, 1)[0] - .5) < 1e-9
""",
    "scikit-learn": """
from sklearn.ensemble import RandomForestClassifier
from sklearn.datasets import make_classification
from sklearn.model_selection import cross_val_score
x, y = make_classification(200, random_state=1)
assert RandomForestClassifier(20, random_state=1).fit(x, y).score(x, y) > .95
assert cross_val_score(RandomForestClassifier(10, random_state=1), x, y, cv=2, n_jobs=2).mean() > .7
""",
    "sympy": """
import sympy as s
x = s.symbols('x')
assert s.integrate(s.sin(x) ** 2, (x, 0, s.pi)) == s.pi / 2 and s.solve(x ** 2 - 4) == [-2, 2]
""",
    "pillow": """
from PIL import Image, ImageDraw, ImageFilter
i = Image.new('RGB', (200, 100), 'red'); ImageDraw.Draw(i).ellipse((10, 10, 90, 90), fill='blue')
for kind in ('png', 'jpeg', 'gif', 'webp', 'bmp'): i.save('i.' + kind); Image.open('i.' + kind).load()
assert i.resize((50, 25)).filter(ImageFilter.BLUR).size == (50, 25)
""",
    "IPython": """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
r = shell.run_cell('x = 6\\nx * 7'); assert r.result == 42 and r.success
assert not shell.run_cell('1/0').success
""",
    "requests without a network": """
import requests
try: requests.get('http://example.com', timeout=5); assert 0
except requests.exceptions.ConnectionError: pass
""",
}

RANDOM = """
import random, uuid, secrets, tempfile, ssl, os
print(random.random(), random.Random().random(), uuid.uuid4(), secrets.token_hex(8),
      os.path.basename(tempfile.mktemp()), ssl.RAND_bytes(8).hex(), os.urandom(8).hex(), uuid.uuid1().hex, end=' ')
try:
    import numpy as np
    print(np.random.rand(), np.random.default_rng().random(), end='')
except ImportError: pass
"""


OWN_FORKS = """\
import logging, os, random, threading
called = []
os.register_at_fork(before=lambda: called.append(1), after_in_child=lambda: called.append(2))
os.register_at_fork(after_in_child=lambda: called.append(3))
random.random()
reading, writing = os.pipe()
if os.fork() == 0:
    os.write(writing, b"%r %r %d %d" % (random.random(), logging._lock.acquire(False), threading.active_count(), len(called)))
    os._exit(0)
number, free, threads, hooks = os.read(reading, 100).split()
print("hooks %d, other numbers %s, locks free %s, threads %d"
      % (int(hooks), float(number) != random.random(), free.decode(), int(threads)))
"""

AT_THE_END = """\
import atexit, logging, logging.handlers, sys, weakref
class Says:
    def __init__(self, what): self.what = what
    def __del__(self): print(self.what, flush=True)
cycle = Says("cycle")
cycle.itself = cycle
stream = logging.StreamHandler(sys.stdout)
stream.setFormatter(logging.Formatter("%(message)s"))
log = logging.getLogger("late")
log.addHandler(logging.handlers.MemoryHandler(100, target=stream))
log.warning("logged")
kept = type("Kept", (), {})()
weakref.finalize(kept, print, "finalized", flush=True)
atexit.register(print, "atexit", flush=True)
print("end of main", flush=True)
"""


class Workload(Scenario):
    template = "bare"
    options = ("--timeout", "30", "--cpu-time", "30", "--memory", "1G", "--processes", "64")

    def check_works(self, name: str, code: str, *options: str) -> None:
        path = os.path.join(self.home.directory, "work.py")
        with open(path, "w") as file:
            file.write(code + "\nprint('fine')\n" if "__main__" not in code or name == "introspection" else
                       code + "\nif __name__ == '__main__': print('fine')\n")
        done = self.home.call("run", "--template", self.template, *self.options, *options, path, within=90)
        self.assertEqual((done.code, done.text, done.errors if name != "IPython" else ""),
                         (0, "fine\n" if name != "IPython" else done.text, ""), name)
        self.assertTrue(done.text.endswith("fine\n"))

    def check_random(self) -> None:
        rows = [self.home.run(RANDOM, "--template", self.template).text.split() for _ in range(20)]
        for column in zip(*rows):
            self.assertEqual(len(set(column)), 20, column)
        together = [self.home.start("run", "--template", self.template, "-c", RANDOM, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.PIPE) for _ in range(6)]
        for column in zip(*[process.communicate()[0].split() for process in together]):
            self.assertEqual(len(set(column)), 6, column)


    def check_own_forks(self) -> None:
        """What the zygote's forks leave out, those of a program do: hooks of the standard library and of others."""
        done = self.home.run(OWN_FORKS, "--template", self.template)
        self.assertEqual((done.text, done.errors), ("hooks 3, other numbers True, locks free True, threads 1\n", ""))

    def check_end(self) -> None:
        """Whoever wants to be called at the end is, however it was registered, and in CPython's order."""
        done = self.home.run(AT_THE_END, "--template", self.template)
        self.assertEqual((done.text, done.errors), ("end of main\natexit\nfinalized\nlogged\ncycle\n", ""))


class Bare(Workload):
    def test_forks_of_a_program_run_their_hooks(self):
        self.check_own_forks()

    def test_the_end_of_a_program(self):
        self.check_end()

    def test_standard_library(self):
        for name, code in STANDARD.items():
            with self.subTest(name):
                self.check_works(name, code)

    def test_standard_library_without_an_engine(self):
        for name in ("threads", "subprocess", "signals", "asyncio", "files", "introspection"):
            with self.subTest(name):
                self.check_works(name, STANDARD[name], "--no-engine")

    def test_no_two_runs_draw_the_same_numbers(self):
        self.check_random()


class Default(Workload):
    template = "default"

    @classmethod
    def setUpClass(cls):
        listed = support.home.call("template", "show", "default", "--json").record
        if listed.get("state") not in ("ready", "built"):
            support.missing("template default is not built")

    def test_data_work(self):
        for name, code in DATA.items():
            with self.subTest(name):
                self.check_works(name, code)

    def test_standard_library(self):
        for name in ("threads", "multiprocessing", "subprocess", "signals", "asyncio"):
            with self.subTest(name):
                self.check_works(name, STANDARD[name])

    def test_data_work_without_an_engine(self):
        for name in ("numpy", "pandas", "matplotlib"):
            with self.subTest(name):
                self.check_works(name, DATA[name], "--no-engine")

    def test_no_two_runs_draw_the_same_numbers(self):
        self.check_random()

    def test_cells_as_ipython_runs_them(self):
        cells = ("x = 20\nx + 1\n%timeit -n1 -r1 pass\nimport pandas as pd\npd.DataFrame({'a': [1]})\nlen(Out)\n"
                 "1/0\nx\nexit(3)\n")
        for more in ((), ("--no-engine",)):
            with self.subTest(more):
                done = self.home.call("shell", "--ipython", "--template", "default", *more, stdin=cells.encode())
                lines = done.text.splitlines()
                self.assertEqual((done.code, lines[0], lines[-4:]), (3, "21", ["   a", "0  1", "2", "20"]), done.errors)
                self.assertIn("per loop", lines[1])
                self.assertIn('File "<cell 7>", line 1, in <module>\n    1/0\nZeroDivisionError', done.errors)

    def test_forks_of_a_program_run_their_hooks(self):
        self.check_own_forks()

    def test_the_end_of_a_program(self):
        self.check_end()

    def test_libraries_have_few_mappings(self):
        """One for code and constants, which nobody can write to."""
        code = ("import collections\nwith open('/proc/self/maps') as f:\n  maps = [line.split() for line in f]\n"
                "code = collections.Counter(m[-1] for m in maps if m[1][:3] == 'r-x' and '.so' in m[-1])\n"
                "rest = [m for m in maps if m[1][:3] == 'r--' and m[-1] in code]\n"
                "print(len(code) > 50, max(code.values()), len(rest) < len(code) / 4,"
                " any('w' in m[1] and 'x' in m[1] for m in maps))")
        self.assertEqual(self.home.run(code, "--template", "default").text, "True 1 True False\n")

    def test_a_session_gives_back_what_it_did_not_change(self):
        """Whenever it has been idle for a second, unless it has a second thread. Both go on as if nothing had been, also
        where memory of the image was given up, and something else lies there."""
        size = ("def size():\n  with open('/proc/self/smaps_rollup') as f:\n"
                "    return next(int(l.split()[1]) for l in f if l.startswith('Anonymous'))\n")
        work = "import json, pandas as pd\nprint(json.dumps(pd.DataFrame({'a': [1, 2]}).sum().to_dict()))\n"
        trim = ("import ctypes, gc\ngc.collect(); ctypes.CDLL(None).malloc_trim(0)\n"
                "same = [bytearray(b'\\xff' * 100_000) for _ in range(20)]\n")
        check = "print(all(one == b'\\xff' * 100_000 for one in same))"
        parts = (size, "print(size())"), ("print(size())", "x.append(2); print(x)", trim), (check, work)
        begin = "import threading, time; threading.Thread(target=time.sleep, args=(30,), daemon=True).start(); x = [1]"
        with concurrent.futures.ThreadPoolExecutor() as pool:
            alone, threads = pool.map(lambda first: self.shell((first,), *parts), ("x = [1]", begin))
        self.assertEqual(alone[2:], ["[1, 2]", "True", '{"a": 3}'])
        self.assertEqual(threads[2:], alone[2:])
        for given_back, kept in zip(alone[:2], threads[:2]):
            self.assertLess(int(given_back), int(kept) - 300)  # KiB

    def test_sessions_that_rest_share_memory_and_nothing_else(self):
        """What all of them have changed in the same way is there once; what one changes then is its own."""
        def parts(name: str) -> tuple:
            own = "x = ['%s']; y = %s.x = json.dumps(x)" % (name, name)
            look = "print(sum('memfd:hutch-rest' in line for line in open('/proc/self/maps')))"
            change = "x.append(len(x)); decimal.__doc__ = name; sys.path.append('/%s')" % name
            tell = "print(name, x, y, decimal.__doc__ == name, sys.path[-1], json.dumps({'a': [1]}))"
            begin = "import decimal, json, math, sys, types; %s = types.SimpleNamespace(); name = '%s'" % (name, name)
            return (begin, own), (look, change), (change, tell), (tell, "1/0 if name == 'two' else None"), (tell,)

        with concurrent.futures.ThreadPoolExecutor() as pool:
            told = pool.map(lambda name: self.shell(*parts(name), fails=name == "two"), ("one", "two"))
        for name, (mappings, *lines) in zip(("one", "two"), told):
            self.assertGreater(int(mappings), 20)
            self.assertEqual(lines, ["%s ['%s', 1, 2] [\"%s\"] True /%s {\"a\": [1]}" % (name, name, name, name)] * 3)

    def shell(self, *parts: tuple[str, ...], fails: bool = False) -> list[str]:
        """What the cells wrote; between the parts the session is idle."""
        shell = self.home.start("shell", "--template", "default", stdin=-1, stdout=-1, stderr=-1)
        for cells in parts:
            code = "".join("exec(%r)\n" % cell if "\n" in cell else cell + "\n" for cell in cells)
            shell.stdin.write(code.encode())
            shell.stdin.flush()
            time.sleep(2)
        out, errors = shell.communicate(timeout=60)
        self.assertEqual((shell.returncode, bool(errors)), (0, fails), errors)
        return out.decode().splitlines()

    def test_ipython_leaves_no_trace_in_programs(self):
        code = "import builtins; print([n for n in ('display', 'get_ipython', '__IPYTHON__') if hasattr(builtins, n)])"
        self.assertEqual(self.home.run(code, "--template", "default").text, "[]\n")


if __name__ == "__main__":
    support.main()
