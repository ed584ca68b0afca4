"""Files of a live session: written, read, listed, moved, packed and watched, against a program that plays tricks."""
from __future__ import annotations

import concurrent.futures
import contextlib
import hashlib
import http.client
import io
import os
import tarfile
import zipfile

import api_support
import support
from api_support import ApiScenario

setUpModule, tearDownModule = api_support.begin, api_support.finish


class FileScenario(ApiScenario):
    def setUp(self):
        self.session = self.api.session(**self.options)
        self.addCleanup(self.session.__exit__)

    options: dict = {}

    def at(self, path: str = "") -> str:
        return self.session.file(path)

    def names(self, path: str = "", query: str = "") -> list[str]:
        return sorted(entry["path"] for entry in self.api.get(self.at(path) + query).json["entries"])

    def check_not(self, method: str, target: str, status: int, code: str, **more) -> None:
        answer = self.api.call(method, target, **more)
        self.assertEqual((answer.status, answer.error["code"]), (status, code), answer)


class Basics(FileScenario):
    def test_a_file_is_put_read_replaced_and_removed(self):
        data = os.urandom(700_001)
        made = self.api.put(self.at("data/raw.bin"), data, 201).json
        self.assertEqual((made["path"], made["name"], made["type"], made["size"], made["mode"]),
                         ("data/raw.bin", "raw.bin", "file", 700_001, "0644"))
        got = self.api.get(self.at("data/raw.bin"))
        self.assertEqual((got.body, got.headers["content-length"]), (data, "700001"))
        run = self.session.run("import hashlib; print(hashlib.sha256(open('data/raw.bin', 'rb').read()).hexdigest())")
        self.assertEqual(run["stdout"], hashlib.sha256(data).hexdigest() + "\n")
        self.assertEqual(self.api.put(self.at("data/raw.bin"), b"short", 200).json["size"], 5)
        self.assertEqual(self.api.get(self.at("data/raw.bin")).body, b"short")
        self.assertEqual(self.session.run("print(open('data/raw.bin').read())")["stdout"], "short\n")
        self.api.delete(self.at("data/raw.bin"))
        self.check_not("GET", self.at("data/raw.bin"), 404, "file_not_found")
        self.check_not("DELETE", self.at("data/raw.bin"), 404, "file_not_found")

    def test_an_empty_file_is_a_file(self):
        self.assertEqual(self.api.put(self.at("empty"), b"", 201).json["size"], 0)
        self.assertEqual(self.api.get(self.at("empty")).body, b"")

    def test_ranges_and_sizes(self):
        data = bytes(range(200))
        self.api.put(self.at("f"), data)
        for header, first, last in (("bytes=0-9", 0, 9), ("bytes=190-", 190, 199), ("bytes=-5", 195, 199),
                                    ("bytes=150-999", 150, 199)):
            part = self.api.get(self.at("f"), 206, headers={"Range": header})
            self.assertEqual((part.body, part.headers["content-range"]),
                             (data[first:last + 1], "bytes %d-%d/200" % (first, last)))
        for ignored in ("bytes=0-1,5-6", "lines=1-2", "bytes=5-1", "bytes=x"):
            self.assertEqual(self.api.get(self.at("f"), 200, headers={"Range": ignored}).body, data)
        self.check_not("GET", self.at("f"), 416, "bad_range", headers={"Range": "bytes=200-"})
        head = self.api.call("HEAD", self.at("f"), expect=200)
        self.assertEqual((head.headers["content-length"], head.headers["accept-ranges"], head.body),
                         ("200", "bytes", b""))
        self.api.call("HEAD", self.at("none"), expect=404)

    def test_directories_are_listed(self):
        for path in ("a.txt", "d/b.csv", "d/e/c", "z"):
            self.api.put(self.at(path), b"x")
        self.session.run("import os; os.symlink('/etc/passwd', 'link'); os.mkfifo('fifo')")
        listed = self.api.get(self.session.at + "/files").json
        self.assertEqual(listed, self.api.get(self.at()).json)
        kinds = {entry["name"]: entry["type"] for entry in listed["entries"]}
        self.assertEqual(kinds, {"a.txt": "file", "d": "directory", "z": "file", "link": "symlink", "fifo": "other"})
        about = {entry["name"]: entry for entry in listed["entries"]}
        self.assertEqual((about["a.txt"]["mime_type"], about["a.txt"]["size"], about["d"]["mime_type"]),
                         ("text/plain", 1, None))
        self.assertEqual(self.names("d"), ["d/b.csv", "d/e"])
        self.assertEqual(self.names("", "?recursive=true"),
                         ["a.txt", "d", "d/b.csv", "d/e", "d/e/c", "fifo", "link", "z"])
        self.check_not("GET", self.at("no"), 404, "file_not_found")

    def test_directories_are_made_moved_and_removed(self):
        made = self.api.post(self.at("x/y"), {"operation": "mkdir"}, 201).json
        self.assertEqual((made["path"], made["type"]), ("x/y", "directory"))
        self.api.put(self.at("x/y/f"), b"1")
        moved = self.api.post(self.at("x/y/f"), {"operation": "move", "to": "g"}, 200).json
        self.assertEqual(moved["path"], "g")
        self.api.put(self.at("h"), b"2")
        self.check_not("POST", self.at("h"), 409, "already_exists", data={"operation": "move", "to": "g"})
        self.api.post(self.at("h"), {"operation": "move", "to": "g", "overwrite": True}, 200)
        self.assertEqual(self.api.get(self.at("g")).body, b"2")
        self.check_not("POST", self.at("nothing"), 404, "file_not_found", data={"operation": "move", "to": "k"})
        self.api.put(self.at("x/y/f"), b"1")
        self.check_not("DELETE", self.at("x"), 409, "not_empty")
        self.api.delete(self.at("x") + "?recursive=true")
        self.assertEqual(self.names(), ["g"])
        for data in ({"operation": "copy"}, {}, {"operation": "move"}, {"operation": "mkdir", "mode": 1},
                     {"operation": "move", "to": "../x"}):
            self.assertEqual(self.api.call("POST", self.at("g"), data).status, 400, data)

    def test_files_and_directories_are_not_taken_for_each_other(self):
        self.api.post(self.at("d"), {"operation": "mkdir"}, 201)
        self.api.put(self.at("f"), b"x")
        self.check_not("PUT", self.at("d"), 409, "is_directory", body=b"x")
        answer = self.api.call("PUT", self.at("f/g"), body=b"x")
        self.assertIn(answer.status, (400, 409), answer)
        self.assertIn(self.api.call("GET", self.at("f/g")).status, (400, 404, 409))
        self.assertIn(self.api.call("GET", self.at("f") + "?archive=tar").status, (400, 409))
        self.assertEqual(self.api.call("DELETE", self.session.at + "/files/?recursive=true").status, 400)
        self.assertEqual(self.names(), ["d", "f"])

    def test_executable_files_are_executable(self):
        self.assertEqual(self.api.put(self.at("tool.sh") + "?executable=true", b"#!/bin/sh\n", 201).json["mode"],
                         "0755")

    def test_names_are_what_they_are(self):
        for name in ("with space", "ünï/코드.txt", "100%", "%41", "a+b&c=d?e#f", "\"quoted\"", "'", "-rf", "..hidden",
                     "a:b\\c",
                     "x" * 255):
            with self.subTest(name):
                self.assertEqual(self.api.put(self.at(name), name.encode(), 201).json["path"], name)
                self.assertEqual(self.api.get(self.at(name)).body, name.encode())
                self.assertEqual(self.session.run("print(open(%r, 'rb').read().decode() == %r)" %
                                                  (name, name))["stdout"], "True\n")
                self.assertIn(name, self.names("", "?recursive=true"))
                self.api.delete(self.at(name))

    def test_a_file_of_many_megabytes_passes(self):
        data = os.urandom(1 << 20) * 24
        self.api.put(self.at("big"), data, 201)
        self.assertEqual(hashlib.sha256(self.api.get(self.at("big")).body).digest(), hashlib.sha256(data).digest())

    def test_a_file_that_shrinks_while_it_is_read_is_not_filled_up(self):
        self.session.run("with open('big', 'wb') as file: file.truncate(64 << 20)")
        for more, status in ({}, 200), ({"Range": "bytes=1-"}, 206):
            with contextlib.closing(self.api.connect()) as connection:
                self.api._send(connection, "GET", self.at("big"), None, None, more)
                answer = connection.getresponse()
                self.assertEqual((answer.status, len(answer.read(1000))), (status, 1000))
                run = self.session.run("import os; os.truncate('big', 1000); print(os.path.getsize('big'))")
                self.assertEqual(run["stdout"], "1000\n")
                with self.assertRaises((http.client.IncompleteRead, ConnectionError)):  # the daemon hangs up
                    answer.read()
            self.session.run("import os; os.truncate('big', 64 << 20)")

    def test_an_upload_may_come_in_chunks(self):
        pieces = [b"x" * 1000, b"y" * 100_000, b"z"]
        answer = self.api.call("PUT", self.at("chunked"), body=iter(pieces))
        self.assertIn(answer.status, (201, 411), answer)
        if answer.status == 201:
            self.assertEqual(self.api.get(self.at("chunked")).body, b"".join(pieces))

    def test_an_upload_may_ask_first(self):
        for key, status in ((self.api.key, b"HTTP/1.1 100 "), ("x", b"HTTP/1.1 401 ")):
            with contextlib.closing(self.api.connect()) as connection:
                connection.putrequest("PUT", self.at("asked"))
                for name, value in (("X-API-Key", key), ("Content-Length", "5"), ("Expect", "100-continue")):
                    connection.putheader(name, value)
                connection.endheaders()
                self.assertEqual(connection.sock.recv(13), status)
                if status == b"HTTP/1.1 100 ":
                    connection.sock.recv(100)
                    connection.send(b"hello")
                    self.assertEqual(connection.getresponse().status, 201)
        self.assertEqual(self.api.get(self.at("asked")).body, b"hello")

    def test_files_can_be_changed_while_a_program_runs(self):
        run = self.session.run("import os, time\nwhile not os.path.exists('go'): time.sleep(.02)\n"
                               "print(open('go').read())",
                               expect=202, wait_ms=0)["execution_id"]
        self.api.put(self.at("go"), b"gone", 201)
        self.assertEqual(self.api.get("/v1/runs/%s?wait_ms=9000" % run).json["stdout"], "gone\n")

    def test_what_the_api_wrote_is_not_a_runs_doing(self):
        self.api.put(self.at("mine"), b"x")
        self.assertEqual(self.session.run("open('yours', 'w')")["files"][0]["path"], "yours")
        self.assertEqual(len(self.session.run("1")["files"]), 0)

    def test_many_uploads_at_once(self):
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda i: self.api.put(self.at("many/%d" % i), b"%d" % i * 1000, 201), range(40)))
        self.assertEqual(len(self.names("many")), 40)


class Tricks(FileScenario):
    """The program and the client may both be hostile; neither gets out of the workspace."""

    def test_paths_do_not_leave_the_workspace(self):
        for path in ("../x", "..", "a/../../x", "%2e%2e/x", "%2e%2e%2fx", "a/%2E%2E/%2E%2E/etc/passwd", "/etc/passwd",
                     "%2Fetc%2Fpasswd",
                     ".", "./x", "a//b", "a/./b", "a%00b", "..%00", "new%0Aline", "x" * 256, "/".join(["d"] * 3000)):
            for method, body in (("GET", None), ("PUT", b"x"), ("DELETE", None)):
                with self.subTest("%s %s" % (method, path[:40])):
                    answer = self.api.call(method, self.session.at + "/files/" + path, body=body)
                    self.assertIn(answer.status, (400, 404, 414), answer)
        self.assertEqual(self.names(), [])

    def test_links_are_not_followed(self):
        self.session.run("import os\nos.symlink('/etc/passwd', 'file')\nos.symlink('/', 'root')\nos.symlink('.', 'here')\n"
                         "os.symlink('/proc/self/fd', 'fd')\nos.symlink('loop', 'loop')\n"
                         "os.mkdir('d')\nos.symlink('/nowhere', 'd/dangling')")
        before = self.names("", "?recursive=true")
        for path in ("file", "root/etc/passwd", "here/file", "fd/0", "loop", "d/dangling", "root", "here"):
            for method, body in (("GET", None), ("PUT", b"owned")):
                answer = self.api.call(method, self.at(path), body=body)
                self.assertIn(answer.status, (400, 404, 409), answer)
        for target in ("root/tmp/x", "here/x"):
            self.assertIn(self.api.call("POST", self.at("d"), {"operation": "move", "to": target}).status,
                          (400, 404, 409))
        self.assertEqual(self.names("", "?recursive=true"), before)
        self.api.delete(self.at("root"))  # the link, not what it leads to
        self.api.delete(self.at("d") + "?recursive=true")
        self.assertTrue(os.path.exists("/etc/passwd"))

    def test_a_pipe_blocks_nobody(self):
        self.session.run("import os; os.mkfifo('fifo')")
        answer = self.api.call("GET", self.at("fifo"), timeout=5)
        self.assertEqual((answer.status, answer.error["code"]), (409, "not_a_file"))
        self.check_not("PUT", self.at("fifo"), 409, "not_a_file", body=b"x")
        self.api.delete(self.at("fifo"))

    def test_a_directory_that_turns_into_a_link_catches_nothing(self):
        self.session.run("import os\nos.mkdir('real')\nos.symlink('/etc', 'trap')", wait_ms=5000)
        run = self.session.run("import os\nprint('up', flush=True)\nfor i in range(200000):\n  try:\n"
                               "    os.rename('real', 'x'); os.rename('trap', 'real')\n"
                               "    os.rename('real', 'trap'); os.rename('x', 'real')\n  except OSError: pass",
                               expect=202, wait_ms=0)
        for i in range(60):
            answer = self.api.call("GET", self.at("real/passwd"))
            self.assertNotEqual(answer.status, 200, answer)
            self.assertIn(self.api.call("PUT", self.at("real/f%d" % i), body=b"x").status, (200, 201, 400, 404, 409))
        self.api.post("/v1/runs/%s/cancel" % run["execution_id"], expect=202)
        self.assertFalse(os.path.exists("/etc/f0"))

    def test_an_upload_that_breaks_off_leaves_nothing(self):
        self.api.put(self.at("old"), b"whole")
        for path in ("old", "new", "dir/new"):
            with contextlib.closing(self.api.connect()) as connection:
                connection.putrequest("PUT", self.at(path))
                connection.putheader("Authorization", "Bearer " + self.api.key)
                connection.putheader("Content-Length", "1000000")
                connection.endheaders(b"x" * 300_000)
                self.assertNotIn("new", [name.rpartition("/")[2] for name in self.names("", "?recursive=true")])
        look = "import os; print(sorted({name for _, _, files in os.walk('.') for name in files}))"
        self.assertTrue(support.settle(lambda: self.session.run(look)["stdout"] == "['old']\n"))
        self.assertEqual(self.api.get(self.at("old")).body, b"whole")

    def test_a_program_that_kills_everything_it_can_does_not_stop_the_file_api(self):
        self.api.put(self.at("before"), b"1")
        self.session.run("import os, signal\nos.kill(-1, signal.SIGKILL)")
        self.assertEqual(self.api.get(self.at("before")).body, b"1")
        self.api.put(self.at("after"), b"2", 201)
        self.assertEqual(self.session.run("print(open('after').read())")["stdout"], "2\n")


class Space(FileScenario):
    options = {"limits": {"scratch": 4 << 20, "inodes": 128}}

    def test_an_upload_that_does_not_fit_leaves_nothing(self):
        self.api.put(self.at("keep"), b"x" * 1000)
        for length in (None, 6 << 20):
            answer = self.api.call("PUT", self.at("big"),
                                   body=b"x" * (6 << 20) if length else iter([b"x" * (1 << 20)] * 6))
            if length or answer.status != 411:
                self.check_error(answer, 507, "resource_limit", "disk_full")
        self.assertEqual(self.names(), ["keep"])
        self.api.put(self.at("fits"), b"x" * (3 << 20), 201)

    def test_a_full_disk_is_told_and_can_be_emptied(self):
        run = self.session.run("with open('full', 'wb') as file:\n  while True: file.write(b'x' * 65536)")
        self.assertEqual(run["error"]["category"], "resource_limit", run["error"])
        self.check_error(self.api.call("PUT", self.at("more"), body=b"x" * 200_000), 507, "resource_limit", "disk_full")
        self.api.delete(self.at("full"))
        self.api.put(self.at("more"), b"x", 201)

    def test_archives_that_grow_too_large_leave_nothing(self):
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("bomb", b"\0" * (64 << 20))
        answer = self.api.call("PUT", self.at("out") + "?archive=zip", body=packed.getvalue())
        self.check_error(answer, 507, "resource_limit", "disk_full")
        self.assertLessEqual(set(self.names("", "?recursive=true")), {"out"})


class Archives(FileScenario):
    CONTENT = {"a.txt": b"one", "d/b.bin": bytes(range(256)) * 100, "d/é.txt": b""}

    def make(self, kind: str, entries: dict[str, bytes]) -> bytes:
        file = io.BytesIO()
        if kind == "zip":
            with zipfile.ZipFile(file, "w") as archive:
                for name, data in entries.items():
                    archive.writestr(name, data)
        else:
            with tarfile.open(fileobj=file, mode="w:gz" if kind == "gz" else "w") as archive:
                for name, data in entries.items():
                    about = tarfile.TarInfo(name)
                    about.size = len(data)
                    archive.addfile(about, io.BytesIO(data))
        return file.getvalue()

    def test_archives_are_unpacked_and_packed(self):
        for kind, query in (("tar", "tar"), ("zip", "zip"), ("gz", "tar")):
            with self.subTest(kind):
                done = self.api.put(self.at("in-" + kind) + "?archive=" + query, self.make(kind, self.CONTENT),
                                    200).json
                self.assertEqual((done["path"], done["files"]), ("in-" + kind, 3))
                self.assertEqual(self.api.get(self.at("in-%s/d/b.bin" % kind)).body, self.CONTENT["d/b.bin"])
        self.session.run("import os; os.symlink('a.txt', 'in-tar/link'); os.symlink('/etc/passwd', 'in-tar/out'); "
                         "os.mkfifo('in-tar/fifo')")
        packed = self.api.get(self.at("in-tar") + "?archive=tar")
        self.assertEqual(packed.media_type, "application/x-tar")
        self.assertEqual(packed.headers["content-security-policy"], "sandbox; default-src 'none'")
        with tarfile.open(fileobj=io.BytesIO(packed.body)) as archive:
            files = {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}
            self.assertEqual({member.name for member in archive if member.issym()}, {"link"})
        self.assertEqual(files, self.CONTENT)
        with zipfile.ZipFile(io.BytesIO(self.api.get(self.at("in-tar") + "?archive=zip").body)) as archive:
            self.assertEqual({name: archive.read(name) for name in archive.namelist() if not name.endswith("/")},
                             self.CONTENT)
        with zipfile.ZipFile(io.BytesIO(self.api.get(self.session.at + "/files?archive=zip").body)) as archive:
            self.assertIn("in-gz/d/é.txt", archive.namelist())

    def test_modules_of_the_workspace_are_not_run_by_the_porter(self):
        for name in ("bz2", "copy", "gzip", "lzma", "shutil", "struct", "tarfile", "zipfile", "zlib"):
            self.api.put(self.at(name + ".py"), b"open('/workspace/ran-%s', 'w')" % name.encode())
        for form in ("tar", "zip"):
            self.api.put(self.at("in-" + form) + "?archive=" + form, self.make(form, self.CONTENT), 200)
            self.assertTrue(self.api.get(self.at("in-" + form) + "?archive=" + form).body)
        self.assertEqual([name for name in self.names() if name.startswith("ran-")], [])

    def test_hostile_archives_are_refused_whole(self):
        links = io.BytesIO()
        with tarfile.open(fileobj=links, mode="w") as archive:
            about = tarfile.TarInfo("link")
            about.type, about.linkname = tarfile.SYMTYPE, "../../etc"
            archive.addfile(about)
        for kind, data in (("tar", self.make("tar", {"ok": b"x", "../x": b"x"})),
                           ("zip", self.make("zip", {"ok": b"x", "../x": b"x"})),
                           ("tar", self.make("tar", {"/etc/x": b"x"})), ("tar", links.getvalue()),
                           ("zip", b"no zip at all"), ("tar", b"no tar" * 200),
                           ("zip", self.make("zip", self.CONTENT)[:-30]),
                           ("tar", self.make("tar", self.CONTENT)[:700])):
            answer = self.api.call("PUT", self.at() + "?archive=" + kind, body=data)
            self.assertEqual(answer.status, 400, answer)
            self.assertEqual(self.names(), [])
        self.assertEqual(self.api.call("PUT", self.at() + "?archive=rar", body=b"x").status, 400)


class Forms(FileScenario):
    def test_a_form_uploads_many_files(self):
        body, headers = api_support.form(("a.txt", b"one"), ("b ü.bin", bytes(range(256)) * 2000), ("empty", b""))
        entries = self.api.call("POST", self.at("up"), body=body, headers=headers, expect=201).json["entries"]
        self.assertEqual([entry["path"] for entry in entries], ["up/a.txt", "up/b ü.bin", "up/empty"])
        self.assertEqual(self.api.get(self.at("up/b ü.bin")).body, bytes(range(256)) * 2000)
        body, headers = api_support.form(("root.txt", b"r"))
        self.api.call("POST", self.session.at + "/files", body=body, headers=headers, expect=201)
        self.assertEqual(self.api.get(self.at("root.txt")).body, b"r")

    def test_forms_that_are_broken_or_aim_elsewhere_are_refused(self):
        for name in ("../x", "/etc/x", "..", ""):
            body, headers = api_support.form((name, b"x"))
            self.assertEqual(self.api.call("POST", self.at("up"), body=body, headers=headers).status, 400, name)
        body, headers = api_support.form(("a", b"x"))
        for cut in (body[:40], body[:-6], body.replace(b"xYzZy", b"other"), b""):
            self.assertEqual(self.api.call("POST", self.at("up"), body=cut, headers=headers).status, 400)
        self.assertEqual(self.api.call("POST", self.at("up"), body=b"x", headers={"Content-Type": "text/plain"}).status,
                         415)
        self.assertLessEqual(set(self.names("", "?recursive=true")), {"up"})


class Watching(FileScenario):
    def test_changes_are_told_as_they_happen(self):
        for accept in ("text/event-stream", "application/x-ndjson"):
            name = accept[-4:]
            with self.api.stream("GET", self.session.at + "/files?watch=true", accept=accept) as events:
                self.assertEqual(next(events)["type"], "watching")
                self.session.run("open(%r, 'w').write('x')" % name)
                seen = self.wait_for(events, name, "created")
                self.api.put(self.at(name), b"changed")
                seen += self.wait_for(events, name, "modified", "created")
                self.api.delete(self.at(name))
                seen += self.wait_for(events, name, "deleted")
            self.assertEqual([event["seq"] for event in seen], list(range(1, len(seen) + 1)))

    def test_a_watch_tells_of_one_change_among_many_files(self):
        self.session.run("import os\nos.mkdir('many')\nfor i in range(2500): open('many/%d' % i, 'w').close()")
        with self.api.stream("GET", self.session.at + "/files?watch=true", accept="application/x-ndjson") as events:
            self.assertEqual(next(events)["type"], "watching")
            self.assertEqual(self.changes_of("open('many/7', 'w').write('x')"), ([("many/7", "modified")], False))
            event = next(events)
            self.assertEqual((event["path"], event["change"]), ("many/7", "modified"))
            many, truncated = self.changes_of("import os; os.rename('many', 'moved')")
            self.assertEqual((len(many), truncated), (1000, True))
            self.assertIn("incomplete", (event["type"] for event in events))

    def changes_of(self, code: str) -> tuple[list[tuple[str, str]], bool]:
        run = self.session.run(code)
        return [(file["path"], file["change"]) for file in run["files"]], run["truncated"]["files"]

    def test_a_watch_of_a_session_that_ends_tells_of_no_deletions(self):
        with self.api.session() as session:
            self.api.put(session.file("f"), b"x", 201)
            with self.api.stream("GET", session.at + "/files?watch=true") as events:
                self.assertEqual(next(events)["type"], "watching")
                self.api.delete(session.at)
                self.assertEqual(list(events), [])

    def test_a_key_has_only_so_many_watches(self):
        with contextlib.ExitStack() as open_ones:
            for _ in range(8):
                events = open_ones.enter_context(self.api.stream("GET", self.session.at + "/files?watch=true"))
                self.assertEqual(next(events)["type"], "watching")
            refused = self.api.get(self.session.at + "/files?watch=true", 429)
            self.assertEqual(refused.json["error"]["code"], "too_many_concurrent")
            self.assertIn("8 watches", refused.json["error"]["message"])
        self.assertTrue(support.settle(  # those that were left are noticed
            lambda: self.api.call("HEAD", self.session.at + "/files?watch=true").status == 200))

    def wait_for(self, events, path: str, *kinds: str) -> list[dict]:
        seen = []
        for event in events:
            seen.append(event)
            if event["path"] == path and event["change"] in kinds:
                return seen
        raise AssertionError("the stream ended: %s" % seen)


if __name__ == "__main__":
    support.main()
