"""One program, run and judged: a Verdict with what went wrong."""
from __future__ import annotations

import dataclasses
import json
import os
import shutil
import socket
import stat
import threading
import time

from corpus import SCRATCH_MB, Program
from identity import TOKEN, Finished, Identity

CANARY = "/tmp/attack-canary"
CANARY_FILES = {"secret.txt", "hits.log", "sock"}
SETTLED = 2.0   # seconds in which everything must be back
MEMORY_SETTLED = 30.0
MEMORY_LATE = "host memory is not back"
NOISE_MB = 250  # what the rest of the machine may do to its memory meanwhile
VICTIM = "s = sum(i * i for i in range(300000))\nprint('VICTIM', s)\n"


@dataclasses.dataclass
class Verdict:
    name: str
    passed: bool
    seconds: float
    evidence: str = ""
    info: str = ""


def available_mb() -> int:
    with open("/proc/meminfo") as file:
        return next(int(line.split()[1]) // 1024 for line in file if line.startswith("MemAvailable"))


def settled_mb() -> int:
    """What is available when what ran before has given its memory back."""
    last = available_mb()
    for _ in range(20):
        time.sleep(0.05)
        now = available_mb()
        if now - last < 8:
            return now
        last = now
    return last


def processes_named(prefix: str) -> list[str]:
    found = []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open("/proc/%s/comm" % pid) as file:
                name = file.read().strip()
        except OSError:
            continue
        if name.startswith(prefix):
            found.append("%s:%s" % (pid, name))
    return found


def resident_mb(pid: int) -> float:
    with open("/proc/%d/statm" % pid) as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / (1 << 20)


def until_clean(problems, seconds: float = SETTLED) -> list[str]:
    """What is still wrong when the time is up."""
    end = time.monotonic() + seconds
    while True:
        found = problems()
        if not found or time.monotonic() > end:
            return found
        time.sleep(0.05)


class Judge:
    def __init__(self, identity: Identity, kind: str) -> None:
        self.identity = identity
        self.kind = kind
        self.victim_seconds = 0.0
        self.victim_seconds = self.victim()[1]
        self.engine = identity.status().get("pid", 0)

    def arguments(self, program: Program, out: str | None) -> list[str]:
        arguments = ["run", *self.identity.options, "--timeout", "%g" % program.wall, *program.options]
        if out:
            arguments += ["--out", out]
        if program.has("record"):
            arguments.append("--json")
        return [*arguments, program.path]

    def victim(self) -> tuple[bool, float]:
        done = self.identity.run(["run", *self.identity.options, "-c", VICTIM], 30)
        return "VICTIM" in done.text, done.seconds

    def judge(self, program: Program) -> Verdict:
        verdict = self.self_judged(program) if program.judge == "self" else self.outside(program)
        if not verdict.passed and verdict.evidence.startswith("INCONCLUSIVE"):
            first = verdict.evidence  # no word at all: a busy machine can do that once; an escape is never tried again
            verdict = self.self_judged(program)
            verdict.info += " (second try; first: %s)" % first
        try:
            strangers = set(os.listdir(CANARY)) - CANARY_FILES
        except OSError:
            strangers = {"(the canaries are gone)"}
        if strangers:
            verdict.passed = False
            verdict.evidence += "; new on the host: %s" % " ".join(map(ascii, strangers))
        return verdict

    def self_judged(self, program: Program) -> Verdict:
        finished: list[Finished] = []
        begin = time.monotonic()
        for _ in range(program.runs):
            threads = [threading.Thread(target=lambda: finished.append(
                self.identity.run(self.arguments(program, None), program.wall))) for _ in range(program.together)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        bad = []
        for done in finished:
            lines = [line for line in done.text.splitlines() if line.startswith(("BLOCKED ", "ESCAPED "))]
            if not lines:
                bad.append("INCONCLUSIVE exit code %s: %s" % (done.code, done.errors()[-200:]))
            elif not lines[-1].startswith("BLOCKED "):
                bad.append(lines[-1])
        info = " ".join(line for line in finished[-1].text.splitlines() if line.startswith("info:"))
        return Verdict(program.name, not bad, time.monotonic() - begin, "; ".join(bad), info)

    def outside(self, program: Program) -> Verdict:
        verdict = self.outside_once(program)
        noisy = ("host memory dropped a little", MEMORY_LATE, "victim worked: True", "the engine grew", "the engine has",
                 "took ", "disk space is not back")
        if not verdict.passed and all(part.strip().startswith(noisy) for part in verdict.evidence.split(";")):
            again = self.outside_once(program)  # the rest of the machine is in these figures; twice is no accident
            again.info += " (second try; first: %s)" % verdict.evidence
            return again
        return verdict

    def outside_once(self, program: Program) -> Verdict:
        watch = Watch(self, program)
        out = self.identity.new_directory() if program.has("out") else None
        finished = [self.identity.run(self.arguments(program, out), program.wall) for _ in range(program.runs)]
        problems = watch.stop()
        done = finished[-1]
        for check in program.checks:
            problems += self.check(program, check, finished)
        if out:
            problems += check_brought_out(out, program)
            shutil.rmtree(out, ignore_errors=True)
        left = until_clean(lambda: watch.left_behind())
        if left == [MEMORY_LATE]:  # the kernel's own figure can lag behind by seconds when a whole group was killed
            left = until_clean(lambda: watch.left_behind(), MEMORY_SETTLED)
        problems += left
        if "SKIPPED " + program.name in done.text:
            problems.append("INCONCLUSIVE: it refused to run")
        last = (done.text.strip().splitlines() or [""])[-1][:100] if not program.has("record") else ""
        info = "exit %s, %s" % (done.code, ascii(last))
        return Verdict(program.name, not problems, done.seconds, "; ".join(problems), info)

    def check(self, program: Program, check: str, finished: list[Finished]) -> list[str]:
        kind, _, value = check.partition(":")
        done = finished[-1]
        slowest = max(each.seconds for each in finished)
        if kind == "returns_within" and slowest > program.wall + float(value):
            return ["took %.1f s with a limit of %g s" % (slowest, program.wall)]
        if kind == "exit_code" and str(done.code) != value:
            return ["exit code %s, not %s (%s)" % (done.code, value, done.errors()[-100:])]
        if kind == "output_max_mb" and done.size > float(value) * (1 << 20):
            return ["%d MiB of output" % (done.size >> 20)]
        if kind == "no_host_file" and os.path.exists(value):
            return ["made %s on the host" % value]
        if kind == "distinct_info":
            values = [word for each in finished for line in each.text.splitlines() if line.startswith("INFO ")
                      for word in line.split()[1:]]
            if len(values) != len(set(values)) or len(values) < program.runs:
                return ["values repeat, or are missing"]
        if kind == "record" or kind == "status":
            try:
                record = json.loads(done.out)
            except ValueError as error:
                return ["no record: %s: %s" % (error, ascii(done.out[:100]))]
            if kind == "status" and record["status"] != value:
                return ["status %s, not %s" % (record["status"], value)]
            if kind == "record" and record["exit_code"] != done.code:
                return ["exit code %s, but the record says %s" % (done.code, record["exit_code"])]
        if kind == "terminal" and any(byte < 32 and byte != 10 or byte == 127 for byte in done.err):
            return ["control bytes on the terminal: %s" % ascii(done.err[:80])]
        return []


class Watch:
    """What happens on the host while a program runs."""

    def __init__(self, judge: Judge, program: Program) -> None:
        self.judge, self.program = judge, program
        self.victim_result: tuple[bool, float] | None = None
        self.port_open = False
        self.disk_before = shutil.disk_usage("/tmp").free
        self.memory_before = self.memory_lowest = settled_mb()
        self.engine_before = resident_mb(judge.engine) if judge.engine else 0
        self.descriptors_before = len(os.listdir("/proc/%d/fd" % judge.engine)) if judge.engine else 0
        self.over = threading.Event()
        jobs = [self.sample]
        if program.has("victim_ok"):
            jobs.append(self.run_victim)
        if program.value("host_port_closed"):
            jobs.append(self.probe)
        self.threads = [threading.Thread(target=job, daemon=True) for job in jobs]
        for thread in self.threads:
            thread.start()

    def sample(self) -> None:
        while not self.over.wait(0.05):
            self.memory_lowest = min(self.memory_lowest, available_mb())

    def run_victim(self) -> None:
        self.over.wait(min(1.0, self.program.wall / 2))
        self.victim_result = self.judge.victim()

    def probe(self) -> None:
        while not self.over.wait(0.2):
            try:
                socket.create_connection(("127.0.0.1", int(self.program.value("host_port_closed"))), 1).close()
                self.port_open = True
            except OSError:
                pass

    def stop(self) -> list[str]:
        self.over.set()
        for thread in self.threads:
            thread.join(60)
        problems = []
        if self.port_open:
            problems.append("the host reaches its port")
        if self.program.has("victim_ok"):
            worked, seconds = self.victim_result or (False, 0.0)
            if not worked or seconds > 3 * self.judge.victim_seconds + 3:
                problems.append("victim worked: %s, in %.1f s (usually %.1f s)" % (worked, seconds,
                                                                                 self.judge.victim_seconds))
        dropped, most = self.memory_before - self.memory_lowest, self.program.value("mem_drop_max_mb")
        if most and dropped > float(most):
            little = "a little too much, " if dropped < float(most) + NOISE_MB else ""
            problems.append("host memory dropped %sby %d MiB" % (little, dropped))
        return problems

    def left_behind(self) -> list[str]:
        problems = []
        name = self.program.value("no_process")
        if name and (left := processes_named(name)):
            problems.append("left " + " ".join(left[:3]))
        if self.program.value("mem_drop_max_mb") and self.memory_before - available_mb() > NOISE_MB:
            problems.append(MEMORY_LATE)
        most = self.program.value("disk_drop_max_mb")
        if most and (self.disk_before - shutil.disk_usage("/tmp").free) >> 20 > float(most):
            problems.append("disk space is not back")
        if not self.judge.engine:
            return problems
        if not os.path.isdir("/proc/%d/fd" % self.judge.engine):
            self.judge.engine = self.judge.identity.status().get("pid", 0)
            return [*problems, "the engine died"]
        most = self.program.value("engine_growth_mb")
        grown = resident_mb(self.judge.engine) - self.engine_before
        if most and grown > float(most):
            problems.append("the engine grew by %d MiB" % grown)
        most = self.program.value("engine_descriptors")
        opened = len(os.listdir("/proc/%d/fd" % self.judge.engine)) - self.descriptors_before
        if most and opened > int(most):
            problems.append("the engine has %d more descriptors" % opened)
        return problems


def check_brought_out(directory: str, program: Program) -> list[str]:
    """Only plain files and directories, none of the host's content, no more than the sandbox itself could hold."""
    problems, total = [], 0
    limit_mb = SCRATCH_MB
    if "--scratch" in program.options:
        limit_mb = int(program.options[program.options.index("--scratch") + 1].rstrip("M"))
    for parent, directories, files in os.walk(os.fsencode(directory)):
        for name in directories + files:
            path = os.path.join(parent, name)
            status = os.lstat(path)
            if not (stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)):
                problems.append("brought out a special file %s" % ascii(path))
                continue
            if status.st_mode & (stat.S_ISUID | stat.S_ISGID):
                problems.append("brought out a set-id file %s" % ascii(path))
            if any(byte < 32 or byte == 127 for byte in name):
                problems.append("brought out a name with control bytes: %s" % ascii(name))
            if not stat.S_ISREG(status.st_mode):
                continue
            total += status.st_size
            with open(path, "rb") as file:
                content = file.read(1 << 20)
            if name != os.fsencode(os.path.basename(program.path)) and (
                    TOKEN.encode() + b"-hostfile" in content or b"root:x:0:0:root:/root" in content):
                problems.append("brought out the host's content as %s" % ascii(name))
    if total > (limit_mb + 1) << 20:
        problems.append("brought out %d MiB from a scratch space of %d MiB" % (total >> 20, limit_mb))
    return problems
