"""A daemon that is killed or stopped, and the next one in the same place."""
from __future__ import annotations

import concurrent.futures
import contextlib
import datetime
import io
import json
import os
import resource
import signal
import sqlite3
import tarfile
import time

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

    def test_sessions_that_are_lost_are_listed_until_they_are_deleted(self):
        lost = [self.client.session(labels={"a": "b"}), self.client.session(name="second")]
        kept = self.client.session(persist=True)
        lost.append(self.client.session())
        self.server.kill()
        api = self.restart()
        with api.session(labels={"a": "b"}) as new:
            def listed(query: str = "") -> list[tuple[str, str]]:
                return [(one["id"], one["state"]) for one in api.get("/v1/sessions" + query).json["sessions"]]

            gone = [(session.id, "lost") for session in lost]
            self.assertEqual(listed(), [(new.id, "ready"), gone[2], (kept.id, "files_kept"), gone[1], gone[0]])
            self.assertEqual(listed("?limit=3"), listed()[:3])
            self.assertEqual(listed("?state=lost"), gone[::-1])
            self.assertEqual(listed("?state=files_kept"), [(kept.id, "files_kept")])
            self.assertEqual(listed("?label=a%3Db"), [(new.id, "ready"), gone[0]])
            self.assertEqual(listed("?label=a%3Db&state=lost"), gone[:1])
            self.assertEqual(api.get("/v1/sessions?state=gone", 400).error["code"], "bad_arguments")
            self.assertEqual(api.get("/v1/sessions?state=lost&limit=1").json["sessions"], [api.get(lost[2].at).json])
            api.delete(lost[2].at)
            self.assertEqual(listed("?state=lost"), gone[1::-1])
            other = self.server.new_client("other")
            self.assertEqual(other.get("/v1/sessions").json["sessions"], [])

    def last_uses(self) -> dict[str, int]:
        path = os.path.join(self.server.data, "hutch.db")
        with contextlib.closing(sqlite3.connect(path)) as database:
            return dict(database.execute("SELECT id, last_used_ns FROM session"))

    def test_the_time_of_last_use_survives_whoever_kills_the_daemon(self):
        asked, busy, idle = (self.client.session(persist=True, ttl=7200) for _ in range(3))
        self.assertEqual(self.server.stop(), 0)
        with contextlib.closing(sqlite3.connect(os.path.join(self.server.data, "hutch.db"))) as database, database:
            database.execute("UPDATE session SET last_used_ns = last_used_ns - 3600000000000")
        api = asked.client = busy.client = idle.client = self.restart()
        began = time.time_ns()
        api.put(asked.file("f"), b"x", 201)
        busy.run("import time; time.sleep(60)", expect=202, wait_ms=0)
        self.assertTrue(support.settle(lambda: min(map(self.last_uses().get, (asked.id, busy.id))) >= began))
        later = self.last_uses()[busy.id]
        self.assertTrue(support.settle(lambda: self.last_uses()[busy.id] > later), "it goes on being used")
        self.server.kill()
        asked.client = busy.client = idle.client = self.restart()
        for session, hours in (asked, 2), (busy, 2), (idle, 1):
            expires = datetime.datetime.fromisoformat(session.show()["expires_at"]).timestamp()
            self.assertAlmostEqual(expires, began / 1e9 + hours * 3600, delta=60)

    def saved(self) -> list[str]:
        return os.listdir(os.path.join(self.server.data, "sessions"))

    def test_nothing_is_left_of_the_files_of_sessions_that_are_gone(self):
        with self.client.session(persist=True) as kept:
            kept.run("open('f', 'w').write('kept')")
            for _ in range(4):  # ended before, while and after its files are saved
                gone = self.client.session(persist=True)
                gone.run("open('f', 'wb').write(bytes(8 << 20)); print('up', flush=True)", expect=202, wait_ms=0)
                self.client.delete(gone.at)
            self.assertTrue(support.settle(lambda: self.saved() == [kept.id + ".tar"]), self.saved())
            self.server.kill()
            for name in ("ses_%024d.tar" % 1, "ses_%024d.tar.new" % 2, kept.id + ".tar.new"):
                with open(os.path.join(self.server.data, "sessions", name), "w") as file:
                    file.write("of nobody")
            kept.client = self.restart()
            self.assertEqual(self.saved(), [kept.id + ".tar"])
            self.assertEqual(kept.run("print(open('f').read())")["stdout"], "kept\n")

    def test_files_that_could_not_be_saved_are_told_and_the_last_ones_kept(self):
        session = self.client.session(persist=True)
        self.assertTrue(session.run("open('f', 'w').write('first')")["session"])
        self.assertIs(session.show()["files_saved"], True)
        limit = session.show()["limits"]["scratch"]
        run = session.run("import os; open('f', 'w').write('second'); holes = open('holes', 'w')\n"
                          "holes.truncate(%d); [os.link('holes', 'link%%d' %% i) for i in range(8)]" % (limit // 2))
        self.assertEqual(run["status"], "ok")
        self.assertIn("could not be saved", " ".join(run["notices"]))
        self.assertIs(session.show()["files_saved"], False)
        size = sum(entry.stat().st_size for entry in os.scandir(os.path.join(self.server.data, "sessions")))
        self.assertLess(size, 1 << 20, "what was packed in vain")
        self.server.kill()
        session.client = self.restart()
        self.assertIs(session.show()["files_saved"], False)
        run = session.run("import os; print(open('f').read(), os.listdir()); open('g', 'w').close()")
        self.assertEqual((run["stdout"], run["notices"]), ("first ['f']\n", []))
        self.assertIs(session.show()["files_saved"], True)


    def test_files_that_could_not_be_brought_back_are_not_saved(self):
        session = self.client.session(persist=True, limits={"scratch": 32 << 20})
        session.run("open('f', 'w').write('first')")
        run = session.run("import os\nwith open('large', 'wb') as file: file.write(b'x' * (20 << 20))\n"
                          "os.link('large', 'link')")
        self.assertIn("could not be saved", " ".join(run["notices"]))
        self.server.kill()
        session.client = self.restart()
        self.assertEqual(session.run("import os; print(os.listdir())")["stdout"], "['f']\n")

    def test_saved_files_that_do_not_fit_are_told(self):
        session = self.client.session(persist=True, limits={"scratch": 32 << 20})
        session.run("open('f', 'w').write('first')")
        self.server.kill()
        saved, = (os.path.join(self.server.data, "sessions", name)
                  for name in os.listdir(os.path.join(self.server.data, "sessions")))
        with tarfile.open(saved, "w") as archive:
            entry = tarfile.TarInfo("large")
            entry.size = 40 << 20
            archive.addfile(entry, io.BytesIO(bytes(entry.size)))
        session.client = self.restart()
        for _ in range(2):
            answer = session.client.call("POST", session.at + "/runs", {"code": "1"})
            self.assertEqual((answer.status, answer.error["code"]), (507, "disk_full"), answer)
        with concurrent.futures.ThreadPoolExecutor(4) as threads:  # one opens it, the others wait for the same
            together = [threads.submit(session.client.call, *asked) for asked in (
                ("GET", session.at + "/files/"), ("POST", session.at + "/runs", {"code": "1"}),
                ("GET", session.at + "/files/"), ("GET", session.at + "/files/missing"))]
        for asked in together:
            answer = asked.result()
            self.assertEqual((answer.status, answer.error["code"]), (507, "disk_full"), answer)
        answer = session.client.call("POST", session.at + "/complete", {"code": "pri"})
        self.assertEqual((answer.status, answer.error["code"]), (507, "disk_full"), answer)
        self.assertGreater(os.path.getsize(saved), 40 << 20, "they stay what they are")

    def test_a_session_whose_template_is_gone_says_so(self):
        session = self.client.session(persist=True)
        session.run("open('f', 'w').close()")
        self.server.kill()
        with contextlib.closing(sqlite3.connect(os.path.join(self.server.data, "hutch.db"))) as database, database:
            database.execute("UPDATE session SET template_name = 'gone'")
        session.client = self.restart()
        for method, rest, data in (("POST", "/runs", {"code": "1"}), ("POST", "/restart", None),
                                   ("POST", "/complete", {"code": "pri"}), ("POST", "/inspect", {"code": "print"}),
                                   ("GET", "/variables", None), ("GET", "/variables/x", None), ("GET", "/files/", None),
                                   ("GET", "/files/f", None)):
            answer = session.client.call(method, session.at + rest, data)
            self.check_error(answer, 404, "template_not_found", "unknown_template")


class Numbers(Restart):
    """Who comes back to a stream after a restart hears what follows, or which numbers are missing."""

    def follow(self, target: str, after: int) -> list[dict]:
        with self.client.stream("GET", "%s/events?after=%d" % (target, after)) as events:
            return list(events)

    def check_rest(self, target: str, after: int, last: int) -> dict:
        """A gap up to the last event, which is how it ended."""
        gap, finished = self.follow(target, after)
        self.assertEqual((gap["type"], gap["from"], gap["to"], gap["seq"]), ("gap", after + 1, last - 1, last - 1))
        self.assertEqual((finished["type"], finished["seq"]), ("finished", last))
        self.assertEqual([event["seq"] for event in self.follow(target, last - 1)], [last])
        self.assertEqual(self.follow(target, last), [])
        return finished["result"]

    def test_a_run_that_ended_keeps_its_numbers(self):
        run = self.client.run("for i in range(3): print(i, flush=True); open(str(i), 'w')")
        target = "/v1/runs/" + run["execution_id"]
        told = self.follow(target, 0)
        self.assertEqual(told[-1]["seq"], run["last_event"])
        self.assertEqual(self.server.stop(), 0)
        self.restart()
        self.check_rest(target, 0, len(told))
        self.assertEqual(self.check_rest(target, 3, len(told)), told[-1]["result"])

    def test_a_run_that_was_interrupted_ends_behind_all_that_was_told(self):
        run = self.client.launch("import time\nfor i in range(3): print(i, flush=True)\ntime.sleep(60)", 300)
        target = "/v1/runs/" + run
        with self.client.stream("GET", target + "/events") as events:
            heard = next(event["seq"] for event in events if event["type"] == "stdout")
        self.server.kill()
        self.restart()
        last = self.follow(target, heard)[-1]["seq"]
        self.assertGreater(last, heard)
        self.assertEqual(self.check_rest(target, heard, last)["error"]["code"], "worker_lost")

    def test_a_session_goes_on_with_numbers_that_it_never_had(self):
        session = self.client.session(persist=True)
        with self.client.stream("GET", session.at + "/events") as events:
            run = session.run("print('one')")["execution_id"]
            heard = next(event["seq"] for event in events if event["type"] == "finished" and event["run"] == run)
        self.server.kill()
        session.client = self.restart()
        run = session.run("print('two')")["execution_id"]
        with self.client.stream("GET", "%s/events?after=%d" % (session.at, heard)) as events:
            gap = next(events)
            self.assertEqual((gap["type"], gap["from"], gap["seq"]), ("gap", heard + 1, gap["to"]))
            numbers = [gap["to"]]
            for event in events:
                numbers.append(event["seq"])
                if event["type"] == "finished" and event["run"] == run:
                    break
        self.assertEqual(numbers, list(range(gap["to"], numbers[-1] + 1)))
        with self.client.socket_to("%s/stream?after=%d" % (session.at, heard)) as socket:
            told = socket.until("finished", run=run)
            self.assertEqual((told[0]["type"], told[0]["from"], told[0]["to"]), ("gap", heard + 1, gap["to"]))
            self.assertEqual([event["seq"] for event in told], numbers)


class Gone(Restart):
    """Sandboxes that end by themselves, and the next interpreter of their sessions."""

    def end_all_sandboxes(self) -> None:
        if os.geteuid() != 0:
            support.missing("root, who may kill what is in a sandbox")
        inits = {pid for pid, name in support.descendants(self.server.process.pid).items() if name == "hutch-init"}
        self.assertTrue(inits)
        for pid in inits:
            os.kill(pid, signal.SIGKILL)
        self.assertTrue(support.settle(lambda: not inits & set(support.descendants(self.server.process.pid))))

    def test_saved_files_are_brought_back_into_the_next_sandbox_and_not_overwritten(self):
        kept = self.client.session(persist=True)
        kept.run("x = 1; open('f', 'w').write('kept')")
        self.end_all_sandboxes()
        again = kept.run("print(open('f').read(), 'x' in globals()); open('g', 'w').close()")
        self.assertEqual((again["stdout"], again["session"]["state"]), ("kept False\n", "files_kept"))
        self.server.kill()
        kept.client = self.restart()
        self.assertEqual(kept.run("import os; print(sorted(os.listdir()))")["stdout"], "['f', 'g']\n")

    def test_files_that_were_not_saved_are_told_to_be_lost(self):
        session = self.client.session()
        session.run("open('f', 'w').close()")
        self.end_all_sandboxes()
        with self.client.stream("GET", session.at + "/events") as events:
            after = session.run("import os; print(os.listdir())")
            self.assertEqual((after["stdout"], after["session"]["state"]), ("[]\n", "lost"))
            told = next(event for event in events if event["type"] == "session" and event["state"] == "restarted")
            self.assertIn("files are gone", told["reason"])
        self.assertEqual(session.run("1")["session"]["state"], "kept")


    def processes_beside(self, inner: int, namespace: int) -> list[int]:
        """Those in the same sandbox, but for its init."""
        found = []
        for pid in support.descendants(self.server.process.pid):
            with contextlib.suppress(OSError), open("/proc/%d/status" % pid) as file:
                numbers = next(line.split()[1:] for line in file if line.startswith("NSpid:"))
                if os.stat("/proc/%d/ns/pid" % pid).st_ino == namespace and int(numbers[-1]) not in (1, inner):
                    found.append(pid)
        return found

    def test_a_run_that_is_cancelled_while_its_files_are_saved_disturbs_nobody(self):
        if os.geteuid() != 0:
            support.missing("root, who may stop what is in a sandbox")
        session = self.client.session(persist=True)
        about = session.run("import os, signal\nopen('f', 'w').close()\nheard, tell = os.pipe()\n"
                            "for end in (heard, tell): os.set_blocking(end, False)\nsignal.set_wakeup_fd(tell)\n"
                            "print(os.getpid(), os.stat('/proc/self/ns/pid').st_ino)")["stdout"]
        helpers = self.processes_beside(*map(int, about.split()))
        self.assertEqual(len(helpers), 1, "who saves the files")
        os.kill(helpers[0], signal.SIGSTOP)
        run = session.run("open('g', 'w').close()", expect=202, wait_ms=0)["execution_id"]
        saving = os.path.join(self.server.data, "sessions", session.id + ".tar.new")
        self.assertTrue(support.settle(lambda: os.path.exists(saving)))
        self.client.post("/v1/runs/%s/cancel" % run, expect=202)
        self.client.post(session.at + "/interrupt", expect=202)
        os.kill(helpers[0], signal.SIGCONT)
        self.assertEqual(self.client.get("/v1/runs/%s?wait_ms=20000" % run).json["status"], "ok")
        after = session.run("try: print(os.read(heard, 9))\nexcept BlockingIOError: print('nothing')")
        self.assertEqual(after["stdout"], "nothing\n")


class NoRoom(Restart):
    environment = {"HUTCH_ENGINE_MAX_SESSIONS": "1"}

    def test_an_interpreter_that_cannot_start_takes_no_files_along(self):
        for persist in (False, True):
            session = self.client.session(persist=persist)
            session.run("open('f', 'w').write('kept')")
            session.run("import os; os._exit(1)")
            with self.client.session():
                for rest, data in (("/runs", {"code": "1"}), ("/complete", {"code": "pri"})):
                    answer = self.client.call("POST", session.at + rest, data)
                    error = self.check_error(answer, 503, "capacity", "no_slots")
                    self.assertGreater(error["retry_after_ms"], 0)
            again = session.run("print(open('f').read())")
            self.assertEqual((again["stdout"], again["session"]["state"]), ("kept\n", "files_kept"))
            self.client.delete(session.at)


class NoDescriptors(Restart):
    environment = {"HUTCH_ENGINE_POOL_MAX": "0"}  # a start in advance would not survive it

    def test_input_that_cannot_be_dropped_is_not_the_next_runs(self):
        session = self.client.session()
        session.run("x = 1")
        daemon = self.server.process.pid
        with self.client.socket_to(session.at + "/stream") as socket:
            socket.send({"type": "run", "code": "import os; print('up', flush=True); print(os.read(0, 2))", "stdin": True})
            socket.until("stdout")
            soft, hard = resource.prlimit(daemon, resource.RLIMIT_NOFILE)
            resource.prlimit(daemon, resource.RLIMIT_NOFILE, (3, hard))
            socket.send({"type": "stdin", "text": "a\nleft over\n"})
            socket.until("finished")
            resource.prlimit(daemon, resource.RLIMIT_NOFILE, (soft, hard))
        after = session.run("import select; print(select.select([0], [], [], 0)[0], 'x' in globals())", stdin=True)
        self.assertEqual((after["stdout"], after["session"]["state"]), ("[] False\n", "files_kept"))


    def test_a_sandbox_whose_descriptors_find_no_room_says_so(self):
        daemon = self.server.process.pid
        self.client.run("1")
        with contextlib.closing(self.client.connect()) as connection:
            def ask(name: str = "", target: str = "/v1/run", /, **data: object) -> tuple[int, dict]:
                self.client._send(connection, "POST", target, data or {"code": "print(1)", "template": "bare"}, None,
                                  {"X-Request-Id": name})
                response = connection.getresponse()
                return response.status, json.loads(response.read())

            def used_now() -> set[int]:
                return set(map(int, os.listdir("/proc/%d/fd" % daemon)))

            def still() -> bool:  # what is left of the run before is closed a little later
                before = used_now()
                time.sleep(0.2)
                return used_now() == before

            ask()
            self.assertTrue(support.settle(still))
            soft, hard = resource.prlimit(daemon, resource.RLIMIT_NOFILE)
            used = used_now()
            room = sorted(set(range(max(used) + 5)) - used)[:4]  # for a pipe for input, but not for a sandbox
            resource.prlimit(daemon, resource.RLIMIT_NOFILE, (room[-1] + 1, hard))
            status, answer = ask("no-room")
            ask("no-room-for-tools", "/v1/tools/call", type="tool_use", id="a", name="run_python", input={"code": "1"})
            resource.prlimit(daemon, resource.RLIMIT_NOFILE, (soft, hard))
            self.assertEqual((status, answer["error"]["code"]), (500, "sandbox_start_failed"))
            with open(self.server.data + ".log") as log:
                told = {(line["message"], line.get("request")): line for line in map(json.loads, log)}
            self.assertIn(("request failed", "no-room"), told)
            for name in ("no-room", "no-room-for-tools"):
                self.assertIn("may not have more open files", told["run failed", name]["error"])
                self.assertRegex(told["run failed", name]["run"], "^exe_[0-9a-f]{24}$")
            self.assertEqual(ask()[1]["stdout"], "1\n")


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


class Stubborn(Restart):
    environment = {"HUTCH_SERVE_STOP_GRACE": "0.1"}

    def test_what_does_not_want_to_end_is_ended_all_at_once(self):
        for _ in range(6):
            session = self.client.session()
            run = session.run("import time\nprint('up', flush=True)\nwhile True:\n  try:\n    while True: time.sleep(1)\n"
                              "  except BaseException: pass", expect=202, wait_ms=0)["execution_id"]
            self.assertTrue(support.settle(lambda at="/v1/runs/" + run: self.client.get(at).json["stdout"]))
        begin = time.monotonic()
        self.assertEqual(self.server.stop(), 0)
        self.assertLess(time.monotonic() - begin, 9)  # and not two seconds for each


if __name__ == "__main__":
    support.main()
