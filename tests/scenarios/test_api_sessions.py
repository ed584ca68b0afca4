"""Sessions over HTTP: variables and files live on, runs keep their order, crashes are survived, time runs out."""
from __future__ import annotations

import datetime
import socket

import api_support
import support
from api_support import ApiScenario

setUpModule, tearDownModule = api_support.begin, api_support.finish

UNKNOWN = "/v1/sessions/ses_" + "0" * 24
WAITING = "import time\nprint('up', flush=True)\nwhile True: time.sleep(.05)"


def when(text: str) -> datetime.datetime:
    return datetime.datetime.fromisoformat(text.replace("Z", "+00:00"))


class InSession(ApiScenario):
    def open(self, **options) -> api_support.Session:
        session = self.api.session(**options)
        self.addCleanup(session.__exit__)
        return session

    def begin_run(self, session: api_support.Session, code: str, **more) -> str:
        """Starts it, and waits until it has said something."""
        run = session.run(code, expect=202, wait_ms=0, **more)["execution_id"]
        self.assertTrue(support.settle(lambda: self.api.get("/v1/runs/" + run).json["stdout"]))
        return run

    def result(self, run: str) -> dict:
        done = self.api.get("/v1/runs/%s?wait_ms=20000" % run).json
        self.assertNotIn(done["status"], ("queued", "running"))
        return done


class Life(InSession):
    def test_a_change_that_comes_after_the_end_finds_no_session(self):
        server = api_support.server
        session = self.open()
        head = ("PATCH %s HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\nContent-Type: application/json\r\n"
                "Content-Length: 12\r\nConnection: close\r\nExpect: 100-continue\r\n\r\n" % (session.at, server.key))
        with socket.create_connection((server.host, server.port), timeout=api_support.PATIENCE) as connection:
            connection.sendall(head.encode())
            with connection.makefile("rb") as answer:
                self.assertIn(b" 100 ", answer.readline())  # it has found its session, and waits for the rest
                self.api.delete(session.at)
                connection.sendall(b'{"ttl": 600}')
                self.assertIn(b"HTTP/1.1 404 ", answer.read())

    def test_variables_and_files_live_on(self):
        session = self.open()
        first = session.run("x = 41\nopen('note.txt', 'w').write('kept')")
        self.assertEqual((first["status"], first["session_id"], first["execution_count"]), ("ok", session.id, 1))
        self.assertEqual([(file["path"], file["change"]) for file in first["files"]], [("note.txt", "created")])
        second = session.run("print(x + 1, open('note.txt').read())")
        self.assertEqual((second["stdout"], second["execution_count"], second["files"]), ("42 kept\n", 2, []))
        self.assertEqual(second["session"]["state"], "kept")
        self.assertGreater(when(second["session"]["expires_at"]), when(second["finished_at"]))
        self.assertEqual(session.show()["execution_count"], 2)

    def test_an_exception_is_not_the_end(self):
        session = self.open()
        session.run("x = 1")
        failed = session.run("def f():\n  return 1 / 0\nf()")
        self.assertEqual((failed["status"], failed["session"]["state"]), ("error", "kept"))
        self.assertEqual((failed["error"]["state"], failed["error"]["python"]["ename"],
                          failed["error"]["python"]["line"]),
                         ("kept", "ZeroDivisionError", 2))
        self.assertEqual(session.run("print(x)")["stdout"], "1\n")

    def test_commands_run_in_a_shell(self):
        session = self.open(env={"COLOR": "blue"})
        session.run("open('a.txt', 'w').write('one\\n')")
        run = self.api.post(session.at + "/runs", {"command": "cat a.txt; echo $COLOR; echo err >&2; exit 3"}).json
        self.assertEqual((run["stdout"], run["stderr"], run["exit_code"], run["status"]),
                         ("one\nblue\n", "err\n", 3, "error"))
        self.assertEqual(self.api.post(session.at + "/runs", {"command": "true"}).json["status"], "ok")

    def test_sessions_do_not_see_each_other(self):
        one, two = self.open(), self.open()
        one.run("x = 1; open('f', 'w')")
        self.assertEqual(two.run("import os; print(os.listdir(), 'x' in globals())")["stdout"], "[] False\n")

    def test_a_session_says_what_it_is(self):
        session = self.open(name="né", labels={"user": "42"}, ttl=100, max_age=200,
                            limits={"memory": 128 << 20, "timeout": 5})
        about = session.about
        self.assertEqual((about["name"], about["labels"], about["ttl"], about["max_age"], about["persist"],
                          about["mode"]),
                         ("né", {"user": "42"}, 100, 200, False, "plain"))
        self.assertEqual((about["state"], about["execution_count"], about["queued"], about["template"]),
                         ("ready", 0, 0, "bare"))
        self.assertEqual((about["limits"]["memory"], about["limits"]["timeout"]), (128 << 20, 5))
        self.assertAlmostEqual((when(about["expires_at"]) - when(about["created_at"])).total_seconds(), 100, delta=2)
        session.run("1")
        later = session.show()
        self.assertGreater(when(later["last_used_at"]), when(about["last_used_at"]))
        self.assertTrue(later["memory_bytes"] is None or later["memory_bytes"] > 0)

    def test_defaults_are_as_documented(self):
        session = self.api.post("/v1/sessions", expect=201).json
        try:
            self.assertEqual((session["ttl"], session["max_age"], session["persist"], session["labels"]),
                             (3600, 86400, False, {}))
        finally:
            self.api.delete("/v1/sessions/" + session["id"])

    def test_runs_of_a_session_are_listed(self):
        session = self.open()
        runs = [session.run(str(i))["execution_id"] for i in range(3)]
        self.assertEqual([run["execution_id"] for run in self.api.get(session.at + "/runs").json["runs"]], runs[::-1])
        listed = self.api.get("/v1/runs?session=" + session.id).json["runs"]
        self.assertEqual([run["execution_id"] for run in listed], runs[::-1])
        self.assertEqual(self.api.get("%s/runs/%s" % (session.at, runs[1])).json["execution_count"], 2)
        with self.open() as other:
            self.refused("GET", "%s/runs/%s" % (other.at, runs[1]), None, 404, "run_not_found", "unknown")


class Order(InSession):
    def test_queued_runs_run_in_order(self):
        session = self.open()
        runs = [session.run(code, expect=202, wait_ms=0)["execution_id"] for code in
                ["import time; log = [0]; time.sleep(.3)"] + ["log.append(%d)" % i for i in range(1, 6)]]
        self.assertEqual(session.show()["state"], "busy")
        self.assertGreater(session.show()["queued"], 0)
        self.assertEqual(session.run("print(log)")["stdout"], "[0, 1, 2, 3, 4, 5]\n")
        self.assertEqual([self.result(run)["execution_count"] for run in runs], [1, 2, 3, 4, 5, 6])

    def test_a_queued_run_can_be_taken_out(self):
        session = self.open()
        first = self.begin_run(session, WAITING)
        second = session.run("print('never')", expect=202, wait_ms=0)
        self.assertEqual(second["status"], "queued")
        self.api.post("/v1/runs/%s/cancel" % second["execution_id"], expect=202)
        taken = self.result(second["execution_id"])
        self.assertEqual((taken["status"], taken["stdout"], taken["error"]["category"]), ("cancelled", "", "cancelled"))
        self.assertEqual(self.api.get("/v1/runs/" + first).json["status"], "running")
        self.api.post("/v1/runs/%s/cancel" % first, expect=202)
        self.assertIn(self.result(first)["status"], ("cancelled", "error"))
        self.assertEqual(session.run("print('fine')")["stdout"], "fine\n")

    def test_an_interrupt_stops_the_cell_and_keeps_the_variables(self):
        session = self.open()
        self.assertFalse(self.api.post(session.at + "/interrupt", expect=202).json["interrupted"])
        session.run("x = 'still here'")
        run = self.begin_run(session, WAITING)
        self.assertTrue(self.api.post(session.at + "/interrupt", expect=202).json["interrupted"])
        done = self.result(run)
        self.assertIn("KeyboardInterrupt", done["stderr"] + str(done["error"]))
        self.assertEqual(done["session"]["state"], "kept")
        self.assertEqual(session.run("print(x)")["stdout"], "still here\n")

    def test_a_command_can_be_interrupted(self):
        session = self.open()
        run = self.api.post(session.at + "/runs", {"command": "echo up; sleep 60", "wait_ms": 0},
                            202).json["execution_id"]
        self.assertTrue(support.settle(lambda: self.api.get("/v1/runs/" + run).json["stdout"]))
        self.api.post(session.at + "/interrupt", expect=202)
        self.assertNotEqual(self.result(run)["status"], "ok")
        self.assertEqual(session.run("print(1)")["stdout"], "1\n")


class Endings(InSession):
    def test_an_interpreter_that_was_left_does_not_take_the_next_one_along(self):
        with self.api.session() as session:
            for number in range(10):  # with an empty workspace; the first is the sandbox's own, the others joined it
                self.assertEqual(session.run("exit(3)")["exit_code"], 3)
                self.assertEqual(session.run("print(%d)" % number)["stdout"], "%d\n" % number)

    def test_a_restart_forgets_variables_and_keeps_files(self):
        session = self.open()
        session.run("x = 1; open('f', 'w').write('kept')")
        about = self.api.post(session.at + "/restart").json
        self.assertEqual((about["id"], about["state"]), (session.id, "ready"))
        run = session.run("print(open('f').read(), 'x' in globals())")
        self.assertEqual(run["stdout"], "kept False\n")

    def test_a_restart_ends_what_runs(self):
        session = self.open()
        run = self.begin_run(session, WAITING)
        self.api.post(session.at + "/restart")
        self.assertIn(self.result(run)["status"], ("cancelled", "error"))
        self.assertEqual(session.run("print(1)")["stdout"], "1\n")

    def test_a_crash_keeps_the_files_and_the_next_run_works(self):
        for code, category in (("import os; os.abort()", "crash"), ("x = b'x' * (1 << 30)", "memory_limit"),
                               ("import ctypes; ctypes.string_at(0)", "crash"),
                               ("import os; os._exit(5)", "system_exit")):
            with self.subTest(code):
                session = self.open(limits={"memory": 96 << 20})
                session.run("y = 1; open('f', 'w').write('kept')")
                run = session.run(code)
                self.assertEqual((run["status"], run["error"]["category"]), ("error", category), run["error"])
                self.assertEqual((run["session"]["state"], run["error"]["state"]), ("files_kept", "files_kept"))
                after = session.run("print(open('f').read(), 'y' in globals())")
                self.assertEqual(after["stdout"], "kept False\n")
                self.assertEqual(session.run("print(1)")["session"]["state"], "kept")

    def test_a_run_that_takes_too_long_ends_and_files_are_kept(self):
        session = self.open()
        session.run("open('f', 'w').write('kept')")
        run = session.run("print('up', flush=True)\nwhile True:\n  try:\n    while True: pass\n"
                          "  except BaseException: pass", timeout=0.4)
        self.assertEqual((run["status"], run["stdout"], run["exit_code"]), ("timeout", "up\n", 124))
        self.assertIn(run["session"]["state"], ("kept", "files_kept"))
        self.assertEqual(session.run("print(open('f').read())")["stdout"], "kept\n")

    def test_the_time_limit_is_per_run(self):
        session = self.open(limits={"timeout": 0.6})
        for _ in range(3):
            self.assertEqual(session.run("import time; time.sleep(.3)")["status"], "ok")
        self.assertEqual(session.run("import time; time.sleep(5)")["status"], "timeout")

    def test_more_time_is_more_processor_time_unless_there_is_to_be_less(self):
        burn = "import time\nend = time.process_time() + .9\nwhile time.process_time() < end: pass"
        equal = self.open(limits={"timeout": 0.5, "cpu_time": 0.5})
        self.assertEqual(equal.run(burn, timeout=20)["status"], "ok")
        less = self.open(limits={"timeout": 5, "cpu_time": 0.5})
        self.check_category(less.run(burn, timeout=20), "timeout", "cpu_timeout")

    def test_a_program_that_exits_ends_only_its_interpreter(self):
        session = self.open()
        session.run("open('f', 'w').write('kept')")
        self.assertEqual(session.run("import sys; sys.exit(3)")["exit_code"], 3)
        self.assertEqual(session.run("print(open('f').read())")["stdout"], "kept\n")

    def test_what_a_session_started_dies_with_it(self):
        session = self.open()
        session.run("import subprocess; subprocess.Popen(['/bin/sleep', '1234.5'])")
        self.assertIn("sleep", support.descendants().values())
        self.api.delete(session.at)
        self.assertTrue(support.settle(lambda: "sleep" not in support.descendants().values()))

    def test_a_deleted_session_is_gone_and_its_runs_are_kept(self):
        session = self.open()
        run = session.run("print(1)")["execution_id"]
        running = self.begin_run(session, WAITING)
        self.api.delete(session.at)
        self.assertIn(self.result(running)["status"], ("cancelled", "error"))
        for method, rest in (("GET", ""), ("DELETE", ""), ("POST", "/restart"), ("GET", "/files/"),
                             ("POST", "/interrupt")):
            answer = self.api.call(method, session.at + rest)
            self.assertIn(answer.status, (404, 410), answer)
        self.assertNotIn(session.id, [one["id"] for one in self.api.get("/v1/sessions").json["sessions"]])
        self.assertEqual(self.api.get("/v1/runs/" + run).json["stdout"], "1\n")

    def test_a_session_that_nobody_uses_expires(self):
        session = self.open(ttl=10)
        self.assertEqual(session.run("print(1)")["stdout"], "1\n")
        with self.api.stream("GET", session.at + "/events") as events:
            states = [event["state"] for event in events if event["type"] == "session"]
        self.assertEqual(states[-1], "ended")
        self.assertIn("expiring", states)
        answer = self.api.call("GET", session.at)
        self.assertIn((answer.status, answer.error["code"]), ((404, "unknown"), (404, "expired"), (410, "ended")))


class Changes(InSession):
    def test_name_labels_and_time_to_live_can_be_changed(self):
        session = self.open(name="a", labels={"k": "v"}, ttl=100)
        changed = self.api.call("PATCH", session.at, {"name": "b", "ttl": 500}, expect=200).json
        self.assertEqual((changed["name"], changed["ttl"], changed["labels"]), ("b", 500, {"k": "v"}))
        changed = self.api.call("PATCH", session.at, {"labels": {"other": "w"}}, expect=200).json
        self.assertEqual((changed["name"], changed["labels"]), ("b", {"other": "w"}))
        self.assertEqual(session.show()["labels"], {"other": "w"})
        for data, code in (({"ttl": 9}, "bad_arguments"), ({"ttl": 604801}, "bad_arguments"),
                           ({"ttl": "10"}, "bad_arguments"),
                           ({"template": "x"}, "unknown_field"), ({"name": "x" * 101}, "bad_arguments"),
                           ({"labels": {"k": 1}}, "bad_arguments")):
            with self.subTest(data):
                self.refused("PATCH", session.at, data, 400, "invalid_request", code)
        self.assertEqual(session.show()["ttl"], 500)

    def test_sessions_are_found_by_label(self):
        one, two = self.open(labels={"team": "a=b", "n": "1"}), self.open(labels={"team": "c"})
        found = self.api.get("/v1/sessions?label=team%3Da%3Db").json["sessions"]
        self.assertEqual([session["id"] for session in found], [one.id])
        everyone = [session["id"] for session in self.api.get("/v1/sessions").json["sessions"]]
        self.assertLessEqual({one.id, two.id}, set(everyone))
        self.assertEqual(len(self.api.get("/v1/sessions?limit=1").json["sessions"]), 1)
        self.assertEqual(self.api.call("GET", "/v1/sessions?label=team").status, 400)

    def test_bad_sessions_are_refused(self):
        for data, code, word in (({"name": "x" * 101}, "bad_arguments", "name"),
                                 ({"labels": {str(i): "" for i in range(17)}}, "bad_arguments", "labels"),
                                 ({"labels": {"k" * 65: ""}}, "bad_arguments", "labels"),
                                 ({"labels": {"k": "v" * 257}}, "bad_arguments", "labels"),
                                 ({"mode": "bash"}, "bad_arguments", "mode"), ({"ttl": 1}, "bad_arguments", "ttl"),
                                 ({"persist": 1}, "bad_arguments", "persist"),
                                 ({"limits": {"memory": 1}}, "bad_arguments", "memory"),
                                 ({"code": "1"}, "unknown_field", "code")):
            with self.subTest(data):
                self.refused("POST", "/v1/sessions", data, 400, "invalid_request", code, word)
        self.refused("POST", "/v1/sessions", {"template": "no-such"}, 404, "template_not_found", "unknown_template")

    def test_bad_runs_are_refused(self):
        session = self.open()
        for data, code in (({}, "bad_arguments"), ({"code": "1", "command": "ls"}, "bad_arguments"),
                           ({"code": "1", "env": {}}, "unknown_field"),
                           ({"code": "1", "timeout": 0}, "bad_arguments"), ({"code": "1", "stdin": 1}, "bad_arguments"),
                           ({"code": []}, "bad_arguments")):
            with self.subTest(data):
                self.refused("POST", session.at + "/runs", data, 400, "invalid_request", code)

    def test_unknown_sessions_are_not_found(self):
        for method, rest, data in (("GET", "", None), ("PATCH", "", {"ttl": 60}), ("DELETE", "", None),
                                   ("POST", "/runs", {"code": "1"}),
                                   ("GET", "/runs", None), ("POST", "/interrupt", None), ("POST", "/restart", None),
                                   ("POST", "/stdin", {"text": "x"}),
                                   ("GET", "/events", None), ("GET", "/files/", None), ("PUT", "/files/x", None)):
            with self.subTest(method + rest):
                self.refused(method, UNKNOWN + rest, data, 404, "session_not_found", "unknown")


class Input(InSession):
    def test_without_input_input_fails_and_the_session_lives(self):
        session = self.open()
        self.check_category(session.run("x = 1\ninput('name? ')"), "stdin_unavailable", "input_called")
        self.assertEqual(session.run("print(x)")["stdout"], "1\n")

    def test_input_can_be_given_with_the_run(self):
        session = self.open()
        self.assertEqual(session.run("print(input() + '!', input())", stdin="a\nb\n")["stdout"], "a! b\n")
        self.check_category(session.run("input()"), "stdin_unavailable", "input_called")
        self.assertEqual(session.run("import sys; print(sys.stdin.read())", stdin="whole")["stdout"], "whole\n")

    def test_input_can_be_sent_while_the_run_waits_for_it(self):
        session = self.open()
        run = self.begin_run(session, "print('name?', flush=True)\nname = input()\nprint('hello', name, flush=True)\n"
                             "print(input())", stdin=True)
        self.api.post(session.at + "/stdin", {"text": "Ada\n"}, 202)
        self.assertTrue(support.settle(lambda: "hello Ada" in self.api.get("/v1/runs/" + run).json["stdout"]))
        self.api.post(session.at + "/stdin", {"text": "more\n"}, 202)
        self.assertEqual(self.result(run)["stdout"], "name?\nhello Ada\nmore\n")

    def test_input_that_nobody_waits_for_is_refused(self):
        session = self.open()
        self.refused("POST", session.at + "/stdin", {"text": "x"}, 409, "session_busy", "not_reading")
        self.refused("POST", session.at + "/stdin", {"text": 1}, 400, "invalid_request", "bad_arguments", "text")
        run = self.begin_run(session, WAITING)  # that was given none
        self.refused("POST", session.at + "/stdin", {"text": "x"}, 409, "session_busy", "not_reading", "no input")
        self.api.post("/v1/runs/%s/cancel" % run, expect=202)
        self.result(run)

    def test_what_one_run_did_not_read_is_not_the_next_ones(self):
        session = self.open()
        session.run("print(input())", stdin="a\nleft over\n")
        self.check_category(session.run("input()"), "stdin_unavailable", "input_called")
        for read in ("input()", "import os; os.read(0, 2)"):  # with what was read ahead, and without
            run = self.begin_run(session, "print('up', flush=True); " + read, stdin=True)
            self.api.post(session.at + "/stdin", {"text": "a\nleft over\n"}, 202)
            self.assertEqual(self.result(run)["status"], "ok")
            waits = session.run("import select; print(select.select([0], [], [], 0)[0])", stdin=True)
            self.assertEqual(waits["stdout"], "[]\n")

    def test_input_is_taken_whole_or_not_at_all(self):
        session = self.open()
        run = self.begin_run(session, "import os, time\nprint('up', flush=True)\n"
                             "while not os.path.exists('go'): time.sleep(.02)\nprint(input().count('y'))", stdin=True)
        self.api.post(session.at + "/stdin", {"text": "x" * 40_000}, 202)
        self.refused("POST", session.at + "/stdin", {"text": "y" * 40_000}, 409, "session_busy", "not_reading", "read")
        self.api.post(session.at + "/stdin", {"text": "\n"}, 202)
        self.api.put(session.file("go"), b"", 201)
        self.assertEqual(self.result(run)["stdout"], "up\n0\n")


if __name__ == "__main__":
    support.main()
