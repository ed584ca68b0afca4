"""The porter's archives: what goes out can be read by others, and nothing that comes in leads outside or stays half."""
from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import resource
import signal
import stat
import struct
import sys
import tarfile
import zipfile

from porter_support import ABORT, DATA, END, PACK, TAR, UNPACK, ZIP, PorterTest
from support import frame, text

NOTHING = (False, 0, 0)
SMALL = 1 << 20


def tar(*entries: tuple, mode: str = "w", **options) -> bytes:
    """Entries are (name, bytes), (name, None) for a directory, or (TarInfo, bytes)."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode, **options) as archive:
        for name, data in entries:
            entry = name if isinstance(name, tarfile.TarInfo) else tarfile.TarInfo(name)
            if data is None:
                entry.type = tarfile.DIRTYPE
            entry.size = len(data or b"")
            archive.addfile(entry, io.BytesIO(data or b""))
    return out.getvalue()


def special(name: str, kind: bytes, target: str = "") -> tuple:
    entry = tarfile.TarInfo(name)
    entry.type, entry.linkname = kind, target
    return entry, b""


def link(name: str, target: str) -> tuple:
    return special(name, tarfile.SYMTYPE, target)


def zipped(*entries: tuple, form: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Entries are (name, bytes) or (name, bytes, mode)."""
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", form) as archive:
        for name, data, *mode in entries:
            entry = zipfile.ZipInfo(name)
            entry.compress_type, entry.external_attr = form, (mode[0] if mode else 0) << 16
            archive.writestr(entry, data)
    return out.getvalue()


class ImportTest(PorterTest):
    """Nothing that the program has put into its workspace is imported."""

    MODULES = ("bz2", "copy", "gzip", "lzma", "shutil", "struct", "tarfile", "zipfile", "zlib")

    def test_modules_of_the_workspace_are_not_run(self) -> None:
        for name in self.MODULES:
            (self.inside / (name + ".py")).write_text("open(%r, 'w')" % str(self.inside / ("ran-" + name)))

        def like_a_fork_of_the_zygote() -> None:
            sys.path[:0] = [str(self.inside), ""]
            os.chdir(self.inside)
            for name in self.MODULES:
                sys.modules.pop(name, None)

        porter = self.start_porter(like_a_fork_of_the_zygote)
        for form, packed in ((TAR, tar(("a", b"1"))), (ZIP, zipped(("a", b"1")))):
            self.assertEqual(porter.unpack("in", form, packed)[1:], (1, 1))
            self.assertEqual(porter.pack("in", form)[1][1:2], (1,))
        self.assertEqual([name for name in self.tree() if name.startswith("ran-")], [])


class PackTest(PorterTest):
    SPACE = 256 * 4000 + 3 * 4096  # that the files take, in pages

    def fill(self) -> None:
        (self.inside / "d/sub").mkdir(parents=True)
        (self.inside / "d/empty").mkdir()
        (self.inside / "d/sub/big").write_bytes(bytes(range(256)) * 4000)
        (self.inside / "d/é").write_text("x")
        (self.inside / "d" / ("long" * 50)).write_text("long")
        (self.inside / "d/run").write_text("#!")
        (self.inside / "d/run").chmod(0o755)
        (self.inside / "d/link").symlink_to("sub/big")
        (self.inside / "d/out").symlink_to(self.outside)  # of no use: unpacking would refuse it
        os.mkfifo(self.inside / "d/fifo")

    def test_a_tar_has_files_directories_and_links(self) -> None:
        self.fill()
        data, answer = self.porter.pack("d", TAR)
        self.assertEqual(answer, (False, 7, self.SPACE))
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            names = archive.getnames()
            self.assertEqual(names, ["empty", "link", "long" * 50, "run", "sub", "sub/big", "é"])
            self.assertEqual(archive.extractfile("sub/big").read(), bytes(range(256)) * 4000)
            self.assertEqual(archive.getmember("link").linkname, "sub/big")
            self.assertEqual((archive.getmember("run").mode, archive.getmember("é").mode), (0o755, 0o644))
        self.assertEqual(self.porter.pack("d", TAR)[0], data)

    def test_a_zip_has_files_and_directories(self) -> None:
        self.fill()
        data, answer = self.porter.pack("d", ZIP)
        self.assertEqual(answer, (False, 6, self.SPACE))
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            self.assertEqual(archive.namelist(), ["empty/", "long" * 50, "run", "sub/", "sub/big", "é"])
            self.assertIsNone(archive.testzip())
            self.assertEqual(archive.read("sub/big"), bytes(range(256)) * 4000)
            self.assertEqual(stat.S_IMODE(archive.getinfo("run").external_attr >> 16), 0o755)
        self.assertEqual(self.porter.pack("d", ZIP)[0], data)

    def test_the_workspace_and_strange_names_can_be_packed(self) -> None:
        with open(os.fsencode(self.inside) + b"/\xff", "wb"):
            os.utime(os.fsencode(self.inside) + b"/\xff", (-5, -5))
        with tarfile.open(fileobj=io.BytesIO(self.porter.pack("", TAR)[0]), errors="surrogateescape") as archive:
            self.assertEqual(archive.getnames(), ["\udcff"])
        with zipfile.ZipFile(io.BytesIO(self.porter.pack("", ZIP)[0])) as archive:
            self.assertEqual(archive.namelist(), ["\ufffd"])

    def test_only_a_directory_is_packed(self) -> None:
        (self.inside / "f").write_text("x")
        (self.inside / "link").symlink_to(self.outside)
        for path, code in (("f", "invalid_path"), ("link", "invalid_path"), ("none", "file_not_found"),
                           ("../outside", "invalid_path")):
            self.assertEqual(self.porter.pack(path, TAR), (b"", code))
        (self.inside / "/".join("d" * 70)).mkdir(parents=True)
        self.assertEqual(self.porter.pack("", TAR)[1], "invalid_path")

    def test_a_file_may_change_its_size_while_it_is_packed(self) -> None:
        for form in (TAR, ZIP):
            for change in (100, 9_000_000):
                with self.subTest(form=form, change=change):
                    (self.inside / "f").write_bytes(b"x" * 5_000_000)
                    (self.inside / "g").write_bytes(b"last")
                    self.porter.say(PACK, text("") + bytes((form,)))
                    first = self.porter.receive()[1]  # the rest does not fit into the socket
                    os.truncate(self.inside / "f", change)
                    pieces = [first]
                    while (got := self.porter.receive())[0] == 82:
                        pieces.append(got[1])
                    data = io.BytesIO(b"".join(pieces))
                    if form == TAR:
                        with tarfile.open(fileobj=data) as archive:
                            sizes = [entry.size for entry in archive]
                            self.assertEqual((sizes, archive.extractfile("g").read()), ([5_000_000, 4], b"last"))
                    else:
                        with zipfile.ZipFile(data) as archive:
                            self.assertIsNone(archive.testzip())
                            self.assertLessEqual(archive.getinfo("f").file_size, 5_000_000)
                            self.assertEqual(archive.read("g"), b"last")

    def test_an_engine_that_goes_away_ends_it(self) -> None:
        (self.inside / "f").write_bytes(bytes(5_000_000))
        self.porter.say(PACK, text("") + b"\0")
        self.porter.receive()
        self.assertEqual(self.porter.wait(), 0)

    def test_a_program_that_swaps_directories_gets_nothing_from_outside_packed(self) -> None:
        real, spare, away = (str(self.inside / name) for name in ("d", "spare", "link"))
        os.mkdir(real)
        os.symlink(self.outside, away)
        program = os.fork()
        if program == 0:  # a process: a thread would wait for us too often to win
            while True:
                os.rename(real, spare), os.rename(away, real), os.rename(real, away), os.rename(spare, real)
        try:
            for number in range(3000):
                data, answer = self.porter.pack("", number % 2)
                self.assertIsInstance(answer, tuple)
                self.assertNotIn(b"secret", data)
        finally:
            os.kill(program, signal.SIGKILL)
            os.waitpid(program, 0)


class UnpackTest(PorterTest):
    def refused(self, archive: bytes, form: int = TAR, code: str = "bad_archive", **options) -> None:
        before = self.tree()
        self.assertEqual((self.porter.unpack("new/place", form, archive, **options), self.tree()), (code, before))

    def test_tars_of_every_compression(self) -> None:
        big = os.urandom(700_000)
        plain = tar(("./", None), ("./a/b/big", big), ("a", None), ("run", b"#!"), link("a/up", "../run"),
                    ("é" * 120, b"x"))
        two = gzip.compress(plain[:5000]) + gzip.compress(plain[5000:]) + bytes(100)
        for number, archive in enumerate((plain, gzip.compress(plain), bz2.compress(plain), lzma.compress(plain), two)):
            with self.subTest(number=number):
                self.assertEqual(self.porter.unpack("to/%d" % number, TAR, archive), (True, 4, len(big) + 3))
                top = self.inside / "to" / str(number)
                self.assertEqual(self.tree(top), ["a", "a/b", "a/b/big", "a/up", "run", "é" * 120])
                self.assertEqual((top / "a/b/big").read_bytes(), big)
                self.assertEqual(os.readlink(top / "a/up"), "../run")
        self.assertEqual(os.listdir(self.inside), ["to"])

    def test_zips(self) -> None:
        for form in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            archive = zipped(("a/", b""), ("a/f", b"x" * 600_000), ("run", b"#!", 0o100755), ("l", b"a/f", 0o120777),
                             form=form)
            self.assertEqual(self.porter.unpack("", ZIP, archive), (False, 3, 600_002))
            self.assertEqual(self.tree(), ["a", "a/f", "l", "run"])
            self.assertEqual(os.readlink(self.inside / "l"), "a/f")
        modes = [stat.S_IMODE((self.inside / name).stat().st_mode) for name in ("a", "a/f", "run")]
        self.assertEqual(modes, [0o755, 0o644, 0o755])

    def test_what_was_packed_can_be_unpacked(self) -> None:
        (self.inside / "d/e").mkdir(parents=True)
        (self.inside / "d/e/f").write_text("x")
        for form in (TAR, ZIP):
            data, _ = self.porter.pack("d", form)
            self.assertEqual(self.porter.unpack("copy%d" % form, form, data), (True, 1, 1))
            self.assertEqual(self.tree(self.inside / ("copy%d" % form)), ["e", "e/f"])

    def test_directories_are_merged_and_files_replaced(self) -> None:
        (self.inside / "d/kept").mkdir(parents=True)
        (self.inside / "d/f").write_text("old")
        (self.inside / "d/link").symlink_to(self.outside / "secret")
        archive = tar(("d/f", b"new"), ("d/link", b"a file now"), ("d/kept/g", b"g"), ("d/f2", b"1"), ("d/f2", b"2"))
        self.assertEqual(self.porter.unpack("", TAR, archive), (False, 5, 3 + 10 + 1 + 2))
        self.assertEqual((self.inside / "d/f").read_text(), "new")
        self.assertEqual((self.inside / "d/f2").read_text(), "2")
        self.assertFalse((self.inside / "d/link").is_symlink())
        self.assertEqual(self.tree(), ["d", "d/f", "d/f2", "d/kept", "d/kept/g", "d/link"])

    def test_a_conflict_changes_nothing(self) -> None:
        (self.inside / "z").mkdir()
        (self.inside / "y").symlink_to(self.outside)
        others = [("a%d" % number, b"x") for number in range(50)]  # some of them come before it, whatever the order
        for archive, code in ((tar(*others, ("z", b"x")), "is_directory"),
                              (tar(*others, ("y/secret", b"x")), "already_exists")):
            self.assertEqual(self.porter.unpack("", TAR, archive), code)
            self.assertEqual(self.tree(), ["y", "z"])
        self.assertEqual(self.porter.unpack("y", TAR, tar(("a", b"x"))), "invalid_path")

    def test_names_that_lead_outside_are_refused(self) -> None:
        for name in ("/etc/x", "../x", "a/../../x", "a/..", "d/" * 70 + "f", "n" * 256):
            with self.subTest(name=name[:20]):
                self.refused(tar(("first", b"x"), (name, b"x")))
                self.refused(zipped(("first", b"x"), (name, b"x")), ZIP)

    def test_links_that_lead_outside_are_refused(self) -> None:
        for name, target in (("l", "/etc"), ("l", ".."), ("a/l", "../.."), ("l", "a/../.."), ("l", "a/../b"),
                             ("a/b/l", "../../../x"), ("l", "")):
            with self.subTest(name=name, target=target):
                self.refused(tar(("first", b"x"), link(name, target)))
                self.refused(zipped(("l", target.encode(), 0o120777)), ZIP) if name == "l" else None
        self.refused(tar(("d", None), link("l", "d"), ("l/f", b"x")))  # nothing is written through one
        self.refused(zipped(("l", b"d", 0o120777), ("l/f", b"x")), ZIP)

    def test_hard_links_and_devices_are_refused(self) -> None:
        for kind in (tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, tarfile.GNUTYPE_SPARSE, b"?"):
            with self.subTest(kind=kind):
                self.refused(tar(("f", b"x"), special("l", kind, "f")))
        self.refused(zipped(("fifo", b"", 0o010644)), ZIP)

    def test_broken_archives_are_refused(self) -> None:
        plain = tar(("a", b"x" * 5000), ("b", b"y"))
        packed = gzip.compress(plain)
        table = zipped(("a", b"x" * 5000))
        secret = bytearray(table)
        secret[table.rindex(b"PK\1\2") + 8] |= 1  # it says it has a password
        for archive in (b"", b"garbage" * 1000, plain[:3000], plain[:6144] + b"?" * 1024, plain[:6144 + 100],
                        packed[:-40], packed[:30], packed[:20] + b"????" + packed[24:], bz2.compress(plain)[:60],
                        bz2.compress(plain)[:40] + b"????????" * 9, lzma.compress(plain)[:100]):
            with self.subTest(archive=archive[:10]):
                self.refused(archive)
        for archive in (b"", b"garbage", table[:-30], bytes(secret), table[:40] + b"????" + table[44:],
                        zipped(("a", b"x"), form=zipfile.ZIP_BZIP2), zipped(("a", b"x"), form=zipfile.ZIP_LZMA),
                        zipped(("a", b"xxxx"), form=zipfile.ZIP_STORED).replace(b"xxxx", b"yyyy"),
                        zipped(("a", b"x"), ("a/b", b"y"))):
            with self.subTest(archive=archive[:10]):
                self.refused(archive, ZIP)
        self.assertEqual(self.tree(), [])

    def test_too_many_files_are_refused(self) -> None:
        entries = [("f%d" % number, b"") for number in range(11)]
        for form, archive in ((TAR, tar(*entries)), (ZIP, zipped(*entries))):
            self.refused(archive, form, "too_many_files", most_files=10)
            self.assertEqual(self.porter.unpack("ok", form, archive, 11)[1], 11)
        self.refused(zipped(*(("f%d" % number, b"") for number in range(30_000))), ZIP, "too_many_files", most_files=10)
        self.assertIn("table", self.porter.message)  # it was not even read

    def small_memory_porter(self) -> None:
        """With some 100 MiB for whatever it does, and files of at most 1 MiB."""
        def prepare() -> None:
            with open("/proc/self/statm", encoding="ascii") as file:
                now = int(file.read().split()[0]) * 4096
            resource.setrlimit(resource.RLIMIT_AS, (now + (100 << 20),) * 2)
            resource.setrlimit(resource.RLIMIT_FSIZE, (SMALL, SMALL))
        self.porter = self.start_porter(prepare)

    def test_bombs_end_at_the_disk_and_not_in_memory(self) -> None:
        self.small_memory_porter()
        plain = tar(("zeros", bytes(150 << 20)))
        for archive in (gzip.compress(plain, 1), bz2.compress(plain, 9), lzma.compress(plain, preset=0)):
            self.refused(archive, TAR, "disk_full")
        del plain
        self.refused(zipped(("zeros", bytes(150 << 20))), ZIP, "disk_full")

    def test_headers_of_any_size_are_refused(self) -> None:
        self.small_memory_porter()
        huge = bytes(150 << 20)
        for kind in (tarfile.XHDTYPE, tarfile.XGLTYPE, tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK):
            entry = tarfile.TarInfo("x")
            entry.type, entry.size = kind, len(huge)
            self.refused(gzip.compress(entry.tobuf() + huge, 1))
            self.assertIn("a header of more than", self.porter.message)
        self.refused(gzip.compress((special("x", tarfile.XHDTYPE)[0]).tobuf() * 100_000, 1))
        negative = bytearray(tarfile.TarInfo("x").tobuf(tarfile.GNU_FORMAT))
        negative[124:136] = b"\xff" * 10 + b"\xfe\x00"
        negative[148:156] = b"%06o\0 " % (256 + sum(negative[:148]) + sum(negative[156:512]))
        self.refused(bytes(negative) + bytes(2048))

    def test_an_abort_or_a_hang_up_leaves_nothing(self) -> None:
        for form, archive in ((TAR, tar(("a/f", b"x" * 100))), (ZIP, zipped(("a/f", b"x" * 100)))):
            self.assertEqual(self.porter.unpack("new", form, archive, last=ABORT), NOTHING)
            self.assertEqual(self.porter.unpack("new", form, archive[:200], last=ABORT), NOTHING)
            self.assertEqual(self.tree(), [])
            porter = self.start_porter()
            porter.say(UNPACK, text("new") + bytes((form,)) + struct.pack("<I", 100))
            porter.end.sendall(frame(DATA, archive) + frame(DATA, archive)[:100])
            self.assertEqual(porter.wait(), 0)
            self.assertEqual(self.tree(), [])

    def test_a_failure_in_the_middle_is_answered_once(self) -> None:
        self.porter.say(UNPACK, text("new") + struct.pack("<BI", TAR, 100))
        self.porter.data(tar(("../x", b"x")))
        self.assertEqual(self.porter.answer(), "bad_archive")
        self.porter.data(bytes(3_000_000))
        self.porter.say(END)
        self.assertEqual(self.porter.mkdir(""), NOTHING)
