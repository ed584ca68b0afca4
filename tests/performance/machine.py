"""What the machine is, and when it was away: a virtual one does not always have the processors that it seems to have."""
from __future__ import annotations

import bisect
import contextlib
import multiprocessing
import os
import platform
import time

PAUSE, LATE = 0.002, 0.0015  # seconds
FORK = multiprocessing.get_context("fork")


def facts() -> dict[str, object]:
    """What a reader needs, as `hutch bench` has it, and nothing by which the machine could be recognised."""
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        processor = dict(line.split("\t", 1) for line in file.read().split("\n\n")[0].splitlines() if "\t" in line)
    told = {name: value.partition(":")[2].strip() for name, value in processor.items()}
    return {"kernel": platform.release(), "cpus": os.cpu_count(),
            "cpu_model": told.get("model name", platform.machine()),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "python": "Python " + platform.python_version(), "virtual": "hypervisor" in told.get("flags", "").split()}


class Took(float):
    """Seconds, and when they began on the monotonic clock."""

    began = 0.0

    @classmethod
    def since(cls, began: float) -> Took:
        took = cls(time.monotonic() - began)
        took.began = began
        return took


def notice(core: int, pipe) -> None:
    """A process that goes before all others on its core, and is woken late only where the core was not there."""
    os.sched_setaffinity(0, {core})
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))
    except PermissionError:
        return pipe.send(None)
    away = []
    while not pipe.poll():
        due = time.monotonic() + PAUSE
        time.sleep(PAUSE)
        if (now := time.monotonic()) - due > LATE:
            away.append((due, now))
    pipe.send(away)


class Watch:
    """For as long as it is entered. `possible`, afterwards: we may have real-time processes."""

    def __init__(self) -> None:
        self.possible = True
        self._away: list[tuple[float, float]] = []

    def __enter__(self) -> Watch:
        self._watchers = []
        for core in os.sched_getaffinity(0):
            ours, theirs = FORK.Pipe()
            process = FORK.Process(target=notice, args=(core, theirs), daemon=True)
            process.start()
            theirs.close()
            self._watchers.append((process, ours))
        return self

    def __exit__(self, *_) -> None:
        for process, pipe in self._watchers:
            with contextlib.suppress(BrokenPipeError):  # it has given up
                pipe.send(None)
            away = pipe.recv()
            self.possible = self.possible and away is not None
            self._away += away or []
            process.join()
            process.close()
            pipe.close()
        self._away.sort()
        self._longest = max((end - begin for begin, end in self._away), default=0.0)

    def share(self, seconds: float) -> float:
        """Of the time of all cores."""
        return sum(end - begin for begin, end in self._away) / seconds / max(len(self._watchers), 1)

    def was_there(self, took: Took) -> bool:
        """On every core, all the time."""
        first = bisect.bisect_left(self._away, (took.began - self._longest,))
        last = bisect.bisect_right(self._away, (took.began + took,))
        return not any(end > took.began for _, end in self._away[first:last])

    def during(self, times: list[Took]) -> list[Took]:
        return [took for took in times if self.was_there(took)]
