"""Requests about one session that come at the same moment, where there is one place to run in."""
from __future__ import annotations

import concurrent.futures
import os

import api_support
import support
from api_support import ApiScenario


def setUpModule():
    api_support.begin(env={"HUTCH_ENGINE_MAX_RUNNING": "1", "HUTCH_ENGINE_POOL_MAX": "0"})


tearDownModule = api_support.finish

WAITING = "import time\nprint('up', flush=True)\nwhile True: time.sleep(.05)"


class Races(ApiScenario):
    SPARE = 2  # shells that are made in advance

    def setUp(self):
        with self.api.session() as session:
            session.run("1")
        self.only_spare_ones()

    def only_spare_ones(self) -> None:
        def groups() -> set[str]:
            return {os.path.basename(path) for path in support.groups_of(support.home)}  # one in each hierarchy

        self.assertTrue(support.settle(lambda: len(groups()) == self.SPARE), groups())

    def test_a_session_that_is_deleted_while_it_restarts_leaves_nothing(self):
        for _ in range(12):
            session = self.api.session()
            with concurrent.futures.ThreadPoolExecutor(3) as threads:
                asked = [threads.submit(self.api.call, method, session.at + rest, timeout=15)
                         for method, rest in (("POST", "/restart"), ("POST", "/restart"), ("DELETE", ""))]
            restarted = [answer.result().status for answer in asked[:2]]
            self.assertTrue(all(status in (200, 404) for status in restarted), restarted)
            self.assertEqual(asked[2].result().status, 204)
        self.assertEqual(self.api.get("/v1/status").json["sessions"], 0)
        self.only_spare_ones()

    def test_a_session_that_is_deleted_while_it_is_made_is_not_found(self):
        with concurrent.futures.ThreadPoolExecutor(1) as threads:
            for _ in range(12):
                made = threads.submit(self.api.call, "POST", "/v1/sessions", {"template": "bare"}, timeout=15)
                while not made.done():
                    for session in self.api.get("/v1/sessions").json["sessions"]:
                        self.api.call("DELETE", "/v1/sessions/" + session["id"], expect=(204, 404), timeout=15)
                self.assertIn(made.result().status, (201, 404))
        for session in self.api.get("/v1/sessions").json["sessions"]:
            self.api.call("DELETE", "/v1/sessions/" + session["id"], expect=204)
        self.only_spare_ones()

    def test_a_session_that_is_deleted_while_a_run_needs_a_new_interpreter_leaves_nothing(self):
        for _ in range(6):
            session = self.api.session()
            session.run("import os; os._exit(1)")
            run = session.run("print(1)", expect=202, wait_ms=0)["execution_id"]
            self.api.call("DELETE", session.at, expect=204, timeout=15)
            self.assertIn(self.api.get("/v1/runs/%s?wait_ms=9000" % run).json["status"], ("cancelled", "error", "ok"))
        self.only_spare_ones()

    def test_an_interpreter_that_goes_while_files_are_looked_at_takes_nothing_along(self):
        with self.api.session() as session, concurrent.futures.ThreadPoolExecutor(2) as threads:
            for number in range(12):
                for file in range(20):
                    self.api.put(session.file("d%d/f%d" % (number, file)), b"x")
                asked = [threads.submit(self.api.call, "POST", session.at + rest, data, timeout=15)
                         for rest, data in (("/runs", {"code": "print(1)"}), ("/restart", None))]
                statuses = [answer.result().status for answer in asked]
                self.assertTrue(all(status < 500 for status in statuses), statuses)
            self.assertEqual(session.run("print('fine')")["stdout"], "fine\n")

    def test_a_run_whose_interpreter_dies_while_it_waits_for_its_place_has_another(self):
        with self.api.session() as holder, self.api.session() as session:
            session.run("import os, threading, time\ndef leave():\n  while not os.path.exists('go'): time.sleep(.02)\n"
                        "  os._exit(3)\nthreading.Thread(target=leave, daemon=True).start()")
            holding = holder.run(WAITING, expect=202, wait_ms=0)["execution_id"]
            self.assertTrue(support.settle(lambda: self.api.get("/v1/runs/" + holding).json["stdout"]))
            run = session.run("print('fine')", expect=202, wait_ms=0)["execution_id"]
            self.api.put(session.file("go"), b"", 201)
            self.assertTrue(support.settle(lambda: session.show()["memory_bytes"] is None), "it is gone")
            self.api.post("/v1/runs/%s/cancel" % holding, expect=202)
            done = self.api.get("/v1/runs/%s?wait_ms=20000" % run).json
            self.assertEqual((done["status"], done["stdout"], done["session"]["state"]), ("ok", "fine\n", "files_kept"))

    def test_a_run_that_is_cancelled_while_its_interpreter_starts_never_begins(self):
        others = [self.api.session() for _ in range(3)]
        for session in others:
            session.run("import os; os._exit(1)")
        with self.api.session() as holder:
            holding = holder.run(WAITING, expect=202, wait_ms=0)["execution_id"]
            self.assertTrue(support.settle(lambda: self.api.get("/v1/runs/" + holding).json["stdout"]))
            for session in others:
                run = session.run("print('never')", expect=202, wait_ms=0)["execution_id"]
                self.api.post("/v1/runs/%s/cancel" % run, expect=202)
                done = self.api.get("/v1/runs/%s?wait_ms=9000" % run).json
                self.assertEqual((done["status"], done["stdout"]), ("cancelled", ""))
            self.assertEqual(self.api.get("/v1/runs/" + holding).json["status"], "running")
        for session in others:
            self.assertEqual(session.run("print('fine')")["stdout"], "fine\n")
            session.__exit__()


if __name__ == "__main__":
    support.main()
