"""A daemon that is killed, stopped or full, and the next one in the same place."""
from __future__ import annotations

import contextlib
import os
import signal

import api_support
import support
from api_support import ApiScenario, Server

setUpModule, tearDownModule = support.begin, support.finish


class Restart(ApiScenario):
    environment: dict = {}

    def setUp(self):
        self.place = support.Home()
        self.addCleanup(self.place.close)
        self.server = Server(self.place, env=self.environment)
        self.client = self.server.start().client()
        self.addCleanup(self.check_nothing_left)

    def check_nothing_left(self) -> None:
        self.server.kill()
        self.assertTrue(support.settle(lambda: not support.groups_of(self.place)), "control groups of a killed daemon")

    def restart(self) -> api_support.Client:
        self.client = self.server.start().client()
        return self.client


class Death(Restart):
    def test_what_had_ended_is_there_and_what_had_not_is_marked(self):
        api = self.client
        done = api.run("print('x' * 2000000); open('f', 'w').write('left')")
        running = [api.launch("import time; time.sleep(60)", 200)]
        with api.session() as session:
            running.append(session.run("import time; time.sleep(60)", expect=202, wait_ms=200)["execution_id"])
            self.server.kill()
            api = session.client = self.restart()
        after = api.get("/v1/runs/" + done["execution_id"]).json
        self.assertEqual((after["status"], after["stdout"], after["files"]),
                         (done["status"], done["stdout"], done["files"]))
        self.assertEqual(len(api.get(done["full_log"]["stdout"]).body), 2000001)
        self.assertEqual(api.get("/v1/runs/%s/files/f" % done["execution_id"]).body, b"left")
        for run in running:
            marked = api.get("/v1/runs/" + run).json
            self.assertEqual((marked["status"], marked["error"]["category"], marked["error"]["retryable"]),
                             ("error", "internal", True))
        self.assertEqual(api.get("/v1/runs?status=running").json["runs"], [])
        self.assertEqual(self.server.stop(), 0)
        self.assertEqual(self.restart().get("/v1/runs/" + running[0]).json["status"], "error")

    def test_sessions_that_persist_keep_their_files_and_others_are_lost(self):
        api = self.client
        kept, lost = api.session(persist=True, name="kept", labels={"a": "b"}, env={"C": "d"}), api.session()
        kept.run("x = 1; open('f', 'w').write('kept')")
        api.put(kept.file("by-api"), b"too", 201)
        kept.run("1")
        lost.run("open('f', 'w')")
        self.server.kill()
        api = kept.client = self.restart()
        about = kept.show()
        self.assertEqual((about["state"], about["name"], about["labels"], about["persist"]),
                         ("files_kept", "kept", {"a": "b"}, True))
        again = kept.run("import os; print(open('f').read(), open('by-api').read(), 'x' in globals(), os.environ['C'])")
        self.assertEqual((again["stdout"], again["session"]["state"]), ("kept too False d\n", "files_kept"))
        gone = api.call("GET", lost.at)
        self.assertEqual(gone.json["state"] if gone.status == 200 else gone.error["code"], "lost", gone)
        for method, rest, data in (("POST", "/runs", {"code": "1"}), ("GET", "/files/", None),
                                   ("POST", "/restart", None)):
            self.check_error(api.call(method, lost.at + rest, data), 410, "session_not_found", "lost")
        self.assertEqual([one["id"] for one in api.get("/v1/sessions?label=a%3Db").json["sessions"]], [kept.id])
        self.assertEqual(self.server.stop(), 0)
        api = kept.client = self.restart()
        self.assertEqual(api.get(kept.file("f")).body, b"kept")
        api.delete(kept.at)
        self.assertEqual(self.server.stop(), 0)
        self.assertEqual(self.restart().call("GET", kept.at).status, 404)


class Stop(Restart):
    def test_a_stop_lets_short_runs_end_and_takes_no_new_ones(self):
        run = self.client.launch("import time; time.sleep(1); print('whole')", 200)
        self.server.process.send_signal(signal.SIGTERM)
        answers = set()
        try:
            while self.server.process.poll() is None:
                ready = self.client.call("GET", "/readyz")
                answer = self.client.call("POST", "/v1/run", {"code": "1", "template": "bare"})
                answers.add((ready.status, answer.status))
        except OSError:
            pass  # it does not listen any more
        self.assertLessEqual(answers - {(200, 200)}, {(503, 503), (200, 503)})
        self.assertEqual(self.server.process.wait(), 0)
        self.assertFalse(os.path.exists(self.server.socket))
        self.assertEqual(self.restart().get("/v1/runs/" + run).json["stdout"], "whole\n")

    def test_open_streams_do_not_hold_up_a_stop(self):
        session = self.client.session()
        with self.client.stream("GET", session.at + "/events") as events, \
                self.client.socket_to(session.at + "/stream") as socket:
            next(events)
            self.assertEqual(socket.status, 101)
            self.assertEqual(self.server.stop(), 0)
        self.restart()

    def test_two_daemons_do_not_share_one_place(self):
        second = self.place.call("serve", "--listen", "127.0.0.1:0", "--socket", self.server.socket + "2", "--data",
                                 self.server.data, within=10)
        self.assertNotEqual(second.code, 0)
        self.assertEqual(self.client.run("print(1)")["stdout"], "1\n")


class Full(Restart):
    environment = {"HUTCH_ENGINE_MAX_RUNNING": "1", "HUTCH_ENGINE_MAX_WAITING": "1"}

    def test_a_daemon_without_a_free_place_says_when_to_come_back(self):
        running = [self.client.launch("import time; time.sleep(30)", 200) for _ in range(2)]
        answer = self.client.call("POST", "/v1/run", {"code": "1", "template": "bare"})
        error = self.check_error(answer, 503, "capacity", "no_slots")
        self.assertTrue(error["retryable"] and error["retry_after_ms"] > 0)
        for run in running:
            self.client.post("/v1/runs/%s/cancel" % run, expect=202)
            self.assertEqual(self.client.get("/v1/runs/%s?wait_ms=9000" % run).json["status"], "cancelled")
        self.assertEqual(self.client.run("print(1)")["stdout"], "1\n")


class Busy(Restart):
    CORES = os.cpu_count() or 1
    environment = {"HUTCH_ENGINE_MAX_RUNNING": str(CORES + 1)}

    def standing_back(self) -> int:
        """How many sandboxes take only processors that nobody else wants."""
        count = 0
        for group in support.groups_of(self.place):
            with contextlib.suppress(OSError), open(os.path.join(group, "cpu.idle")) as file:
                count += file.read() == "1\n"
        return count

    def test_long_programs_stand_back_where_processors_are_short(self):
        running = [self.client.launch("while True: pass") for _ in range(self.CORES + 2)]  # one of them waits
        self.assertTrue(support.settle(lambda: self.standing_back() == self.CORES + 1), self.standing_back())
        other = self.server.new_client("other")
        self.assertEqual(other.run("print(1)")["stdout"], "1\n")  # as if they were not there
        for run in running[1:]:
            self.client.post("/v1/runs/%s/cancel" % run, expect=202)
        self.assertTrue(support.settle(lambda: self.standing_back() == 0), "alone, it need not")
        self.client.post("/v1/runs/%s/cancel" % running[0], expect=202)


if __name__ == "__main__":
    support.main()
