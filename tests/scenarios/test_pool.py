"""Sandboxes made in advance: found by ordinary starts, used once, limited when they are claimed, never in anybody's way."""
from __future__ import annotations

import os
import signal
import threading
import time
import unittest

import engine_protocol as protocol
import support
from support import Scenario


def setUpModule() -> None:
    support.begin()


def tearDownModule() -> None:
    support.finish()


class Pool(Scenario):
    def setUp(self) -> None:
        super().setUp()
        self.home.stop()
        self.home.environment["HUTCH_ENGINE_POOL_MAX"] = "4"
        self.addCleanup(self.home.environment.update, {"HUTCH_ENGINE_POOL_MAX": "1"})
        self.addCleanup(self.home.stop)
        self.home.run("1")
        self.wait_for_ready()

    def pool(self) -> dict:
        return self.home.status()["pool"]

    def wait_for_ready(self, least: int = 1) -> None:
        if not support.settle(lambda: self.pool()["ready"] >= least, 10):
            self.fail("the pool is not filled: %r" % self.pool())

    def client(self) -> protocol.Client:
        client = protocol.Client(self.home.runtime + "/engine.sock")
        self.addCleanup(client.close)
        client.hello()
        return client

    def test_an_ordinary_start_finds_one(self) -> None:
        before = self.pool()
        record = self.home.record("print(1)")
        after = self.pool()
        self.assertEqual((record["stdout"], after["hits"] - before["hits"]), ("1\n", 1))
        self.assertIn("made in advance", str(record["steps"]))

    def test_one_can_be_had_without(self) -> None:
        before = self.pool()
        record = self.home.record("print(1)", "--no-pool")
        self.assertEqual((record["stdout"], self.pool()["hits"]), ("1\n", before["hits"]))
        self.assertIn("fork", [step["name"] for step in record["steps"]])

    def test_each_is_used_once(self) -> None:
        seen = set()
        for _ in range(6):
            self.wait_for_ready()
            record = self.home.record("import os, random; open('/tmp/mark', 'x'); print(os.getpid(), random.random())")
            self.assertEqual(record["exit_code"], 0, record)
            seen.add(record["stdout"])
        self.assertEqual(len(seen), 6)

    def test_limits_are_applied_at_claim(self) -> None:
        before = self.pool()
        record = self.home.record("x = bytearray(200 << 20)", "--memory", "64M")
        self.assertEqual(record["error"]["code"], "oom_killed", record["error"])
        self.assertEqual(record["error"]["limit"]["value"], 64 << 20)
        record = self.home.record("while True: pass", "--cpu-time", "0.3", "--timeout", "5")
        self.assertEqual(record["error"]["code"], "cpu_timeout", record["error"])
        self.assertEqual(self.pool()["hits"] - before["hits"], 2)

    def test_limits_that_are_fixed_at_the_fork_are_not_bent(self) -> None:
        before = self.pool()
        record = self.home.record("import resource; print(resource.getrlimit(resource.RLIMIT_NOFILE))", "--open-files", "99")
        self.assertEqual((record["stdout"], self.pool()["hits"]), ("(99, 99)\n", before["hits"]))

    def test_what_was_used_in_advance_is_not_the_programs(self) -> None:
        record = self.home.record("pass")
        self.assertLess(record["usage"]["cpu_ms"], 20, record["usage"])

    def test_a_runner_that_died_is_not_handed_out(self) -> None:
        engine = self.home.status()["pid"]
        family = support.descendants(engine)
        inits = [pid for pid, name in family.items() if name == "hutch-init"]
        for pid in inits:  # every empty or resting sandbox
            os.kill(pid, signal.SIGKILL)
        self.assertTrue(support.settle(lambda: not set(inits) & set(support.descendants(engine))))
        self.assertEqual(self.home.record("print(1)")["stdout"], "1\n")
        self.wait_for_ready()
        self.assertEqual(self.home.record("print(2)")["stdout"], "2\n")

    def test_it_grows_with_demand_and_not_beyond_its_limit(self) -> None:
        for _ in range(5):
            clients = [self.client() for _ in range(12)]
            for client in clients:
                client.begin(protocol.Request("print(1)"))
            self.assertEqual([client.outcome().out for client in clients], [b"1\n"] * 12)
        self.wait_for_ready(4)
        time.sleep(0.3)
        self.assertEqual(self.pool()["ready"], 4)

    def test_a_result_does_not_wait_for_the_teardown(self) -> None:
        client = self.client()
        for _ in range(20):
            self.assertEqual(client.run(protocol.Request("print(1)")).out, b"1\n")
        self.assertTrue(support.settle(lambda: self.home.status()["dying"] == 0, 5))

    def burst_of_starts(self) -> int:
        """At most how many sandboxes were seen asleep; every fourth leaves somebody behind."""
        leave_child = "import os, time\nif os.fork() == 0:\n    time.sleep(60)\nprint(1)"
        clients = [self.client() for _ in range(20 * os.cpu_count())]
        for number, client in enumerate(clients):
            client.begin(protocol.Request("print(1)" if number % 4 else leave_child))
        engine, most_asleep = self.home.status()["pid"], 0
        for client in clients:
            states = [support.stat_of(pid) for pid in support.descendants(engine)]
            most_asleep = max(most_asleep, sum(stat is not None and stat[1] == "T" for stat in states))
            self.assertEqual(client.outcome().out, b"1\n")
        self.assertTrue(support.settle(lambda: self.home.status()["dying"] == 0, 5))
        return most_asleep

    def test_where_many_wait_what_is_over_sleeps_before_it_is_taken_apart(self) -> None:
        for _ in range(3):
            if self.burst_of_starts() > 0:
                return
            time.sleep(5)  # a machine that stood still looks like a load that lasts, and then none sleeps for a while
        self.fail("nothing slept")

    def test_output_of_the_last_moment_is_complete(self) -> None:
        code = ("import atexit, os, sys\natexit.register(lambda: print('exit'))\nprint('x' * 60000)\n"
                "print('e' * 60000, file=sys.stderr)\n")
        outcome = self.client().run(protocol.Request(code))
        self.assertEqual((len(outcome.out), outcome.out[-6:], len(outcome.err)), (60006, b"\nexit\n", 60001))

    def test_whoever_goes_on_writing_is_not_waited_for(self) -> None:
        code = ("import os\nif os.fork() == 0:\n    while True: os.write(1, b'y' * 1000)\nprint('done', flush=True)")
        begin = time.monotonic()
        outcome = self.client().run(protocol.Request(code))
        self.assertEqual(outcome.record["exit_code"], 0)
        self.assertIn(b"done\n", outcome.out)
        self.assertLess(time.monotonic() - begin, 3)

    def test_files_are_those_that_stand_when_everybody_is_dead(self) -> None:
        code = ("import os, time\nif os.fork() == 0:\n    with open('grows', 'w') as f:\n"
                "        while True: f.write('z'); f.flush()\ntime.sleep(0.05)")
        outcome = self.client().run(protocol.Request(code, want_files=True))
        change, content = outcome.files[b"grows"]
        self.assertEqual((change, set(content)), ("created", {ord("z")}))


class Capacity(Scenario):
    def setUp(self) -> None:
        super().setUp()
        self.home.stop()
        self.home.environment.update(HUTCH_ENGINE_MAX_RUNNING="1", HUTCH_ENGINE_MAX_WAITING="1",
                                     HUTCH_ENGINE_MAX_SESSIONS="2")

        def restore() -> None:
            self.home.stop()
            for name in ("RUNNING", "WAITING", "SESSIONS"):
                del self.home.environment["HUTCH_ENGINE_MAX_" + name]

        self.addCleanup(restore)
        self.home.run("1")

    def connect(self) -> protocol.Client:
        client = protocol.Client(self.home.runtime + "/engine.sock")
        self.addCleanup(client.close)
        return client

    def test_beyond_capacity_the_answer_says_when_to_come_back(self) -> None:
        first, second, third = (self.connect() for _ in range(3))
        first.begin(protocol.Request("import time; time.sleep(0.5); print(1)"))
        self.assertTrue(support.settle(lambda: self.home.status()["running_now"] == 1))
        second.begin(protocol.Request("print(2)"))
        self.assertTrue(support.settle(lambda: self.home.status()["waiting"] == 1))
        refused = third.run(protocol.Request("print(3)")).failed
        self.assertEqual(refused["code"], "capacity", refused)
        self.assertIn("at capacity", refused["message"])
        self.assertIn("try again in", refused["hint"])
        self.assertGreaterEqual(refused["retry_after_ms"], 100)
        self.assertEqual((first.outcome().out, second.outcome().out), (b"1\n", b"2\n"))
        self.assertEqual(third.run(protocol.Request("print(3)")).out, b"3\n")

    def test_the_command_says_so_too(self) -> None:
        first, second = self.connect(), self.connect()
        first.begin(protocol.Request("import time; time.sleep(1)"))
        self.assertTrue(support.settle(lambda: self.home.status()["running_now"] == 1))
        second.begin(protocol.Request("print(2)"))
        self.assertTrue(support.settle(lambda: self.home.status()["waiting"] == 1))
        done = self.home.run("print(3)")
        self.assertEqual(done.code, 125)
        self.assertIn("at capacity", done.errors)
        first.outcome(), second.outcome()

    def test_open_shells_take_no_place_while_they_are_idle(self) -> None:
        shells = [self.connect() for _ in range(2)]
        for shell in shells:
            shell.begin(protocol.Request(mode=1))
            shell.send(protocol.cell("x = 1"))
            self.assertEqual(shell.receive()[0], protocol.CELL_DONE)
        self.assertEqual(self.home.status()["sessions"], 2)
        self.assertEqual(self.connect().run(protocol.Request("print(4)")).out, b"4\n")
        refused = self.connect().run(protocol.Request(mode=1)).failed
        self.assertEqual(refused["code"], "capacity", refused)

    def test_cells_of_two_shells_wait_for_each_other(self) -> None:
        shells = [self.connect() for _ in range(2)]
        for shell in shells:
            shell.begin(protocol.Request(mode=1))
        ends = {}

        def run(number: int) -> None:
            shells[number].send(protocol.cell("import time; time.sleep(0.3)"))
            assert shells[number].receive()[0] == protocol.CELL_DONE
            ends[number] = time.monotonic()

        begin = time.monotonic()
        threads = [threading.Thread(target=run, args=(number,)) for number in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertGreaterEqual(max(ends.values()) - begin, 0.6)

    def test_a_client_that_leaves_while_it_waits_leaves_nothing(self) -> None:
        first, second = self.connect(), self.connect()
        first.begin(protocol.Request("import time; time.sleep(0.3); print(1)"))
        self.assertTrue(support.settle(lambda: self.home.status()["running_now"] == 1))
        second.begin(protocol.Request("print(2)"))
        self.assertTrue(support.settle(lambda: self.home.status()["waiting"] == 1))
        second.close()
        self.assertEqual(first.outcome().out, b"1\n")
        self.assertTrue(support.settle(lambda: (status := self.home.status())["running_now"] == 0
                                       and status["waiting"] == 0))


if __name__ == "__main__":
    unittest.main()
