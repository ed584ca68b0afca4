"""More programs than processors: who stands back, who is spared a processor, who comes forward again."""
from __future__ import annotations

import contextlib
import os
import signal

import support
from test_api_restart import Restart, setUpModule, tearDownModule  # noqa: F401


class Crowded(Restart):
    CORES = os.cpu_count() or 1
    environment = {"HUTCH_ENGINE_MAX_RUNNING": str(CORES + 1)}
    ASK = "import os; print(len(os.sched_getaffinity(0)))"

    def setUp(self):
        super().setUp()
        self.processors = len(os.sched_getaffinity(0))
        self.spared = max(self.processors // 4, 1)

    def needs_processors(self) -> None:
        if self.processors < 2:
            support.missing("a second processor")

    def ask_until(self, condition: str) -> str:
        """How many processors there are, as soon as it is so many."""
        return "import os, time\nend = time.monotonic() + 9\n" \
               "while not len(os.sched_getaffinity(0)) %s and time.monotonic() < end: time.sleep(.01)\n" % condition + self.ASK

    def standing_back(self) -> int:
        """How many sandboxes take only processors that nobody else wants."""
        count = 0
        for group in support.groups_of(self.place):
            with contextlib.suppress(OSError), open(os.path.join(group, "cpu.idle")) as file:
                count += file.read() == "1\n"
        return count

    def launch_many(self) -> list[str]:
        """More than there are places, until they are cancelled."""
        return [self.client.launch("import time; time.sleep(60)") for _ in range(4 * self.CORES)]

    def cancel(self, runs: list[str]) -> None:
        for run in runs:
            self.client.post("/v1/runs/%s/cancel" % run, expect=202)


class Busy(Crowded):
    environment = {**Crowded.environment, "HUTCH_ENGINE_POOL_MAX": "0"}  # every start is on demand

    def test_long_programs_stand_back_where_processors_are_short(self):
        running = [self.client.launch("while True: pass") for _ in range(self.CORES + 2)]  # one of them waits
        self.assertTrue(support.settle(lambda: self.standing_back() == self.CORES + 1), self.standing_back())
        other = self.server.new_client("other")
        self.assertEqual(other.run("print(1)")["stdout"], "1\n")  # as if they were not there
        self.cancel(running[1:])
        self.assertTrue(support.settle(lambda: self.standing_back() == 0), "alone, it need not")
        self.cancel(running[:1])

    def test_some_processors_are_spared_for_who_asks_for_little(self):
        self.needs_processors()
        every, spared = "%d\n" % self.processors, "%d\n" % self.spared
        stay = self.ask_until("== %d" % self.processors)
        other = self.server.new_client("other")
        with self.client.session() as session, other.session() as few:
            many = self.launch_many()
            self.assertEqual(other.run(self.ASK)["stdout"], spared)
            self.assertTrue(support.settle(lambda: few.run(self.ASK)["stdout"] == spared), "it was made before")
            self.assertEqual([few.run(stay)["stdout"], other.run(stay)["stdout"]], [every, every])
            self.assertEqual(other.run(self.ASK, limits={"cpu_percent": 200})["stdout"], every)
            late = self.client.launch(self.ASK)
            moved = self.ask_until("< %d" % self.processors)  # a cell begins before it is moved
            cell = session.run(moved, expect=202, wait_ms=0)["execution_id"]
            self.assertEqual(other.run(self.ASK)["stdout"], spared)
            self.cancel(many)
            for run in (late, cell):
                self.assertEqual(self.client.get("/v1/runs/%s?wait_ms=9000" % run).json["stdout"],
                                 "%d\n" % (self.processors - self.spared))
            for one in (session, few):
                self.assertTrue(support.settle(lambda: one.run(self.ASK)["stdout"] == every), "given back")

    def test_who_has_many_processes_comes_forward_while_the_keeper_is_stuck(self):
        crowd = "import os, time\nfor _ in range(10):\n  if os.fork() == 0: time.sleep(60)\nwhile True: pass"
        running = [self.client.launch(code) for code in [crowd] + (self.CORES + 1) * ["while True: pass"]]
        self.assertTrue(support.settle(lambda: self.standing_back() == self.CORES + 1), self.standing_back())
        pythons = [pid for pid, name in support.descendants(self.server.process.pid).items() if name.startswith("python")]
        zygote = min(pythons)  # those that run were forked from it
        os.kill(zygote, signal.SIGSTOP)
        try:
            other = self.server.new_client("other").launch("print(1)")
            self.assertTrue(support.settle(lambda: self.standing_back() == self.CORES), self.standing_back())
        finally:
            os.kill(zygote, signal.SIGCONT)
        self.assertTrue(support.settle(lambda: self.standing_back() == self.CORES + 1), self.standing_back())
        self.assertEqual(self.client.get("/v1/runs/%s?wait_ms=0" % running[0]).json["status"], "running")
        self.cancel(running)


class CrowdedWithPool(Crowded):
    """Runners are made in advance, and find themselves on the spared processors."""

    def test_who_may_use_several_processors_may_use_all(self):
        self.needs_processors()
        other = self.server.new_client("other")
        many = self.launch_many()
        self.assertTrue(support.settle(lambda: other.run(self.ASK)["stdout"] == "%d\n" % self.spared))
        ask = self.ask_until("== %d" % self.processors)
        for _ in range(3):
            self.assertEqual(other.run(ask, limits={"cpu_percent": 200})["stdout"], "%d\n" % self.processors)
        self.cancel(many)


if __name__ == "__main__":
    support.main()
