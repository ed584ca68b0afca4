"""A directory of the workspace as a tar or zip, in constant memory, while the program may be changing it."""
from __future__ import annotations

import errno
import os
import stat
import time

from .porter_paths import READ_FILE, Failed, leads_outside
from .wire import MAX_PIECE, PIECE

MOST_DEPTH = 64  # of directories in an archive; each holds one or two descriptors
PAGE = 4096
ZIP_LEVEL = 0  # deflate without compression: anything more is slower than the disk it goes to


class Pieces:
    """The archive on its way out, in frames as large as they may be."""

    def __init__(self, engine) -> None:
        self._engine = engine
        self._frame = memoryview(bytearray(5 + MAX_PIECE))
        self._end = 5  # after the frame's head
        self.size = 0

    def write(self, data: bytes) -> int:
        rest = memoryview(data)
        while rest:
            part = rest[:len(self._frame) - self._end]
            self._frame[self._end:self._end + len(part)] = part
            self._advance(len(part))
            rest = rest[len(part):]
        return len(data)

    def copy(self, fd: int, size: int) -> None:
        """Exactly so many bytes, whatever has become of the file."""
        while size:
            got = os.readv(fd, [self._frame[self._end:self._end + size]])
            if not got:
                break
            self._advance(got)
            size -= got
        while size:
            size -= self.write(bytes(min(size, MAX_PIECE)))

    def flush(self) -> None:
        if self._end > 5:
            self._frame[:5] = (self._end - 4).to_bytes(4, "little") + bytes((PIECE,))
            self._engine.send_frame(self._frame[:self._end])
            self._end = 5

    def _advance(self, size: int) -> None:
        self._end += size
        self.size += size
        if self._end == len(self._frame):
            self.flush()


def walk(fd: int, prefix: str = "", depth: int = 1):
    """Yields (path, status, descriptor of a file or None, target of a link or None), sorted. What vanishes is passed
    over; what cannot be read is an error, because an archive must not be incomplete in silence."""
    if depth > MOST_DEPTH:
        raise Failed("invalid_path", "directories are nested more than %d deep" % MOST_DEPTH)
    for name in sorted(os.listdir(fd)):
        opened = -1
        try:
            status = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if stat.S_ISLNK(status.st_mode):
                target = os.readlink(name, dir_fd=fd)
                if not leads_outside(depth, target):  # one that unpacking would refuse is of no use to anybody
                    yield prefix + name, status, None, target
            elif stat.S_ISDIR(status.st_mode) or stat.S_ISREG(status.st_mode):
                opened = os.open(name, READ_FILE, dir_fd=fd)
                status = os.fstat(opened)
                if stat.S_ISREG(status.st_mode):
                    yield prefix + name, status, opened, None
                elif stat.S_ISDIR(status.st_mode):
                    yield prefix + name, status, None, None
                    yield from walk(opened, prefix + name + "/", depth + 1)
        except OSError as error:
            if error.errno not in (errno.ENOENT, errno.ELOOP, errno.EINVAL, errno.ENXIO):  # changed after the stat
                raise
        finally:
            if opened >= 0:
                os.close(opened)


def in_pages(size: int) -> int:
    """What so many bytes take where the archive is unpacked, holes included."""
    return -(-size // PAGE) * PAGE


def pack_tar(pieces: Pieces, top: int) -> tuple[int, int]:
    """How many files and directories, and the space that they take."""
    import tarfile

    count = space = 0
    for path, status, fd, target in walk(top):
        entry = tarfile.TarInfo(path)
        entry.mode, entry.mtime = status.st_mode & 0o777, max(0, int(status.st_mtime))
        if fd is not None:
            entry.size = status.st_size
        elif target is not None:
            entry.type, entry.linkname = tarfile.SYMTYPE, target
        else:
            entry.type = tarfile.DIRTYPE
        pieces.write(entry.tobuf(tarfile.PAX_FORMAT, "utf-8", "surrogateescape"))
        if fd is not None:
            pieces.copy(fd, entry.size)
            space += in_pages(entry.size)
            pieces.write(bytes(-entry.size % tarfile.BLOCKSIZE))
        count += 1
    pieces.write(bytes(2 * tarfile.BLOCKSIZE))
    pieces.write(bytes(-pieces.size % tarfile.RECORDSIZE))
    return count, space


def pack_zip(pieces: Pieces, top: int) -> tuple[int, int]:
    """Links are left out: few programs that read a zip know them."""
    import zipfile

    count = space = 0
    with zipfile.ZipFile(pieces, "w") as archive:
        for path, status, fd, target in walk(top):
            if target is not None:
                continue
            name = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
            moment = time.gmtime(min(max(status.st_mtime, 315532800), 4354819198))[:6]  # a zip knows 1980 to 2107
            entry = zipfile.ZipInfo(name if fd is not None else name + "/", moment)
            count += 1
            entry.external_attr = (status.st_mode & 0xFFFF) << 16 | (0 if fd is not None else 0x10)
            if fd is None:
                archive.writestr(entry, b"")
                continue
            entry.compress_type, entry._compresslevel = zipfile.ZIP_DEFLATED, ZIP_LEVEL
            entry.file_size = left = status.st_size
            with archive.open(entry, "w") as file:
                while left and (piece := os.read(fd, min(left, MAX_PIECE))):
                    left -= file.write(piece)
            space += in_pages(status.st_size)
    return count, space
