"""The porter: files change whole or not at all, inside the workspace only, whatever the program does beside it."""
from __future__ import annotations

import os
import resource
import signal
import stat
import struct
import threading
from pathlib import Path

from porter_support import ABORT, DATA, END, MKDIR, NEXT_FILE, WRITE, WRITE_FILES, PorterTest, porter, wire
from support import frame, text

NOTHING = (False, 0, 0)


class WriteFilesTest(PorterTest):
    def content(self) -> dict[str, bytes]:
        return {path: (self.inside / path).read_bytes() for path in self.tree() if (self.inside / path).is_file()}

    def test_several_files_are_made_and_replaced(self) -> None:
        big = os.urandom(2_500_000)
        self.porter.write("old", b"before", executable=True)
        self.assertEqual(self.porter.write_files(("a/b/big", big), ("old", b"new"), ("a/empty", b"")),
                         (True, 3, len(big) + 3))
        self.assertEqual(self.content(), {"a/b/big": big, "old": b"new", "a/empty": b""})
        self.assertEqual(stat.S_IMODE((self.inside / "old").stat().st_mode), 0o644)
        self.assertEqual(self.porter.write_files(("old", b"newer")), (False, 1, 5))
        self.assertEqual(self.porter.write_files(("twice", b"1"), ("twice", b"22")), (True, 2, 3))
        self.assertEqual((self.inside / "twice").read_bytes(), b"22")
        self.assertEqual(self.porter.write_files(), NOTHING)
        self.assertEqual(self.tree(), ["a", "a/b", "a/b/big", "a/empty", "old", "twice"])

    def test_nothing_is_seen_of_them_before_the_end(self) -> None:
        self.porter.say(WRITE_FILES)
        self.porter.say(NEXT_FILE, text("d/f"))
        self.porter.data(b"x")
        self.porter.say(NEXT_FILE, text("g"))
        self.porter.data(b"y")
        self.wait_for(lambda: len(self.tree()) == 3)
        self.assertTrue(all(name.startswith(".hutch-") for name in self.tree()))
        self.porter.say(END)
        self.assertEqual(self.porter.answer(), (True, 2, 2))
        self.assertEqual(self.tree(), ["d", "d/f", "g"])

    def test_when_one_fails_everything_is_as_it_was(self) -> None:
        (self.inside / "directory").mkdir()
        (self.inside / "link").symlink_to(self.outside)
        os.mkfifo(self.inside / "fifo")
        self.porter.write("old", b"before", executable=True)
        before = self.tree()
        for bad, code in (("directory", "is_directory"), ("", "is_directory"), ("fifo", "not_a_file"),
                          ("link", "not_a_file"), ("link/x", "invalid_path"), ("old/x", "invalid_path"),
                          ("../x", "invalid_path"), ("new", "is_directory"), ("x" * 256, "invalid_path")):
            last = ("new/sub", b"x") if bad == "new" else ("after", b"x")
            with self.subTest(bad):
                self.assertEqual(self.porter.write_files(("old", b"new"), ("made/f", b"x"), (bad, b"x"), last), code)
                self.assertEqual((self.tree(), self.content()), (before, {"old": b"before"}))
                self.assertEqual(stat.S_IMODE((self.inside / "old").stat().st_mode), 0o755)
        self.assertEqual(self.porter.write_files(("old", b"new"), ("made/f", b"x"), last=ABORT), NOTHING)
        self.porter.say(WRITE_FILES)
        self.porter.say(ABORT)
        self.assertEqual(self.porter.answer(), NOTHING)
        self.assertEqual((self.tree(), self.content()), (before, {"old": b"before"}))
        self.assertEqual(self.porter.write_files(("old", b"new")), (False, 1, 3), "it goes on working")

    def test_what_was_moved_is_put_back_when_the_program_is_in_the_way(self) -> None:
        """After everything was checked, the last one finds a directory in its place."""
        def make_one_in_the_way() -> None:
            rename = os.rename

            def renamed(old: str, new: str, **places: int) -> None:
                if new == "last":
                    os.mkdir(self.inside / "last")
                rename(old, new, **places)
            os.rename = renamed

        racing = self.start_porter(prepare=make_one_in_the_way)
        racing.write("old", b"before")
        self.assertEqual(racing.write_files(("old", b"1"), ("old", b"2"), ("made/new", b"3"), ("new", b"4"),
                                            ("new", b"5"), ("last", b"6")), "is_directory")
        self.assertEqual((self.tree(), self.content()), (["last", "old"], {"old": b"before"}))

    def test_the_engine_keeps_to_the_order(self) -> None:
        for frames in ((WRITE_FILES, b""), (DATA, b"x")), ((WRITE, text("f") + b"\0\0"), (NEXT_FILE, text("g"))):
            porter = self.start_porter()
            for kind, payload in frames:
                porter.say(kind, payload)
            self.assertIsNone(porter.receive())
        self.assertEqual(self.tree(), [])


class WriteTest(PorterTest):
    def mode(self, path: str) -> int:
        return stat.S_IMODE((self.inside / path).stat().st_mode)

    def test_a_file_is_made_and_replaced(self) -> None:
        big = os.urandom(3_000_000)
        self.assertEqual(self.porter.write("a/b/c.bin", big), (True, 1, len(big)))
        self.assertEqual((self.inside / "a/b/c.bin").read_bytes(), big)
        self.assertEqual((self.mode("a/b/c.bin"), self.mode("a"), self.mode("a/b")), (0o644, 0o755, 0o755))
        self.assertEqual(self.porter.write("a/b/c.bin", b"x", b"", b"y", executable=True), (False, 1, 2))
        self.assertEqual((self.inside / "a/b/c.bin").read_bytes(), b"xy")
        self.assertEqual(self.mode("a/b/c.bin"), 0o755)
        self.assertEqual(self.porter.write("empty"), (True, 1, 0))
        self.assertEqual(self.tree(), ["a", "a/b", "a/b/c.bin", "empty"])

    def test_a_name_need_not_be_utf8(self) -> None:
        self.porter.say(WRITE, text(b"\xff\xc3") + b"\0\0")
        self.porter.say(END)
        self.assertEqual(self.porter.answer(), (True, 1, 0))
        self.assertEqual(os.listdir(os.fsencode(self.inside)), [b"\xff\xc3"])

    def test_readers_see_the_old_file_until_the_end(self) -> None:
        self.porter.write("f", b"old")
        self.porter.say(WRITE, text("f") + b"\0\0")
        self.porter.data(b"new")
        self.wait_for(lambda: len(self.tree()) == 2)
        hidden = next(name for name in self.tree() if name != "f")
        self.assertTrue(hidden.startswith(".hutch-") and len(hidden) == 39)
        self.assertEqual(stat.S_IMODE((self.inside / hidden).stat().st_mode), 0o600)
        self.assertEqual((self.inside / "f").read_bytes(), b"old")
        self.porter.say(END)
        self.assertEqual(self.porter.answer(), (False, 1, 3))
        self.assertEqual(self.tree(), ["f"])

    def test_exclusive_replaces_nothing(self) -> None:
        self.assertEqual(self.porter.write("f", b"1", exclusive=True), (True, 1, 1))
        self.assertEqual(self.porter.write("f", b"2", exclusive=True), "already_exists")
        self.porter.say(WRITE, text("late") + b"\0\1")
        self.porter.data(b"3")
        self.wait_for(lambda: len(self.tree()) == 2)
        (self.inside / "late").write_text("first")
        self.porter.say(END)
        self.assertEqual(self.porter.answer(), "already_exists")
        self.assertEqual((self.inside / "late").read_text(), "first")
        self.assertEqual((self.inside / "f").read_bytes(), b"1")
        self.assertEqual(self.tree(), ["f", "late"])

    def test_only_a_regular_file_is_replaced(self) -> None:
        (self.inside / "directory").mkdir()
        os.mkfifo(self.inside / "fifo")
        (self.inside / "link").symlink_to(self.outside / "secret")
        (self.inside / "dangling").symlink_to(self.outside / "new")
        self.assertEqual(self.porter.write("directory", b"x"), "is_directory")
        self.assertEqual(self.porter.write("", b"x"), "is_directory")
        for name in ("fifo", "link", "dangling"):
            self.assertEqual(self.porter.write(name, b"x"), "not_a_file")
        self.assertEqual(self.tree(), ["dangling", "directory", "fifo", "link"])

    def test_paths_stay_below_and_do_not_pass_links(self) -> None:
        (self.inside / "link").symlink_to(self.outside)
        (self.inside / "file").write_text("x")
        bad = ("/etc/x", "../x", "a/../x", "a//b", "./a", "a/", "a/.", "link/x", "link/deep/x", "file/x", "a\0b",
               "a/" * 3000 + "b", "n" * 256)
        for path in bad:
            with self.subTest(path=path[:20]):
                self.assertEqual(self.porter.write(path, b"x"), "invalid_path")
                self.assertEqual(self.porter.remove(path, True), "invalid_path")
                self.assertEqual(self.porter.move("file", path), "invalid_path")
                self.assertEqual(self.porter.mkdir(path), "invalid_path")
        self.assertEqual(self.tree(), ["file", "link"])

    def test_an_abort_leaves_nothing(self) -> None:
        (self.inside / "kept").mkdir()
        self.assertEqual(self.porter.write("kept/a/b/f", b"x" * 100, last=ABORT), NOTHING)
        self.assertEqual(self.tree(), ["kept"])
        self.porter.say(ABORT)  # one that crossed an answer is not a request
        self.assertEqual(self.porter.write("f", b"x"), (True, 1, 1))

    def test_hanging_up_leaves_nothing(self) -> None:
        for sent in (frame(DATA, b"x" * 1000), frame(DATA, b"x" * 1000)[:500], b""):
            porter = self.start_porter()
            porter.end.sendall(frame(WRITE, text("a/f") + b"\0\0") + sent)
            self.wait_for(lambda: len(self.tree()) == 2)
            self.assertEqual(porter.wait(), 0)
            self.assertEqual(self.tree(), [])

    def test_a_failure_is_answered_once_and_at_once(self) -> None:
        (self.inside / "d").mkdir()
        for last in (END, ABORT):
            self.porter.say(WRITE, text("d") + b"\0\0")
            self.assertEqual(self.porter.answer(), "is_directory")
            self.porter.data(b"x" * 3_000_000)
            self.porter.say(last)
            self.assertEqual(self.porter.mkdir("d"), NOTHING)

    def test_a_full_disk_leaves_nothing(self) -> None:
        limit = 1 << 20
        porter = self.start_porter(lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
        self.assertEqual(porter.write("a/f", b"x" * (limit + 1)), "disk_full")
        self.assertEqual(self.tree(), [])
        self.assertEqual(porter.write("a/f", b"x" * limit), (True, 1, limit))

    def test_what_is_no_request_ends_the_porter(self) -> None:
        for sent in (frame(99, b""), frame(DATA, b"x"), frame(WRITE, b"\1"), frame(MKDIR, text("a") + b"x"),
                     frame(WRITE, text("a/b") + b"\0\0") + frame(MKDIR, text("x")),
                     frame(WRITE, text("a/b") + b"\0\0") + struct.pack("<IB", (1 << 20) + 2, DATA)):
            porter = self.start_porter()
            porter.end.sendall(sent)
            self.assertIsNone(porter.receive())
            self.assertEqual(porter.wait(), 125)
        self.assertEqual(self.tree(), [])

    def test_requests_may_come_together_with_the_task_before(self) -> None:
        porter = self.start_porter(first=wire.Channel.receive)
        data = os.urandom(5000)
        porter.end.sendall(frame(6, b"") + frame(MKDIR, text("a/b")) + frame(WRITE, text("a/f") + b"\0\0") +
                           frame(DATA, data) + frame(DATA, data)[:100])
        self.assertEqual(porter.answer(), (True, 2, 0))
        porter.end.sendall(frame(DATA, data)[100:] + frame(END, b""))
        self.assertEqual(porter.answer(), (True, 1, 10_000))
        self.assertEqual((self.inside / "a/f").read_bytes(), data * 2)

    def test_an_interrupt_is_not_for_the_porter(self) -> None:
        self.porter.say(WRITE, text("f") + b"\0\0")
        self.porter.data(b"x")
        self.wait_for(self.tree)
        os.kill(self.porter.pid, signal.SIGINT)
        self.porter.say(END)
        self.assertEqual(self.porter.answer(), (True, 1, 1))

    def test_it_has_no_more_rights_than_its_user(self) -> None:
        if os.getuid() != 0:
            self.skipTest("not root: cannot become another user")
        for path in (self.workspace, self.inside):
            path.chmod(0o755)
        closed = self.inside / "closed"
        closed.mkdir(mode=0o755)
        (closed / "f").write_text("x")
        porter = self.start_porter(lambda: os.setuid(65534))
        self.assertEqual(porter.write("closed/g", b"x"), "permission_denied")
        self.assertEqual(porter.write("closed/f", b"x"), "permission_denied")
        self.assertEqual(porter.remove("closed/f"), "permission_denied")
        self.assertEqual(porter.remove("closed", True), "permission_denied")
        self.assertEqual(porter.mkdir("closed/a/b"), "permission_denied")
        self.assertEqual(porter.move("closed/f", "closed/g"), "permission_denied")
        self.assertEqual(self.tree(), ["closed", "closed/f"])

    def test_a_program_that_swaps_a_directory_with_a_link_gains_nothing(self) -> None:
        """tearDown looks at what is outside."""
        real, link = self.inside / "d", self.inside / "link"
        (real / "e").mkdir(parents=True)
        (self.outside / "e").mkdir()
        link.symlink_to(self.outside)
        stop = threading.Event()

        def swap() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                spare = self.inside / ("spare%d" % number)
                for old, new in ((real, spare), (link, real), (real, link), (spare, real)):
                    try:
                        os.rename(old, new)
                    except OSError:  # the porter has made a directory meanwhile
                        pass

        program = threading.Thread(target=swap)
        program.start()
        try:
            seen = {str(self.porter.write("d/e/f%d" % n, b"x", exclusive=n % 2)) for n in range(2000)}
            seen |= {str(self.porter.mkdir("d/e/m%d" % n)) for n in range(500)}
            seen |= {str(self.porter.remove("d/e/f%d" % n)) for n in range(2000)}
        finally:
            stop.set()
            program.join()
        self.assertGreater(len(seen & {"(True, 1, 1)", "(True, 1, 0)", "(False, 1, 0)"}), 1)
        self.assertIn("invalid_path", seen)
        self.assertEqual(list((self.outside / "e").iterdir()), [])
        (self.outside / "e").rmdir()
        self.assertEqual([name for name in self.tree() if ".hutch" in name], [])


class ChangeTest(PorterTest):
    def test_directories_are_made_with_their_parents(self) -> None:
        self.assertEqual(self.porter.mkdir("a/b/c"), (True, 3, 0))
        self.assertEqual(self.porter.mkdir("a/b"), NOTHING)
        self.assertEqual(self.porter.mkdir(""), NOTHING)
        (self.inside / "f").write_text("x")
        self.assertEqual(self.porter.mkdir("f"), "already_exists")
        self.assertEqual(stat.S_IMODE((self.inside / "a/b/c").stat().st_mode), 0o755)

    def test_files_links_and_empty_directories_are_removed(self) -> None:
        (self.inside / "d").mkdir()
        (self.inside / "d/f").write_text("x")
        (self.inside / "link").symlink_to(self.outside)
        os.mkfifo(self.inside / "fifo")
        self.assertEqual(self.porter.remove("d"), "not_empty")
        for path in ("d/f", "d", "fifo"):
            self.assertEqual(self.porter.remove(path), (False, 1, 0))
        self.assertEqual(self.porter.remove("link", True), (False, 1, 0))
        self.assertEqual(self.porter.remove("d"), "file_not_found")
        self.assertEqual(self.porter.remove("d/x"), "file_not_found")
        self.assertEqual(self.porter.remove("", True), "invalid_path")
        self.assertEqual(self.tree(), [])

    def test_a_tree_of_any_depth_is_removed(self) -> None:
        top = self.inside / "top"
        for number in range(5):
            (top / str(number) / "x" / "y").mkdir(parents=True)
            (top / str(number) / "x" / "y" / "f").write_text("x")
            (top / str(number) / "x" / "link").symlink_to(self.outside)
        self.deepen(top, 3000)
        self.assertEqual(self.porter.remove("top", True), (False, 1 + 5 * 5 + 3000, 0))
        self.assertEqual(self.tree(), [])

    def test_removing_takes_only_so_long(self) -> None:
        (self.inside / "d/e").mkdir(parents=True)
        hurried = self.start_porter(lambda: porter.Removal.remove.__globals__.update(REMOVE_SECONDS=-1))
        self.assertEqual(hurried.remove("d", True), "io_error")

    def test_a_program_that_swaps_directories_gets_nothing_outside_removed(self) -> None:
        stop = threading.Event()
        victim = str(self.inside / "d/e")

        def swap() -> None:
            number = 0
            while not stop.is_set():
                number += 1
                spare, link = (str(self.inside / ("%s%d" % (name, number))) for name in ("spare", "link"))
                os.symlink(self.outside, link)
                for step in ((os.rename, victim, spare), (os.rename, link, victim), (os.unlink, victim),
                             (os.rename, spare, victim)):
                    try:
                        step[0](*step[1:])
                    except OSError:  # it is removed already
                        pass

        program = threading.Thread(target=swap)
        program.start()
        try:
            for _ in range(300):
                self.porter.mkdir("d/e/f/g")  # or through the link it would be our own doing
                self.porter.remove("d", True)
        finally:
            stop.set()
            program.join()

    def deepen(self, top: Path, levels: int) -> None:
        here = os.open(top, os.O_RDONLY)
        for _ in range(levels):
            os.mkdir("deep", dir_fd=here)
            below = os.open("deep", os.O_RDONLY, dir_fd=here)
            os.close(here)
            here = below
        os.close(here)

    def test_a_move_replaces_only_when_asked(self) -> None:
        for name in ("f", "g"):
            (self.inside / name).write_text(name)
        (self.inside / "d/sub").mkdir(parents=True)
        (self.inside / "empty").mkdir()
        (self.inside / "link").symlink_to(self.outside)
        self.assertEqual(self.porter.move("f", "g"), "already_exists")
        self.assertEqual(self.porter.move("d", "empty"), "already_exists")
        self.assertEqual(self.porter.move("f", "f"), "already_exists")
        self.assertEqual(self.porter.move("f", "new/place/f"), (True, 1, 0))
        self.assertEqual(self.porter.move("new/place/f", "g", True), (False, 1, 0))
        self.assertEqual((self.inside / "g").read_text(), "f")
        self.assertEqual(self.porter.move("g", "d", True), "is_directory")
        self.assertEqual(self.porter.move("d", "g", True), "already_exists")
        self.assertEqual(self.porter.move("empty", "d", True), "not_empty")
        self.assertEqual(self.porter.move("d", "d/sub/d"), "invalid_path")
        self.assertEqual(self.porter.move("none", "a/b/c"), "file_not_found")
        self.assertEqual(self.porter.move("", "x"), "invalid_path")
        self.assertEqual(self.porter.move("x", ""), "invalid_path")
        self.assertEqual(self.porter.move("d", "e"), (True, 1, 0))
        self.assertEqual(self.porter.move("link", "moved"), (True, 1, 0))
        self.assertEqual(os.readlink(self.inside / "moved"), str(self.outside))
        self.assertEqual(self.porter.move("g", "moved", True), (False, 1, 0))  # the link, not what it points to
        self.assertEqual(self.tree(), ["e", "e/sub", "empty", "moved", "new", "new/place"])


