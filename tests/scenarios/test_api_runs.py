"""One program, one sandbox, over HTTP: results, errors, limits, files, waiting, cancelling, the cache and the list."""
from __future__ import annotations

import base64
import concurrent.futures
import hashlib
import os
import re
import time
import urllib.parse

import api_support
import support
from api_document import document
from api_support import ApiScenario

setUpModule, tearDownModule = api_support.begin, api_support.finish

FOREVER = "import time\nprint('up', flush=True)\nwhile True: time.sleep(1)"
UNKNOWN = "exe_" + "0" * 24


class Results(ApiScenario):
    def test_a_program_runs_and_its_output_comes_back(self):
        run = self.api.run("print(6 * 7)")
        self.assertEqual((run["status"], run["exit_code"], run["stdout"], run["stderr"]), ("ok", 0, "42\n", ""))
        self.assertEqual((run["template"], run["language"], run["session_id"], run["session"]),
                         ("bare", "python", None, None))
        self.assertEqual((run["error"], run["cached"], run["full_log"], run["execution_count"]),
                         (None, False, None, None))
        self.assertEqual([(event["type"], event["text"]) for event in run["events"]], [("stdout", "42\n")])
        self.assertLessEqual(run["created_at"], run["started_at"])
        self.assertLessEqual(run["started_at"], run["finished_at"])
        self.assertGreater(run["usage"]["peak_memory_bytes"], 0)
        self.assertTrue(all(wall["up"] for wall in run["walls"]) and len(run["walls"]) == 9)

    def test_an_exception_is_a_result_and_says_where(self):
        run = self.api.run("x = 1\nx / 0")
        self.assertEqual((run["status"], run["exit_code"]), ("error", 1))
        error = self.check_category(run, "python_exception", "exception")
        self.assertEqual((error["python"]["ename"], error["python"]["line"], error["state"]),
                         ("ZeroDivisionError", 2, "lost"))

    def test_an_exit_code_is_kept(self):
        run = self.api.run("import sys; sys.exit(7)")
        self.assertEqual((run["status"], run["exit_code"], run["error"]["category"]), ("error", 7, "system_exit"))

    def test_a_crash_is_a_result(self):
        run = self.api.run("import os; os.abort()")
        self.assertEqual(run["exit_code"], 134)
        self.check_category(run, "crash", "signal_abrt")

    def test_arguments_variables_and_input_arrive(self):
        run = self.api.run("import os, sys\nprint(sys.argv[1:], os.environ['COLOR'], input(), sys.stdin.read())",
                           args=["-x", "å b"], env={"COLOR": "blue=1"}, stdin="first\nrest\n")
        self.assertEqual(run["stdout"], "['-x', 'å b'] blue=1 first rest\n\n")

    def test_without_input_input_fails_and_the_hint_speaks_of_the_field(self):
        run = self.api.run("input()")
        self.assertIn("stdin", self.check_category(run, "stdin_unavailable", "input_called")["hint"])
        self.assertNotIn("--", run["error"]["hint"])

    def test_output_that_is_no_text_comes_as_bytes(self):
        run = self.api.run("import sys; sys.stdout.buffer.write(bytes(range(256)))")
        self.assertEqual(base64.b64decode(run["stdout_base64"]), bytes(range(256)))
        self.assertNotIn("stderr_base64", run)

    def test_many_at_once_do_not_mix(self):
        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            runs = list(pool.map(lambda i: self.api.run("print(%d)" % i), range(48)))
        self.assertEqual([run["stdout"] for run in runs], ["%d\n" % i for i in range(48)])
        self.assertEqual(len({run["execution_id"] for run in runs}), 48)


class Limits(ApiScenario):
    def test_a_program_that_takes_too_long_is_stopped(self):
        begin = time.monotonic()
        run = self.api.run("print('before', flush=True)\nwhile True: pass", limits={"timeout": 0.3})
        self.assertLess(time.monotonic() - begin, 0.3 + support.GRACE + support.START)
        self.assertEqual((run["status"], run["exit_code"], run["stdout"]), ("timeout", 124, "before\n"))
        self.check_limit(self.check_category(run, "timeout", "wall_timeout"), "wall_time", 300, "ms")
        self.assertNotIn("--", run["error"]["hint"])

    def test_processor_time_is_limited_by_itself(self):
        run = self.api.run("while True: pass", limits={"timeout": 20, "cpu_time": 0.3})
        self.check_category(run, "timeout", "cpu_timeout")

    def test_memory_is_limited(self):
        run = self.api.run("x = b'x' * (200 << 20)", limits={"memory": 64 << 20})
        self.check_category(run, "memory_limit", "oom_killed")
        self.check_limit(run["error"], "memory", 64 << 20, "bytes")
        self.assertIn("limits.memory", run["error"]["hint"])

    def test_scratch_space_files_and_processes_are_limited(self):
        for limits, code, expected in (
                ({"scratch": 1 << 20}, "open('f', 'wb').write(b'x' * (2 << 20))", ("disk_full", "file_too_large")),
                ({"open_files": 32}, "k = [open('/dev/null') for _ in range(99)]", ("too_many_files",)),
                ({"processes": 4}, "import threading, time\nfor i in range(9): "
                                   "threading.Thread(target=time.sleep, args=(9,), "
                                   "daemon=True).start()", ("too_many_processes",)),
                ({"inodes": 64}, "for i in range(99): open('f%d' % i, 'w')", ("disk_full",))):
            with self.subTest(limits):
                run = self.api.run(code, limits=limits)
                self.assertEqual(run["error"]["category"], "resource_limit", run["error"])
                self.assertIn(run["error"]["code"], expected)
                self.assertNotIn("--", run["error"]["hint"])

    def test_a_body_that_would_become_many_values_is_refused(self):
        body = b'{"code": "1", "args": [' + b"0," * 2_000_000 + b"0]}"
        answer = self.api.call("POST", "/v1/run", body=body, headers={"Content-Type": "application/json"}, expect=413)
        self.assertIn("2000000 values", answer.json["error"]["message"])

    def test_a_program_that_writes_more_than_it_may_is_cut(self):
        run = self.api.run("for i in range(1000): print('x' * 1000)", limits={"output": 50_000})
        self.assertTrue(run["truncated"]["stdout"])
        self.assertTrue(40_000 <= len(run["stdout"]) <= 50_000, len(run["stdout"]))

    def test_input_is_taken_up_to_the_length_that_is_documented(self):
        code = "import sys; print(len(sys.stdin.read()))"

        def most(schema: dict) -> int:
            return next(kind["maxLength"] for kind in schema.get("oneOf", [schema]) if kind["type"] == "string")

        schemas = document()["components"]["schemas"]
        with self.api.session() as session:
            for target, name in (("/v1/run", "RunRequest"), (session.at + "/runs", "CellRequest")):
                longest = most(schemas[name]["properties"]["stdin"])
                done = self.api.post(target, {"code": code, "stdin": "x" * longest}).json
                self.assertEqual(done["stdout"], "%d\n" % longest)
                self.refused("POST", target, {"code": code, "stdin": "x" * (longest + 1)}, 400, "invalid_request",
                             "bad_arguments", "stdin")

    def test_limits_out_of_range_are_refused_by_name(self):
        for limits, word in (({"timeout": 0}, "timeout"), ({"timeout": 1e9}, "time"), ({"memory": 1}, "memory"),
                             ({"memory": "64M"}, "limits.memory"), ({"memory": 1.5}, "limits.memory"),
                             ({"processes": 0}, "processes"),
                             ({"timeout": True}, "limits.timeout"), ({"cpu_percent": -1}, "cpu_percent"),
                             ({"inodes": []}, "limits.inodes")):
            with self.subTest(limits):
                self.refused("POST", "/v1/run", {"code": "1", "limits": limits}, 400, "invalid_request",
                             "bad_arguments", word)
        for field in ("memory", "scratch", "processes", "cpu_percent"):
            much = 1 << (31 if field in ("processes", "cpu_percent") else 50)
            with self.subTest(field):  # the operator's ceilings
                self.refused("POST", "/v1/run", {"code": "1", "limits": {field: much}}, 400, "invalid_request",
                             "bad_arguments", "must be between")
        self.refused("POST", "/v1/run", {"code": "1", "env": {name: "x" * (100 << 10) for name in "abc"}}, 400,
                     "invalid_request", "bad_arguments", "256 KiB")
        self.refused("POST", "/v1/run", {"code": "1", "limits": {"disk": 1}}, 400, "invalid_request", "unknown_field",
                     "limits.disk")


class Files(ApiScenario):
    def test_files_go_in_and_come_out(self):
        data = bytes(range(256)) * 40
        run = self.api.run("import os\nraw = open('in/data.bin', 'rb').read()\nos.makedirs('out dir')\n"
                           "open('out dir/é%2F.bin', 'wb').write(raw[::-1])\nos.remove('gone.txt')\n"
                           "open('kept.txt', 'a').write('!')\n"
                           "print(len(raw), oct(os.stat('tool').st_mode))",
                           files=[{"path": "in/data.bin", "content_base64": base64.b64encode(data).decode()},
                                  {"path": "gone.txt", "content": "x"}, {"path": "kept.txt", "content": "ü"},
                                  {"path": "tool", "content": "", "executable": True}])
        self.assertEqual(run["stdout"], "10240 0o100755\n", run["stderr"])
        files = {file["path"]: file for file in run["files"]}
        self.assertEqual({path: file["change"] for path, file in files.items()},
                         {"out dir/é%2F.bin": "created", "gone.txt": "deleted", "kept.txt": "modified"})
        self.assertEqual(files["out dir/é%2F.bin"]["sha256"], hashlib.sha256(data[::-1]).hexdigest())
        at = "/v1/runs/%s/files/" % run["execution_id"]
        answer = self.api.get(at + urllib.parse.quote("out dir/é%2F.bin"))
        self.assertEqual(answer.body, data[::-1])
        self.assertTrue(answer.headers["content-disposition"].startswith("attachment"))
        part = self.api.get(at + urllib.parse.quote("out dir/é%2F.bin"), 206, headers={"Range": "bytes=-3"})
        self.assertEqual((part.body, part.headers["content-range"]), (data[2::-1], "bytes 10237-10239/10240"))
        self.assertEqual(self.api.call("HEAD", at + "kept.txt", expect=200).headers["content-length"], "3")
        for missing in ("gone.txt", "in/data.bin", "never", "out%20dir"):
            self.refused("GET", at + missing, None, 404, "file_error", "file_not_found")

    def test_holes_and_further_names_take_no_space_outside(self):
        run = self.api.run("import os\nwith open('holes', 'wb') as file: file.truncate(20 << 20); file.seek(9 << 20); "
                           "file.write(b'here')\nwith open('one', 'wb') as file: file.write(b'x' * (2 << 20))\n"
                           "for i in range(4): os.link('one', 'link%d' % i)")
        self.assertEqual([(file["path"], file["size"]) for file in run["files"]],
                         [("holes", 20 << 20)] + [("link%d" % i, 2 << 20) for i in range(4)] + [("one", 2 << 20)])
        here = "/v1/runs/%s/files/" % run["execution_id"]
        self.assertEqual(self.api.get(here + "holes").body, bytes(9 << 20) + b"here" + bytes((11 << 20) - 4))
        for name in ("link3", "one"):
            self.assertEqual(self.api.get(here + name).body, b"x" * (2 << 20))
        kept = os.path.join(api_support.server.data, "runs", run["execution_id"] + ".files")
        blocks = {status.st_ino: status.st_blocks for status in (entry.stat() for entry in os.scandir(kept))}
        self.assertLess(sum(blocks.values()) * 512, 3 << 20)

    def test_a_log_that_is_gone_is_not_found(self):
        run = self.api.run("print('x' * 2000000)")
        self.assertEqual(len(self.api.get(run["full_log"]["stdout"]).body), 2000001)
        remove_log(run)
        answer = self.api.call("GET", run["full_log"]["stdout"])
        self.assertEqual((answer.status, answer.error["code"]), (404, "file_not_found"), answer)
        self.assertEqual(self.api.get("/v1/runs/%s/log?stream=stderr" % run["execution_id"]).body, b"")

    def test_files_are_not_kept_where_nobody_wants_them(self):
        run = self.api.run("open('f', 'w').write('x')", keep_files=False)
        self.refused("GET", "/v1/runs/%s/files/f" % run["execution_id"], None, 404, "file_error", "file_not_found")

    def test_a_page_that_a_program_left_is_never_shown(self):
        run = self.api.run("open('x.html', 'w').write('<script>alert(1)</script>')")
        answer = self.api.get("/v1/runs/%s/files/x.html" % run["execution_id"])
        self.assertTrue(answer.headers["content-disposition"].startswith("attachment"))
        self.assertEqual(answer.headers["x-content-type-options"], "nosniff")

    def test_links_that_a_program_left_lead_nowhere(self):
        run = self.api.run("import os\nos.symlink('/etc/passwd', 'link')\nos.symlink('/etc', 'dir')\n"
                           "os.mkfifo('fifo')\nopen('ok', 'w')")
        for path in ("link", "dir/passwd", "fifo"):
            self.refused("GET", "/v1/runs/%s/files/%s" % (run["execution_id"], path), None, 404, "file_error",
                         "file_not_found")

    def test_input_files_with_bad_names_or_contents_are_refused(self):
        for file in ({"path": "../x", "content": ""}, {"path": "/x", "content": ""}, {"path": "", "content": ""},
                     {"path": "a/../../x", "content": ""}, {"path": "a\0b", "content": ""},
                     {"path": "a//b", "content": ""},
                     {"path": "a"}, {"path": "a", "content": "x", "content_base64": "eA=="},
                     {"path": "a", "content_base64": "!"},
                     {"path": "a", "content": 1}, {"content": "x"}, "a"):
            with self.subTest(file):
                self.refused("POST", "/v1/run", {"code": "1", "files": [file]}, 400, "invalid_request", "bad_arguments")

    def test_input_that_does_not_fit_is_a_clear_error(self):
        big = [{"path": "f", "content": "x" * (3 << 20)}]
        answer = self.api.call("POST", "/v1/run",
                               {"code": "1", "template": "bare", "files": big, "limits": {"scratch": 1 << 20}})
        self.assertIn(answer.status, (200, 400, 507), answer)
        if answer.status == 200:
            self.assertEqual(answer.json["error"]["category"], "resource_limit")


class Later(ApiScenario):
    def test_who_does_not_want_to_wait_fetches_the_result_later(self):
        begin = time.monotonic()
        running = self.api.post("/v1/run", {"code": "import time; print('a', flush=True); time.sleep(.7); print('b')",
                                            "wait_ms": 50, "template": "bare"}, 202).json
        self.assertLess(time.monotonic() - begin, 0.7)
        self.assertIn(running["status"], ("queued", "running"))
        at = "/v1/runs/" + running["execution_id"]
        self.assertEqual(self.api.get(at).json["status"], "running")
        done = self.api.get(at + "?wait_ms=20000").json
        self.assertEqual((done["status"], done["stdout"]), ("ok", "a\nb\n"))
        self.assertEqual(done["execution_id"], running["execution_id"])
        self.assertEqual(self.api.get(at).json, done)
        self.assertEqual("".join(event["text"] for event in done["events"]), "a\nb\n")

    def test_a_run_that_is_quick_enough_needs_no_second_request(self):
        self.assertEqual(self.api.run("print(1)", wait_ms=20_000)["stdout"], "1\n")

    def test_a_run_can_be_cancelled(self):
        for wait_ms in (0, 300):
            running = self.api.launch(FOREVER, wait_ms)
            at = "/v1/runs/" + running
            self.assertEqual(self.api.post(at + "/cancel", expect=202).json["execution_id"], running)
            done = self.api.get(at + "?wait_ms=10000").json
            self.assertEqual(done["status"], "cancelled")
            self.check_category(done, "cancelled", "user_cancelled")
            self.assertIn(self.api.post(at + "/cancel", expect=202).json["status"], ("cancelled",))

    def test_a_run_goes_on_when_its_client_leaves(self):
        with self.api.stream("POST", "/v1/run", {"code": "import time; print(1, flush=True); time.sleep(.5); print(2)",
                                                 "template": "bare"}) as events:
            run = next(event["run"] for event in events if event["type"] == "stdout")
        done = self.api.get("/v1/runs/%s?wait_ms=10000" % run).json
        self.assertEqual((done["status"], done["stdout"]), ("ok", "1\n2\n"))

    def test_unknown_runs_are_not_found(self):
        for rest in ("", "/events", "/log?stream=stdout", "/files/x"):
            self.refused("GET", "/v1/runs/" + UNKNOWN + rest, None, 404, "run_not_found", "unknown")
        self.refused("POST", "/v1/runs/" + UNKNOWN + "/cancel", None, 404, "run_not_found", "unknown")
        for bad in ("exe_x", "..", "%2e%2e", "exe_" + "0" * 23 + "%00"):
            self.assertIn(self.api.call("GET", "/v1/runs/" + bad).status, (400, 404))


class Lists(ApiScenario):
    def test_runs_are_listed_newest_first_in_pages(self):
        mine = api_support.server.new_client("lists")
        made = [mine.run(code)["execution_id"] for code in ("1", "1/0", "2", "3", "4")]
        seen, before = [], ""
        for _ in range(3):
            page = mine.get("/v1/runs?limit=2" + before).json
            seen += [run["execution_id"] for run in page["runs"]]
            before = "&before=%s" % page["next"]
        self.assertEqual((seen, page["next"]), (made[::-1], None))
        failed = mine.get("/v1/runs?status=error").json["runs"]
        self.assertEqual([run["execution_id"] for run in failed], [made[1]])
        self.assertEqual(mine.get("/v1/runs?status=running").json["runs"], [])
        self.assertEqual(mine.get("/v1/runs?session=ses_" + "0" * 24, expect=200).json["runs"], [])

    def test_a_running_run_is_listed(self):
        running = self.api.launch(FOREVER, 100)
        try:
            self.assertIn(running, [run["execution_id"] for run
                                    in self.api.get("/v1/runs?status=running").json["runs"]])
            self.assertIn(running, [run["execution_id"] for run in self.api.get("/v1/runs").json["runs"]])
        finally:
            self.api.post("/v1/runs/%s/cancel" % running, expect=202)

    def test_a_run_is_listed_as_what_it_is_now(self):
        with self.api.session() as session:
            first, second = (session.run(FOREVER, expect=202, wait_ms=0)["execution_id"] for _ in range(2))
            listed = lambda query: {run["execution_id"]: run["status"]  # noqa: E731
                                    for run in self.api.get("/v1/runs?session=" + session.id + query).json["runs"]}
            self.assertTrue(support.settle(lambda: listed("") == {first: "running", second: "queued"}), listed(""))
            self.assertEqual((listed("&status=queued"), listed("&status=running")),
                             ({second: "queued"}, {first: "running"}))
            self.api.post("/v1/runs/%s/cancel" % first, expect=202)
            self.assertTrue(support.settle(lambda: listed("") == {first: "cancelled", second: "running"}), listed(""))
            self.assertEqual((listed("&status=queued"), listed("&status=running")), ({}, {second: "running"}))

    def test_pages_of_runs_that_go_on_lead_to_those_that_have_ended(self):
        mine = api_support.server.new_client("pages")
        runs = [mine.run("1")["execution_id"]] + [mine.launch(FOREVER) for _ in range(3)]
        for query, expected in (("", runs[::-1]), ("&status=running", runs[:0:-1])):
            self.assertTrue(support.settle(lambda: not mine.get("/v1/runs?status=queued").json["runs"]))
            seen, before = [], ""
            while before is not None:
                page = mine.get("/v1/runs?limit=1" + query + before).json
                seen += [run["execution_id"] for run in page["runs"]]
                before = page["next"] and "&before=" + page["next"]
            self.assertEqual(seen, expected)
        for run in runs[1:]:
            mine.post("/v1/runs/%s/cancel" % run, expect=202)

    def test_bad_questions_are_refused(self):
        for query in ("limit=0", "limit=101", "limit=x", "limit=", "status=done", "before=x", "nonsense=1",
                      "limit=1&limit=2", "limit=%zz"):
            with self.subTest(query):
                self.assertEqual(self.api.call("GET", "/v1/runs?" + query).status, 400)
        self.assertIn(self.api.call("GET", "/v1/runs?before=" + UNKNOWN).status, (200, 400))


def remove_log(run: dict) -> None:
    os.unlink(os.path.join(api_support.server.data, "runs", run["execution_id"] + ".stdout"))


class Cache(ApiScenario):
    def test_the_same_request_is_answered_from_the_cache_when_it_wants_that(self):
        mine = api_support.server.new_client("caching")
        code = "import os; print(os.urandom(8).hex())"
        first, second = mine.run(code, cache=True), mine.run(code, cache=True)
        self.assertEqual((first["cached"], second["cached"]), (False, True))
        self.assertEqual((second["stdout"], second["status"]), (first["stdout"], "ok"))
        self.assertNotEqual(second["execution_id"], first["execution_id"])
        self.assertLessEqual(first["created_at"], second["cached_at"])
        self.assertEqual(mine.get("/v1/runs/" + second["execution_id"]).json["stdout"], first["stdout"])
        for other in ({"cache": False}, {"cache": True, "stdin": "x"}, {"cache": True, "env": {"A": "b"}},
                      {"cache": True, "args": ["x"]},
                      {"cache": True, "files": [{"path": "f", "content": ""}]},
                      {"cache": True, "limits": {"timeout": 9}}):
            with self.subTest(other):
                self.assertNotEqual(mine.run(code, **other)["stdout"], first["stdout"])
        another = api_support.server.new_client("caching too")
        self.assertFalse(another.run(code, cache=True)["cached"])

    def test_a_cached_run_has_the_log_and_the_files_of_the_first(self):
        mine = api_support.server.new_client("cached logs")
        code = "import os; print(os.urandom(8).hex() * 100000); open('a', 'w').write('one'); open('b', 'w').write('two')"
        first, second = mine.run(code, cache=True), mine.run(code, cache=True)
        self.assertTrue(second["cached"])
        self.assertIn(second["execution_id"], second["full_log"]["stdout"])
        remove_log(first)
        self.assertTrue(mine.get(second["full_log"]["stdout"]).body.startswith(first["stdout"].encode()))
        self.assertEqual(mine.get("/v1/runs/%s/files/b" % second["execution_id"]).body, b"two")
        self.assertFalse(mine.run(code, cache=True)["cached"], "its log is gone")

    def test_failures_are_not_cached(self):
        mine = api_support.server.new_client("cached failures")
        for _ in range(2):
            self.assertFalse(mine.run("import os; print(os.urandom(8)); 1/0", cache=True)["cached"])


class Requests(ApiScenario):
    def test_a_request_must_be_what_it_says(self):
        for data, code, word in (({}, "bad_arguments", "code"), ({"code": 1}, "bad_arguments", "code"),
                                 ({"code": "1", "x": 1}, "unknown_field", "x"),
                                 ({"code": "1", "args": "x"}, "bad_arguments", "args"),
                                 ({"code": "1", "args": [1]}, "bad_arguments", "args"),
                                 ({"code": "1", "env": {"A": 1}}, "bad_arguments", "env"),
                                 ({"code": "1", "env": {"A=B": "x"}}, "bad_arguments", "env"),
                                 ({"code": "1", "env": []}, "bad_arguments", "env"),
                                 ({"code": "1", "stdin": 5}, "bad_arguments", "stdin"),
                                 ({"code": "1", "wait_ms": -1}, "bad_arguments", "wait_ms"),
                                 ({"code": "1", "wait_ms": 300_001}, "bad_arguments", "wait_ms"),
                                 ({"code": "1", "cache": "yes"}, "bad_arguments", "cache"),
                                 ({"code": "1", "keep_files": 1}, "bad_arguments", "keep_files")):
            with self.subTest(data):
                self.refused("POST", "/v1/run", data, 400, "invalid_request", code, word)

    def test_an_unknown_template_is_not_found(self):
        for name in ("no-such", "../bare", "a/b", ""):
            answer = self.api.call("POST", "/v1/run", {"code": "1", "template": name})
            self.assertIn(answer.status, (400, 404), answer)
        self.refused("POST", "/v1/run", {"code": "1", "template": "no-such"}, 404, "template_not_found",
                     "unknown_template", "no-such")

    def test_a_program_that_is_too_long_is_refused(self):
        answer = self.api.call("POST", "/v1/run", {"code": "#" * ((1 << 20) + 1), "template": "bare"})
        self.assertIn((answer.status, answer.error["code"]), ((400, "bad_arguments"), (413, "too_large")))
        self.assertEqual(self.api.run("#" * (1 << 20))["status"], "ok")


class Around(ApiScenario):
    def test_health_templates_status_usage_and_metrics(self):
        self.assertEqual(self.api.get("/healthz", headers={"Authorization": None}).json, {"status": "ok"})
        self.assertIn("bare", [one["name"] for one in self.api.get("/v1/templates").json["templates"]])
        before = self.api.get("/v1/usage").json
        self.api.run("import time\nend = time.process_time() + .1\nwhile time.process_time() < end: pass")
        after = self.api.get("/v1/usage").json
        self.assertEqual(after["runs"], before["runs"] + 1)
        self.assertGreater(after["cpu_seconds"], before["cpu_seconds"] + 0.09)
        status = self.api.get("/v1/status").json
        self.assertIn(status["version"], support.home.call("--version").text)
        metrics = self.api.get("/metrics").text
        self.assertIn('hutch_runs_total{status="ok"}', metrics)
        self.assertNotIn(self.api.key, metrics)

    def test_every_metric_is_documented_and_every_documented_one_is_there(self):
        with open(os.path.join(support.ROOT, "docs/api.md")) as file:
            table = file.read().partition("**Metrics.**")[2].partition("```")[0]
        documented = set(re.findall(r"`(hutch_\w+)`", " ".join(re.findall(r"(?m)^\|([^|]*)\|", table))))
        self.api.run("print(1)")
        text = self.api.get("/metrics").text
        self.assertEqual(set(re.findall(r"(?m)^# TYPE (\S+) ", text)), documented)
        for phase in ("validation", "queue", "setup", "execution", "collection", "total"):
            self.assertIn('hutch_run_seconds_count{phase="%s"}' % phase, text)

    def test_the_document_is_the_one_in_the_source(self):
        self.assertEqual(self.api.get("/v1/openapi.json", headers={"Authorization": None}).json, api_support.document())


if __name__ == "__main__":
    support.main()
