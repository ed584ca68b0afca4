"""The engine's socket, spoken to by an independent client, and by clients that no honest program would be."""
from __future__ import annotations

import contextlib
import os
import random
import socket
import struct
import time
import unittest

import engine_protocol as protocol
import support
from engine_protocol import Client, HungUp, Limits, Request, frame
from support import Scenario


def setUpModule() -> None:
    support.begin()
    support.home.run("1")


tearDownModule = support.finish


class Protocol(Scenario):
    def connect(self, seconds: float = 20) -> Client:
        return Client(self.home.runtime + "/engine.sock", seconds)

    def check_survived(self) -> None:
        """The same engine is there and works."""
        self.assertEqual(self.home.status().get("pid"), self.engine)
        with self.connect() as client:
            client.hello()
            self.assertEqual(client.run(Request("print(6 * 7)")).out, b"42\n")

    def setUp(self) -> None:
        if not self.home.status()["running"]:
            self.check_alive()
        self.engine = self.home.status()["pid"]


class Honest(Protocol):
    def test_a_run(self):
        with self.connect() as client:
            self.assertEqual(client.hello()["pid"], self.engine)
            outcome = client.run(Request("import sys; print(input()); print(2, file=sys.stderr); "
                                         "open('o', 'w').write(open('i').read() * 2); sys.exit(3)", want_files=True),
                                 b"line\n", {"i": "in"})
            self.assertEqual((outcome.out, outcome.err), (b"line\n", b"2\n"))
            self.assertEqual((outcome.record["exit_code"], outcome.record["warm"]), (3, True))
            self.assertEqual(outcome.record["error"]["category"], "system_exit")
            self.assertEqual(outcome.files, {b"o": ("created", b"inin")})
            again = client.run(Request("print(1)"))
            self.assertEqual(again.out, b"1\n")

    def test_status(self):
        with self.connect() as client:
            self.assertEqual(client.status()["pid"], self.engine)

    def test_another_binary_is_told_so(self):
        with self.connect() as client:
            self.assertFalse(client.hello("another")["current"])
        self.check_survived()

    def test_limits_are_checked_again(self):
        for limits in (Limits(wall_ms=0), Limits(wall_ms=1 << 60), Limits(memory=0), Limits(memory=1 << 62),
                       Limits(processes=0), Limits(processes=1 << 31), Limits(scratch=0), Limits(output=0),
                       Limits(output=1 << 60), Limits(cpu_percent=0), Limits(open_files=0), Limits(inodes=0),
                       Limits(cpu_ms=0), Limits(wall_ms=(1 << 64) - 1)):
            with self.connect() as client:
                client.hello()
                self.assertEqual(client.run(Request("1", limits=limits)).failed["code"], "bad_arguments", limits)
        self.check_survived()

    def test_names_are_checked_again(self):
        for files in ({"../x": "1"}, {"/etc/x": "1"}, {"a/../b": "1"}, {"": "1"}, {"a\0b": "1"}, {"x" * 5000: "1"}):
            with self.connect() as client:
                client.hello()
                self.assertEqual(client.run(Request("1"), files=files).failed["code"], "bad_arguments", files)
        for request in (Request("1", template="nosuch"), Request("1", fault="nosuch"),
                        Request("1", environment=(("A=B", "x"),)), Request("1", environment=(("A", "x\0"),)),
                        Request("1", arguments=("a\0",)), Request("1", environment=(("A", "x"),) * 300)):
            with self.connect() as client:
                client.hello()
                self.assertIsNotNone(client.run(request).failed, request)
        self.check_survived()


class Hostile(Protocol):
    def check_hung_up(self, client: Client) -> None:
        with self.assertRaises((HungUp, BrokenPipeError, ConnectionResetError)):
            while True:
                client.receive()

    def test_garbage(self):
        generator = random.Random(5)
        for size in (1, 4, 5, 17, 4096, 100_000):
            with self.connect() as client:
                with self.subTest(size):
                    try:
                        client.send(b"\xff" * 4 + generator.randbytes(size))
                        self.check_hung_up(client)
                    except BrokenPipeError:
                        pass
        self.check_survived()

    def test_lengths_that_cannot_be(self):
        for length in (0, 0xFFFFFFFF, (24 << 20) + 1, 1 << 31):
            with self.connect() as client:
                client.send(struct.pack("<IB", length, protocol.HELLO))
                self.check_hung_up(client)
        self.check_survived()

    def test_counts_inside_a_message_that_cannot_be(self):
        for payload in (struct.pack("<I", 1) + struct.pack("<I", 0xFFFFFFFF), b"", b"\1", b"\0" * 100):
            with self.connect() as client:
                client.send(frame(protocol.HELLO, payload))
                self.check_hung_up(client)
        good = Request("1").encode()
        for payload in (good[:-1], good + b"x", good[:20], b"\xff" * len(good)):
            with self.connect() as client:
                client.hello()
                with open("/dev/null") as null, contextlib.suppress(BrokenPipeError):
                    client.send(frame(protocol.RUN, payload), (null.fileno(),))
                self.check_hung_up(client)
        self.check_survived()

    def test_every_kind_out_of_order(self):
        for kind in (*range(0, 12), 64, 69, 255):
            with self.connect(0.3) as client:
                client.send(frame(kind) if kind not in (protocol.STOP,) else b"")
                try:
                    client.receive()
                except (HungUp, TimeoutError):
                    pass
        self.check_survived()

    def test_a_run_without_a_descriptor(self):
        with self.connect() as client:
            client.hello()
            client.send(frame(protocol.RUN, Request("print(1)").encode()) + frame(protocol.GO))
            self.check_hung_up(client)
        self.check_survived()

    def test_a_run_without_hello(self):
        with self.connect() as client:
            self.assertEqual(client.run(Request("print(1)")).out, b"1\n")
        self.check_survived()

    def test_too_many_descriptors(self):
        before = support.idle_counts(self.home)
        with open("/dev/null") as null:
            for count in (2, 5, 30, 200):
                with self.connect() as client:
                    try:
                        client.send(frame(protocol.STATUS), (null.fileno(),) * count)
                        client.receive()
                    except (HungUp, BrokenPipeError, OSError):
                        pass
        self.check_survived()
        self.assertEqual(support.idle_counts(self.home), before)

    def test_a_descriptor_that_is_no_pipe(self):
        pair = socket.socketpair()
        opened = [os.open("/", os.O_RDONLY), os.open("/dev/null", os.O_WRONLY)]
        for fd in (pair[0].fileno(), *opened):
            with self.connect() as client:
                client.hello()
                client.send(frame(protocol.RUN, Request("import os; print(os.listdir('/proc/self/fd'))").encode()), (fd,))
                client.send(frame(protocol.GO))
                outcome = client.outcome()
                self.assertTrue(outcome.record or outcome.failed)
        for end in pair:
            end.close()
        for fd in opened:
            os.close(fd)
        self.check_survived()

    def test_a_directory_as_standard_input_is_no_way_out(self):
        """The caller chooses its own input; even then the sandbox may not walk through it."""
        fd = os.open("/", os.O_RDONLY | os.O_DIRECTORY)
        try:
            with self.connect() as client:
                client.hello()
                code = "import os\ntry: print(os.listdir(0))\nexcept OSError as e: print('no', e.errno)\n" \
                       "try: print(os.open('root', os.O_RDONLY, dir_fd=0))\nexcept OSError as e: print('no', e.errno)"
                client.send(frame(protocol.RUN, Request(code).encode()), (fd,))
                client.send(frame(protocol.GO))
                outcome = client.outcome()
        finally:
            os.close(fd)
        self.assertTrue(outcome.failed or outcome.out.startswith(b"no"), outcome)

    def test_half_a_frame_and_goodbye(self):
        whole = frame(protocol.RUN, Request("print(1)").encode())
        for size in (1, 3, 4, 5, 50, len(whole) - 1):
            with self.connect() as client:
                client.send(whole[:size])
        self.check_survived()

    def test_one_byte_at_a_time(self):
        with self.connect() as client:
            for byte in frame(protocol.STATUS):
                client.send(bytes((byte,)))
                time.sleep(0.002)
            self.assertEqual(client.receive()[0], protocol.STATUS_REPLY)

    def test_hanging_up_during_a_run_ends_the_sandbox(self):
        for ending in (lambda c: c.close(), lambda c: c.socket.shutdown(socket.SHUT_RDWR),
                       lambda c: c.send(b"\xff" * 100), lambda c: c.send(frame(protocol.CANCEL)),
                       lambda c: c.send(frame(protocol.HELLO, b"again"))):
            client = self.connect()
            client.hello()
            client.begin(Request("print('up', flush=True)\nwhile True: pass"))
            self.assertEqual(client.receive()[0], protocol.OUTPUT)
            ending(client)
            gone = support.settle(lambda: self.home.status()["running_now"] == 0, 3)
            client.close()
            self.assertTrue(gone)
        self.check_survived()

    def test_hanging_up_at_once(self):
        for _ in range(30):
            client = self.connect()
            client.hello()
            client.begin(Request("import time; time.sleep(30)"))
            client.close()
        self.assertTrue(support.settle(lambda: self.home.status()["running_now"] == 0, 5))
        self.check_survived()

    def test_a_cell_that_cannot_be_read_ends_its_session(self):
        with self.connect() as client:
            client.hello()
            client.begin(Request(mode=1))
            client.send(protocol.cell("x = 1"))
            self.assertEqual(client.receive()[0], protocol.CELL_DONE)
            client.send(frame(protocol.CELL, protocol.text("x = 2")))  # without its time limit
            self.assertEqual(client.outcome().record["status"], "cancelled")
        self.check_survived()

    def test_a_client_that_does_not_read(self):
        """The engine holds at most the output limit for it, and others are served."""
        client = self.connect()
        client.hello()
        client.begin(Request("print('x' * (7 << 20))"))
        self.check_survived()
        client.close()

    def test_many_silent_clients(self):
        clients = [self.connect() for _ in range(100)]
        self.check_survived()
        for client in clients:
            client.close()
        self.check_survived()

    def test_more_files_than_may_wait(self):
        with self.connect() as client:
            client.hello()
            with open("/dev/null") as null:
                client.send(frame(protocol.RUN, Request("1").encode()), (null.fileno(),))
            piece = frame(protocol.PUT_FILE, protocol.text("f") + b"\1\0" + protocol.text(b"x" * (1 << 20)))
            with self.assertRaises((HungUp, BrokenPipeError, ConnectionResetError)):
                for _ in range(80 * 1024):
                    client.send(piece)
        self.assertLess(support.resident_bytes(self.engine), 200 << 20)
        self.check_survived()

    def test_census_after_all_this(self):
        before = support.idle_counts(self.home)
        for test in (self.test_hanging_up_at_once, self.test_half_a_frame_and_goodbye, self.test_too_many_descriptors):
            test()
        self.assertEqual(support.idle_counts(self.home), before)


if __name__ == "__main__":
    support.main()
