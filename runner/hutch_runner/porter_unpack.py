"""A tar or zip into a fresh directory. Every byte of it is hostile: to the disk, to memory and to what is outside."""
from __future__ import annotations

import os
import stat

from .porter_pack import MOST_DEPTH
from .porter_paths import NEW_FILE, Failed, hidden_name, kind_of, leads_outside, reach, write_all
from .wire import MAX_PIECE, ProtocolError

MOST_HEADER = 1 << 20  # bytes that describe one file of an archive
XZ_MEMORY = 128 << 20  # xz -9 needs 65 MiB
NOT_THE_ARCHIVE = {"disk_full", "permission_denied", "io_error"}


def fill(store: Store, unpack_it, engine) -> None:
    """Nearly everything that goes wrong here is the archive's fault: the directory is new."""
    try:
        unpack_it(engine, store)
    except (Failed, ProtocolError):
        raise
    except OSError as error:
        failure = Failed.of(error)
        if error.errno is None or failure.code not in NOT_THE_ARCHIVE:
            raise Failed("bad_archive", "the archive contradicts itself: %s" % failure) from None
        raise failure from None
    except Exception as error:
        raise Failed("bad_archive", "the archive cannot be read: %s" % (str(error) or type(error).__name__)) from None


def merge(fresh: int, target: int, act) -> None:
    """Directories are merged; anything else takes the place of anything but a directory, links included."""
    for name in os.listdir(fresh):
        new, old = kind_of(name, fresh), kind_of(name, target)
        if new == old == stat.S_IFDIR:
            with reach(fresh, [name]) as new_below, reach(target, [name]) as old_below:
                merge(new_below.fd, old_below.fd, act)
        elif old == stat.S_IFDIR:
            raise Failed("is_directory", "the directory %s is in the way of a file" % name)
        elif old and new == stat.S_IFDIR:
            raise Failed("already_exists", "the file %s is in the way of a directory" % name)
        else:
            act(name, fresh, target)


class Store:
    """The hidden directory and what may still go into it."""

    def __init__(self, root: int, most: int) -> None:
        self.root, self.most = root, most
        self.files = self.size = self._entries = 0
        space = os.fstatvfs(root)
        self._capacity = space.f_blocks * space.f_frsize or 1 << 63

    def parts_of(self, name: str) -> list[str]:
        """The checked path of the next entry; none for the top itself."""
        self._entries += 1
        if self._entries > self.most:
            raise Failed("too_many_files", "the archive has more than %d entries" % self.most)
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if name.startswith("/") or ".." in parts or "\0" in name or len(parts) > MOST_DEPTH:
            raise Failed("bad_archive", "the archive has a name that leads outside or is too deep: %r" % name[:200])
        return parts

    def directory(self, parts: list[str]) -> None:
        reach(self.root, parts, make=True).__exit__()

    def file(self, parts: list[str], executable: int, read) -> None:
        with reach(self.root, self._above(parts), make=True) as parent:
            self._make_room(parts[-1], parent.fd)
            fd = os.open(parts[-1], NEW_FILE, 0o600, dir_fd=parent.fd)
            try:
                while piece := read(MAX_PIECE):
                    self.size += len(piece)
                    if self.size > self._capacity:  # the same name again and again fills no disk, but takes for ever
                        raise Failed("disk_full", "the archive holds more than the whole disk")
                    write_all(fd, piece)
                os.fchmod(fd, 0o755 if executable else 0o644)
            finally:
                os.close(fd)
        self.files += 1

    def link(self, parts: list[str], target: str) -> None:
        if leads_outside(len(parts), target):
            raise Failed("bad_archive", "the archive has a link that leads outside: %r" % "/".join(parts)[:200])
        with reach(self.root, self._above(parts), make=True) as parent:
            self._make_room(parts[-1], parent.fd)
            os.symlink(target, parts[-1], dir_fd=parent.fd)
        self.files += 1

    def _above(self, parts: list[str]) -> list[str]:
        if not parts:
            raise Failed("bad_archive", "the archive has a file without a name")
        return parts[:-1]

    def _make_room(self, name: str, parent: int) -> None:
        """The last of several entries with one name counts."""
        if kind_of(name, parent):
            os.unlink(name, dir_fd=parent)


class Upload:
    """The upload as a file to read from."""

    def __init__(self, engine) -> None:
        self._engine = engine
        self._rest = memoryview(b"")

    def read(self, size: int) -> bytes:
        if not self._rest:
            self._rest = self._engine.data()
        piece, self._rest = bytes(self._rest[:size]), self._rest[size:]
        return piece

    def peek(self) -> bytes:
        if not self._rest:
            self._rest = self._engine.data()
        return bytes(self._rest[:6])


class Inflated:
    """A tar as it is, or out of gzip, bzip2 or xz, never more than was asked for. (tarfile's own way puts the whole of
    what a few bytes expand to into memory.) `allowance` bounds what may be read on, so that a header of gigabytes
    ends here."""

    def __init__(self, upload: Upload) -> None:
        self._upload = upload
        self.allowance: int | None = MOST_HEADER
        self._begin = self._pick(upload.peek())
        self._machine = self._begin and self._begin()

    @staticmethod
    def _pick(head: bytes):
        if head.startswith(b"\x1f\x8b"):
            import zlib
            return lambda: zlib.decompressobj(31)
        if head.startswith(b"BZh"):
            import bz2
            return bz2.BZ2Decompressor
        if head.startswith(b"\xfd7zXZ\0"):
            import lzma
            return lambda: lzma.LZMADecompressor(memlimit=XZ_MEMORY)
        return None

    def read(self, size: int) -> bytes:
        piece = self._inflate(size) if self._machine else self._upload.read(size)
        if self.allowance is not None:
            self.allowance -= len(piece)
            if self.allowance < 0:
                raise Failed("bad_archive", "the archive has a header of more than %d bytes" % MOST_HEADER)
        return piece

    def _inflate(self, size: int) -> bytes:
        while True:
            machine, fresh = self._machine, b""
            if machine.eof:  # another may follow, after padding
                fresh = machine.unused_data.lstrip(b"\0") or self._upload.read(size).lstrip(b"\0")
                if not fresh:
                    return b""
                machine = self._machine = self._begin()
            tail = getattr(machine, "unconsumed_tail", b"")  # zlib's; the others keep it
            wants = not tail and not fresh and getattr(machine, "needs_input", True)
            data = fresh or tail or (self._upload.read(size) if wants else b"")
            piece = machine.decompress(data, size)
            if piece:
                return piece
            if wants and not data and not machine.eof:
                raise Failed("bad_archive", "the archive is cut short")


def unpack_tar(engine, store: Store) -> None:
    import tarfile

    class Header(tarfile.TarInfo):
        """tarfile takes a broken header for the end of the archive."""

        @classmethod
        def fromtarfile(cls, archive):
            try:
                return super().fromtarfile(archive)
            except (tarfile.TruncatedHeaderError, tarfile.InvalidHeaderError) as error:
                raise Failed("bad_archive", "the archive has a broken header: %s" % error) from None

    source = Inflated(Upload(engine))
    archive = tarfile.open(fileobj=source, mode="r|", bufsize=1 << 16, tarinfo=Header, encoding="utf-8",
                           errors="surrogateescape")
    while (entry := archive.next()) is not None:
        source.allowance = None
        archive.members.clear()  # which would keep every entry
        archive.pax_headers.clear()
        parts = store.parts_of(entry.name)
        if entry.isdir():
            store.directory(parts)
        elif entry.issym():
            store.link(parts, entry.linkname)
        elif entry.isreg() and not entry.issparse() and entry.size >= 0:
            store.file(parts, entry.mode & 0o100, archive.extractfile(entry).read)
        else:
            raise Failed("bad_archive", "the archive has a hard link, a device or the like: %r" % entry.name[:200])
        source.allowance = MOST_HEADER


def unpack_zip(engine, store: Store) -> None:
    """Its table is at the end, so all of it is stored first, in a file without a name."""
    import io
    import zipfile

    class Spool(io.FileIO):
        def read(self, size: int = -1) -> bytes:
            if size > MOST_HEADER + 256 * store.most:  # the table, at once
                raise Failed("too_many_files", "the archive's table is larger than %d entries need" % store.most)
            return super().read(size)

    name = hidden_name()
    with Spool(os.open(name, NEW_FILE, 0o600, dir_fd=store.root), "r+") as spool:
        os.unlink(name, dir_fd=store.root)
        while piece := engine.data():
            write_all(spool.fileno(), piece)
        with zipfile.ZipFile(spool) as archive:
            for entry in archive.infolist():
                unpack_zip_entry(archive, entry, store)


def unpack_zip_entry(archive, entry, store: Store) -> None:
    parts, mode = store.parts_of(entry.filename), entry.external_attr >> 16
    if entry.flag_bits & 1 or entry.compress_type not in (0, 8):  # zipfile does not bound what others expand to
        raise Failed("bad_archive", "only stored and deflated entries without a password can be unpacked")
    if entry.is_dir():
        store.directory(parts)
        return
    with archive.open(entry) as file:
        if stat.S_ISLNK(mode):
            store.link(parts, os.fsdecode(file.read(4096)))
        elif stat.S_IFMT(mode) in (0, stat.S_IFREG):
            store.file(parts, mode & 0o100, file.read)
        else:
            raise Failed("bad_archive", "the archive has a device or the like: %r" % entry.filename[:200])
