"""The peer that most notebooks run on: an IPython kernel behind jupyter_client."""
from __future__ import annotations

import contextlib
import glob
import itertools
import json
import os
import pathlib
import queue
import subprocess
import threading
import time

import process
from context import SECRETS, Context
from peer import SESSION_SECONDS, STOP_SECONDS, Peer, PeerError, Sample, Session
from workloads import Program

DRIVER = pathlib.Path(__file__).with_name("jupyter_driver.py")
VERSIONS = """\
import importlib.metadata, platform
told = ["%s %s" % (name, importlib.metadata.version(name)) for name in ("jupyter-client", "ipykernel", "ipython")]
print(", ".join(told), "on Python", platform.python_version())
"""


class JupyterSession(Session):
    def __init__(self, peer: Jupyter, libraries: bool, more: dict[str, str]) -> None:
        self.peer, self.number = peer, next(peer.numbers)
        variables = {**peer.context.variables(libraries), **more}
        if libraries:
            variables["PYTHONPATH"] = peer.library_path()
        try:
            peer.call(operation="open", session=self.number, variables=variables)
        except PeerError:
            self.close()
            raise

    def send(self, code: str) -> str:
        return self.peer.call(operation="run", session=self.number, code=code)["output"]

    def time(self, code: str) -> float:
        """As the driver sees it: the way to the driver and its threads are ours, not Jupyter's."""
        return self.peer.call(operation="run", session=self.number, code=code)["seconds"]

    def close(self) -> None:
        with contextlib.suppress(PeerError):
            self.peer.call(operation="close", session=self.number)


class Jupyter(Peer):
    name = "Jupyter kernel"
    about = ("jupyter_client starts an ipykernel process as this user, from nothing; no namespaces, no seccomp filter, "
             "no limits; ending it is not measured; a cell is from the request sent until the kernel is idle again")
    every = 2
    megabytes = 100
    live_sessions = 5

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.python = context.installed / "venv/bin/python"
        self.driver: subprocess.Popen[bytes] | None = None
        self.numbers = itertools.count()
        self.waiting: dict[int, queue.Queue[dict]] = {}
        self.writing = threading.Lock()

    def missing(self) -> str:
        if self.python.exists():
            with contextlib.suppress(PeerError):
                process.call([str(self.python), "-c", "import jupyter_client, ipykernel"])
                return ""
        return "jupyter_client and ipykernel are not installed (tools/setup-peers)"

    def version(self) -> str:
        return process.call([str(self.python), "-c", VERSIONS]).strip()

    def library_path(self) -> str:
        return glob.glob(os.path.join(self.context.library_tree, "lib/python3*/site-packages"))[0]

    def prepare(self) -> None:
        home = str(self.context.directory("jupyter"))
        environment = {**self.context.variables(False), "HOME": home, "JUPYTER_RUNTIME_DIR": home, "IPYTHONDIR": home}
        self.driver = subprocess.Popen([self.python, DRIVER], env=environment, cwd="/", stdin=subprocess.PIPE,
                                       stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True)
        threading.Thread(target=self.receive, daemon=True).start()

    def receive(self) -> None:
        assert self.driver and self.driver.stdout
        for line in self.driver.stdout:
            answer = json.loads(line)
            self.waiting[answer["tag"]].put(answer)

    def call(self, **request: object) -> dict:
        assert self.driver and self.driver.stdin
        tag = next(self.numbers)
        self.waiting[tag] = queue.Queue()
        try:
            with self.writing:
                self.driver.stdin.write(json.dumps({"tag": tag, **request}).encode() + b"\n")
                self.driver.stdin.flush()
            answer = self.waiting[tag].get(timeout=SESSION_SECONDS + STOP_SECONDS)
        except (queue.Empty, BrokenPipeError):
            raise PeerError("no answer after %g s" % SESSION_SECONDS) from None
        finally:
            del self.waiting[tag]
        if "error" in answer:
            raise PeerError(answer["error"])
        return answer

    def run(self, program: Program) -> Sample:
        return self.timed(program, {})

    def attack(self, program: Program) -> Sample:
        return self.timed(program, SECRETS)

    def timed(self, program: Program, more: dict[str, str]) -> Sample:
        self.needs_libraries(program.libraries)
        begin = time.monotonic()
        session = JupyterSession(self, program.libraries, more)
        try:
            output = session.send(program.code)
            return Sample(time.monotonic() - begin, output)
        finally:
            session.close()

    def session(self, libraries: bool) -> Session:
        self.needs_libraries(libraries)
        return JupyterSession(self, libraries, {})

    def close(self) -> None:
        if not self.driver or not self.driver.stdin:
            return
        self.driver.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.driver.wait(STOP_SECONDS)
        process.kill_group(self.driver)
