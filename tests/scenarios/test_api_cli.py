"""The daemon from the command line: `hutch session`, `hutch run --server`, `hutch key`; and over TLS."""
from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import tempfile
import threading

import support
from api_support import ApiScenario, Client, Server

setUpModule, tearDownModule = support.begin, support.finish


class Commands(ApiScenario):
    @classmethod
    def setUpClass(cls):
        cls.place = support.Home()
        cls.addClassCleanup(cls.place.close)
        cls.server = Server(cls.place)
        cls.server.start()
        cls.addClassCleanup(cls.server.kill)

    def hutch(self, *arguments: str, expect: int = 0, **more) -> str:
        done = self.place.call(*arguments, env={"HUTCH_SERVER": "unix:" + self.server.socket}, **more)
        self.assertEqual(done.code, expect, done.errors)
        return done.out.decode()

    def test_a_session_lives_through_several_commands(self):
        session = self.hutch("session", "create", "--template", "bare", "--name", "mine").strip()
        self.assertIn(session, self.hutch("session", "ls"))
        self.assertEqual(self.hutch("session", "run", session, "-c", "x = 41"), "")
        self.assertEqual(self.hutch("session", "run", session, "-c", "x + 1"), "42\n")
        self.assertIn("41", self.hutch("session", "vars", session))
        self.assertIn("int", self.hutch("session", "vars", session, "x"))
        self.assertIn("bit_length", self.hutch("session", "complete", session, "x.bit_"))
        self.assertIn("Return the number of items", self.hutch("session", "inspect", session, "len"))
        self.hutch("session", "inspect", session, "nothing_like_it", expect=125)
        self.hutch("session", "run", session, "-c", "1/0", expect=1)
        shown = self.hutch("session", "attach", session, stdin=b"print(x)\nfor i in range(2):\n  print(i)\n\n")
        self.assertTrue(shown.endswith("41\n0\n1\n"), shown)
        about = json.loads(self.hutch("session", "ls", "--json"))["sessions"]
        self.assertEqual([(one["id"], one["name"]) for one in about], [(session, "mine")])
        self.hutch("session", "rm", session)
        self.assertNotIn(session, self.hutch("session", "ls"))
        self.hutch("session", "run", session, "-c", "1", expect=125)

    def attach(self, server: Server, session: str) -> subprocess.Popen:
        process = server.home.start("session", "attach", session, env={"HUTCH_SERVER": "unix:" + server.socket},
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        process.stdin.write(b"print('up')\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), b"up\n")
        return process

    def test_attach_tells_an_end_from_a_lost_connection(self):
        place = support.Home()
        self.addCleanup(place.close)
        server = Server(place).start()
        self.addCleanup(server.kill)
        local = Client(server, None, unix=True).session()
        attached = self.attach(server, local.id)
        local.client.delete(local.at)
        self.assertEqual(attached.wait(20), 0)
        self.assertEqual(attached.stderr.read(), b"the session has ended\n")
        attached = self.attach(server, Client(server, None, unix=True).session().id)
        server.process.kill()
        self.assertEqual(attached.wait(20), 125)
        self.assertIn(b"the connection broke", attached.stderr.read())

    def test_a_program_runs_on_the_daemon_with_files_in_and_out(self):
        with tempfile.TemporaryDirectory() as directory:
            data = os.path.join(directory, "data.txt")
            with open(data, "w") as file:
                file.write("from here")
            code = "open('out.txt', 'w').write(open('data.txt').read() + ' and back'); print(input())"
            out = self.hutch("run", "--server", "unix:" + self.server.socket, "--template", "bare", "--in", data,
                             "--out", os.path.join(directory, "results"), "-c", code, stdin=b"typed\n")
            self.assertEqual(out, "typed\n")
            with open(os.path.join(directory, "results", "out.txt")) as file:
                self.assertEqual(file.read(), "from here and back")

    def test_the_exit_code_is_the_programs(self):
        server = "http://127.0.0.1:%d" % self.server.port
        self.hutch("run", "--server", server, "--key", self.server.key, "--template", "bare", "-c", "raise SystemExit(7)",
                   expect=7)
        self.hutch("run", "--server", server, "--template", "bare", "-c", "1", expect=125)  # without a key

    def test_keys_are_made_rotated_and_revoked_while_the_daemon_runs(self):
        made = json.loads(self.hutch("key", "create", "agent", "--scope", "run", "--json", "--data", self.server.data))
        status = lambda key: Client(self.server, key).call("GET", "/v1/templates").status  # noqa: E731
        self.assertEqual(status(made["key"]), 200)
        again = json.loads(self.hutch("key", "rotate", made["id"], "--json", "--data", self.server.data))
        self.assertEqual((status(made["key"]), status(again["key"])), (401, 200))
        self.assertEqual(again["id"], made["id"])
        self.hutch("key", "revoke", again["id"], "--data", self.server.data)
        self.assertEqual(status(again["key"]), 401)
        listed = self.hutch("key", "list", "--json", "--data", self.server.data)
        self.assertNotIn(again["key"], listed)
        self.assertIn(again["id"], listed)

    def test_a_listener_for_others_needs_a_key_first(self):
        place = support.Home()
        self.addCleanup(place.close)
        done = place.call("serve", "--listen", "0.0.0.0:0", "--data", os.path.join(place.directory, "new"), within=20)
        self.assertEqual(done.code, 125)
        self.assertIn("hutch key create", done.errors)


def take_interrupts() -> None:
    """In a child: also where whoever runs the tests ignores them."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


STUBBORN = ("import time\nprint('up', flush=True)\nwhile True:\n  try: time.sleep(60)\n"
            "  except KeyboardInterrupt: print('no', flush=True)")


class Interrupts(ApiScenario):
    """Ctrl-C, and input that the code asks for."""

    @classmethod
    def setUpClass(cls):
        cls.place = support.Home()
        cls.addClassCleanup(cls.place.close)
        cls.server = Server(cls.place).start()
        cls.addClassCleanup(cls.server.kill)

    def setUp(self):
        self.session = Client(self.server, None, unix=True).session()
        self.addCleanup(self.session.__exit__)

    def start(self, *arguments: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen:
        process = self.place.start(*arguments, env={"HUTCH_SERVER": "unix:" + self.server.socket}, stdin=stdin,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=take_interrupts)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def interrupt(self, process: subprocess.Popen, after: bytes) -> None:
        self.assertEqual(process.stdout.readline(), after)
        process.send_signal(signal.SIGINT)

    def test_a_program_of_its_own_is_cancelled(self):
        run = ("run", "--server", "unix:" + self.server.socket, "--template", "bare", "-c",
               "import time\nprint('up', flush=True)\ntime.sleep(60)")
        process = self.start(*run)
        self.interrupt(process, b"up\n")
        self.assertEqual(process.wait(20), 137)
        self.assertIn(b"cancelled", process.stderr.read())
        process = self.start(*run, "--json")
        api = self.session.client
        self.assertTrue(support.settle(lambda: api.get("/v1/runs?status=running").json["runs"]))
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=20)
        self.assertEqual((process.returncode, json.loads(out)["status"]), (137, "cancelled"))

    def test_a_cell_is_interrupted_and_its_session_stays(self):
        self.session.run("x = 41")
        process = self.start("session", "run", self.session.id, "-c",
                             "import time\nprint('up', flush=True)\ntime.sleep(60)")
        self.interrupt(process, b"up\n")
        self.assertEqual(process.wait(20), 1)
        self.assertIn(b"KeyboardInterrupt", process.stderr.read())
        self.assertEqual(self.session.run("x + 1")["result"]["mime"]["text/plain"], "42")

    def test_the_second_leaves(self):
        process = self.start("session", "run", self.session.id, "-c", STUBBORN)
        self.interrupt(process, b"up\n")
        self.interrupt(process, b"no\n")
        self.assertEqual(process.wait(20), 130)
        self.assertIn(b"goes on", process.stderr.read())
        self.assertEqual(self.session.show()["state"], "busy")

    def test_a_session_is_interrupted_and_restarted_by_commands(self):
        call = lambda *words: self.place.call("session", *words, env={  # noqa: E731
            "HUTCH_SERVER": "unix:" + self.server.socket}).text
        self.assertEqual(call("interrupt", self.session.id), "nothing runs\n")
        self.session.run("x = 41; open('f', 'w').write('kept')")
        process = self.start("session", "run", self.session.id, "-c",
                             "import time\nprint('up', flush=True)\ntime.sleep(60)")
        self.assertEqual(process.stdout.readline(), b"up\n")
        self.assertEqual(call("interrupt", self.session.id), "interrupted\n")
        self.assertEqual(process.wait(20), 1)
        self.assertEqual(json.loads(call("interrupt", self.session.id, "--json")), {"interrupted": False})
        self.assertEqual(call("restart", self.session.id), "restarted\n")
        after = self.session.run("print('x' in globals(), open('f').read())")
        self.assertEqual(after["stdout"], "False kept\n")
        done = self.place.call("session", "restart", "ses_" + "0" * 24, env={
            "HUTCH_SERVER": "unix:" + self.server.socket})
        self.assertEqual(done.code, 125)

    def test_what_is_piped_in_is_the_cells_input(self):
        done = self.place.call("session", "run", self.session.id, "-c",
                               "import sys; print(input()[::-1]); print(sys.stdin.read())", stdin=b"olleh\n1\n2",
                               env={"HUTCH_SERVER": "unix:" + self.server.socket})
        self.assertEqual((done.code, done.text), (0, "hello\n1\n2\n"), done.errors)

    def test_a_terminal_is_asked_for_a_line(self):
        ours, theirs = os.openpty()
        self.addCleanup(os.close, ours)
        process = self.start("session", "run", self.session.id, "-c",
                             "print('name?', flush=True)\nprint(input()[::-1])\nprint('and?', flush=True)\ninput()",
                             stdin=theirs)
        os.close(theirs)
        self.assertEqual(process.stdout.readline(), b"name?\n")
        os.write(ours, b"ada\n")
        self.assertEqual(process.stdout.readline(), b"ada\n")
        self.interrupt(process, b"and?\n")  # no line need come for the code to end
        self.assertEqual(process.wait(20), 1)

    def test_code_that_does_not_heed_an_interrupt_may_ask_again(self):
        ours, theirs = os.openpty()
        self.addCleanup(os.close, ours)
        process = self.start("session", "run", self.session.id, "-c",
                             "try:\n  print('name?', flush=True)\n  input()\nexcept KeyboardInterrupt: print('again?', "
                             "flush=True)\nprint(input()[::-1])", stdin=theirs)
        os.close(theirs)
        self.interrupt(process, b"name?\n")
        self.assertEqual(process.stdout.readline(), b"again?\n")
        os.write(ours, b"ada\n")
        self.assertEqual(process.wait(20), 0)
        self.assertEqual(process.stdout.read(), b"ada\n")

    def attach(self) -> subprocess.Popen:
        return self.start("session", "attach", self.session.id, stdin=subprocess.PIPE)

    @staticmethod
    def say(process: subprocess.Popen, text: bytes) -> None:
        process.stdin.write(text)
        process.stdin.flush()

    def test_cells_of_a_prompt_ask_for_lines(self):
        process = self.attach()
        out, errors = process.communicate(b"print(input()[::-1], input())\nada\nand b\nprint('next')\ninput()\n",
                                          timeout=30)
        self.assertEqual((process.returncode, out), (0, b"ada and b\nnext\n"), errors)
        self.assertIn(b"standard input has ended", errors)

    def test_a_cell_of_a_prompt_is_interrupted_and_the_prompt_stays(self):
        process = self.attach()
        self.say(process, b"import time; print('up', flush=True); time.sleep(60)\n")
        self.interrupt(process, b"up\n")
        self.say(process, b"print('again', flush=True); time.sleep(60)\n")
        self.interrupt(process, b"again\n")
        self.say(process, b"print('on')\n")
        self.assertEqual(process.stdout.readline(), b"on\n")

        def leaves() -> bool:  # when its end has been heard: then nothing runs
            process.send_signal(signal.SIGINT)
            return process.poll() is not None

        self.assertTrue(support.settle(leaves))
        self.assertEqual(process.wait(), 130)


class Relay:
    """Between the command and the daemon, on a Unix socket: breaks the connection where it is told to."""

    def __init__(self, place: support.Home, behind: str) -> None:
        self.path = os.path.join(place.directory, "relay.sock")
        self._behind = behind
        self.broken = threading.Event()
        self._open = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(self.path)
        self._listener.listen()
        self._threads = [threading.Thread(target=self._serve, daemon=True)]

    def break_after(self, marker: bytes) -> Relay:
        """The first connection ends behind the line in which this is; the next ones wait for open()."""
        self._marker = marker
        self._threads[0].start()
        return self

    def open(self) -> None:
        self._open.set()

    def _serve(self) -> None:
        client, _ = self._listener.accept()
        self._pass(client, self._marker)
        self.broken.set()
        self._open.wait()
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._pass, args=(client, None), daemon=True).start()

    def _pass(self, client: socket.socket, marker: bytes | None) -> None:
        with client, socket.socket(socket.AF_UNIX) as daemon:
            daemon.connect(self._behind)
            threading.Thread(target=self._copy, args=(client, daemon), daemon=True).start()
            seen = b""
            while data := daemon.recv(65536):
                client.sendall(data)
                seen += data
                if marker is not None and marker in seen and seen.endswith(b"\n"):
                    client.shutdown(socket.SHUT_RDWR)
                    return

    @staticmethod
    def _copy(client: socket.socket, daemon: socket.socket) -> None:
        try:
            while data := client.recv(65536):
                daemon.sendall(data)
            daemon.shutdown(socket.SHUT_WR)
        except OSError:
            pass  # the other direction has ended

    def close(self) -> None:
        self._listener.close()


class Losses(ApiScenario):
    """What the stream of events does not bring is fetched, and what cannot be had is told."""

    def setUp(self):
        self.place = support.Home()
        self.addCleanup(self.place.close)

    def serve(self, **environment: str) -> Server:
        server = Server(self.place, env=environment).start()
        self.addCleanup(server.kill)
        return server

    def hutch_run(self, at: str, code: str, *options: str) -> support.Done:
        return self.place.call("run", "--server", "unix:" + at, "--template", "bare", *options, "-c", code)

    def test_output_beyond_the_cap_is_shown(self):
        server = self.serve()
        done = self.hutch_run(server.socket, "import sys\nprint('x' + 'é' * 200_000)\n"
                              "for i in range(60_000): print(i, file=sys.stderr)\nprint('end')")
        self.assertEqual((done.code, done.out.decode()), (0, "x" + "é" * 200_000 + "\nend\n"))
        self.assertEqual(done.errors, "".join("%d\n" % i for i in range(60_000)))
        session = Client(server, None, unix=True).session().id
        done = self.place.call("session", "run", session, "-c", "for i in range(60_000): print(i)",
                               env={"HUTCH_SERVER": "unix:" + server.socket})
        self.assertEqual((done.code, done.text), (0, "".join("%d\n" % i for i in range(60_000))))

    def test_output_that_is_not_kept_is_told(self):
        server = self.serve(HUTCH_SERVE_LOG_CAP="300000")
        done = self.hutch_run(server.socket, "print('x' * 1_000_000)")
        self.assertEqual((done.code, done.out), (125, b"x" * 300_000))
        self.assertIn("683.6 KiB of standard output are missing", done.errors)
        done = self.hutch_run(server.socket, "print('x' * 1_000_000); raise SystemExit(3)")
        self.assertEqual(done.code, 3)

    def test_output_that_is_no_text_is_told(self):
        server = self.serve()
        done = self.hutch_run(server.socket, "import os; os.write(1, b'a\\xffb')")
        self.assertEqual((done.code, done.out.decode()), (0, "a\ufffdb"))
        self.assertIn("is not UTF-8", done.errors)

    def started_through(self, relay: Relay, code: str, *options: str) -> subprocess.Popen:
        self.addCleanup(relay.close)
        process = self.place.start("run", "--server", "unix:" + relay.path, "--template", "bare", *options, "-c", code,
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        self.assertTrue(relay.broken.wait(20))
        return process

    def finish(self, process: subprocess.Popen) -> tuple[int, str, str]:
        out, errors = process.communicate(timeout=40)
        return process.returncode, out.decode(), errors.decode()

    def test_a_stream_that_breaks_is_taken_up_again(self):
        server = self.serve()
        relay = Relay(self.place, server.socket).break_after(b'"stdout"')
        code = "import time\nfor i in range(20): print(i, flush=True); time.sleep(.02)\nopen('f', 'w').write('left')"
        with self.place.folder() as results:
            process = self.started_through(relay, code, "--out", results)
            relay.open()
            self.assertEqual(self.finish(process)[:2], (0, "".join("%d\n" % i for i in range(20))))
            with open(os.path.join(results, "f")) as file:
                self.assertEqual(file.read(), "left")

    def test_what_a_daemon_that_was_restarted_has_not_told_is_taken_from_the_run(self):
        server = self.serve()
        relay = Relay(self.place, server.socket).break_after(b'"stdout"')
        process = self.started_through(relay, "import sys, time\nprint('one', flush=True); time.sleep(.3)\n"
                                       "print('zwei', file=sys.stderr); display('x'); 'three'", "--cell")
        client = Client(server, None, unix=True)
        run = client.get("/v1/runs").json["runs"][0]["execution_id"]
        self.assertEqual(client.get("/v1/runs/%s?wait_ms=20000" % run).json["status"], "ok")
        server.stop()
        server.start()
        relay.open()
        self.assertEqual(self.finish(process), (0, "one\n'x'\n'three'\n", "zwei\n"))

    def test_files_that_cannot_be_brought_out_are_told(self):
        server = self.serve()
        with self.place.folder() as results:
            os.mkdir(os.path.join(results, "b"))
            with open(os.path.join(results, "b", "in the way"), "w"):
                pass
            done = self.hutch_run(server.socket, "for name in 'abc': open(name, 'w').write(name)", "--out", results)
            self.assertEqual(done.code, 125)
            self.assertIn("left behind: b: ", done.errors)
            self.assertEqual(sorted(os.listdir(results)), ["a", "b", "c"])
        with self.place.folder() as results:
            done = self.hutch_run(server.socket, "for i in range(1_001): open('%d' % i, 'w')", "--out", results,
                                  "--quiet")
            self.assertEqual((done.code, len(os.listdir(results))), (125, 1_000))
            self.assertIn("more files than are listed", done.errors)


class Public(ApiScenario):
    def test_on_loopback_a_key_starts_as_many_runs_as_it_likes(self):
        place = support.Home()
        self.addCleanup(place.close)
        server = Server(place).start()
        self.addCleanup(server.stop)
        for _ in range(11):
            server.client().run("1")

    def test_a_key_without_a_limit_of_its_own_starts_ten_runs_a_minute_beyond_loopback(self):
        if os.geteuid() != 0:
            support.missing("root, which a network namespace of its own takes")
        place = support.Home()
        self.addCleanup(place.close)
        place.prefix = ["unshare", "--net"]  # all of its addresses are reached by nobody; we come through the file
        server = Server(place)
        usual, free = (server.new_client(name, *options) for name, options in (
            ("usual", ()), ("free", ("--runs-per-minute", "0"))))
        ready = os.path.join(place.directory, "ready.json")
        process = place.start("serve", "--listen", "0.0.0.0:0", "--socket", server.socket, "--data", server.data,
                              "--ready-file", ready, "--log", server.data + ".log", stdin=subprocess.DEVNULL)
        self.addCleanup(process.wait, 20)
        self.addCleanup(process.terminate)
        self.assertTrue(support.settle(lambda: os.path.exists(ready)))
        usual, free, owner = (Client(server, key, unix=True) for key in (usual.key, free.key, None))
        for _ in range(10):
            usual.run("1")
        for path, data in (("/v1/run", {"code": "1"}), ("/v1/sessions", {})):
            self.check_error(usual.call("POST", path, data), 429, "rate_limited", "rate_limited", "10 runs a minute")
        for unlimited in (free, owner):
            for _ in range(11):
                unlimited.run("1")


class Secure(ApiScenario):
    def start_with_tls(self, place: support.Home) -> Server:
        certificate, key = (os.path.join(place.directory, name) for name in ("certificate.pem", "key.pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj", "/CN=localhost",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", key, "-out", certificate],
                       check=True, capture_output=True)
        server = Server(place, "--tls-certificate", certificate, "--tls-key", key,
                        trust=ssl.create_default_context(cafile=certificate))
        self.addCleanup(server.start().stop)
        return server

    def check_websocket(self, client: Client) -> None:
        """Messages that need several records of TLS, in both directions, and an end that the client is told."""
        with client.session() as session, client.socket_to(session.at + "/stream") as socket:
            self.assertEqual(socket.status, 101)
            socket.send({"type": "run", "id": "a", "code": "print('%s')" % ("x" * 200_000)})
            messages = socket.until("finished")
            self.assertIn("accepted", [message["type"] for message in messages])
            self.assertEqual(messages[-1]["result"]["stdout"], "x" * 200_000 + "\n")
            client.delete(session.at)
            socket.until("session", state="ended")
            self.assertIsNone(socket.receive())

    def test_tls_with_a_certificate_from_a_file(self):
        place = support.Home()
        self.addCleanup(place.close)
        server = self.start_with_tls(place)
        self.assertEqual(server.client().get("/healthz").json, {"status": "ok"})
        self.check_websocket(server.client())
        plain = http.client.HTTPConnection(server.host, server.port, timeout=10)
        self.addCleanup(plain.close)
        with self.assertRaises((http.client.HTTPException, OSError)):
            plain.request("GET", "/healthz")
            plain.getresponse()


if __name__ == "__main__":
    support.main()
