"""Paths below the workspace, opened part by part and never through a link, and what can go wrong with them."""
from __future__ import annotations

import errno
import os
import stat
import time

from .wire import Reader

REMOVE_SECONDS = 20.0  # a program that makes files faster than we remove them wins

DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
READ_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
NEW_FILE = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC

CODES = {
    errno.ENOENT: "file_not_found", errno.EISDIR: "is_directory", errno.ENOTEMPTY: "not_empty",
    errno.EEXIST: "already_exists", errno.ENOTDIR: "invalid_path", errno.ELOOP: "invalid_path",
    errno.ENAMETOOLONG: "invalid_path", errno.EINVAL: "invalid_path", errno.ENOSPC: "disk_full",
    errno.EDQUOT: "disk_full", errno.EFBIG: "disk_full", errno.EACCES: "permission_denied",
    errno.EPERM: "permission_denied",
}
RACES = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENOTEMPTY, errno.EEXIST}


class Failed(Exception):
    """What the engine is told."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code

    @classmethod
    def of(cls, error: OSError) -> Failed:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            return cls("invalid_path", "part of the path is not a directory; symbolic links are not followed")
        return cls(CODES.get(error.errno, "io_error"), os.strerror(error.errno) if error.errno else str(error))


def leads_outside(depth: int, target: str) -> bool:
    """Of a link `depth` parts below the top: `..` only in front, and never past the top; then no chain of such links
    leads outside either."""
    steps = target.split("/")
    ups = next((at for at, step in enumerate(steps) if step != ".."), len(steps))
    return not target or target.startswith("/") or "\0" in target or ".." in steps[ups:] or ups >= depth


class Directory:
    """An open directory. `first_made` is the number of path parts that were there before."""

    __slots__ = ("fd", "first_made")

    def __init__(self, fd: int) -> None:
        self.fd = fd
        self.first_made: int | None = None

    def __enter__(self) -> Directory:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)


def path_of(reader: Reader) -> list[str]:
    """The parts of a path below the workspace; none of them for the workspace itself."""
    path = reader.string()
    parts = path.split("/") if path else []
    if len(path) > 4096 or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise Failed("invalid_path", "the path must be relative and have no empty, . or .. parts")
    return parts


def not_root(parts: list[str]) -> list[str]:
    if not parts:
        raise Failed("invalid_path", "the workspace itself cannot be removed or moved")
    return parts


def reach(root: int, parts: list[str], make: bool = False) -> Directory:
    """Opens a directory part by part, never through a link; makes those that are missing, or leaves none behind."""
    here = Directory(os.dup(root))
    try:
        for index, part in enumerate(parts):
            try:
                below = os.open(part, DIRECTORY, dir_fd=here.fd)
            except FileNotFoundError:
                if not make:
                    raise
                try:
                    os.mkdir(part, 0o755, dir_fd=here.fd)
                    here.first_made = index if here.first_made is None else here.first_made
                except FileExistsError:  # the program was faster
                    pass
                below = os.open(part, DIRECTORY, dir_fd=here.fd)
            os.close(here.fd)
            here.fd = below
        return here
    except BaseException:
        os.close(here.fd)
        unmake(root, parts, here.first_made)
        raise


def unmake(root: int, parts: list[str], first_made: int | None) -> None:
    """Removes the directories that reach() made, if they still are empty."""
    for index in reversed(range(len(parts) if first_made is None else first_made, len(parts))):
        try:
            with reach(root, parts[:index]) as parent:
                os.rmdir(parts[index], dir_fd=parent.fd)
        except OSError:
            pass


def kind_of(name: str, parent: int) -> int:
    """The file type bits; 0 where nothing is."""
    try:
        return stat.S_IFMT(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode)
    except FileNotFoundError:
        return 0


def check_place(name: str, parent: int, exclusive: bool) -> bool:
    """True when nothing is there yet."""
    kind = kind_of(name, parent)
    if kind and exclusive:
        raise Failed("already_exists", "the file exists")
    if kind == stat.S_IFDIR:
        raise Failed("is_directory", "a directory is in its place")
    if kind not in (0, stat.S_IFREG):
        raise Failed("not_a_file", "what is in its place is neither a file nor a directory")
    return kind == 0


def hidden_name() -> str:
    return ".hutch-" + os.urandom(16).hex()


def write_all(fd: int, data: bytes | memoryview) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest):]


class Removal:
    """Removes a tree of any depth with three descriptors and no recursion to speak of: what lies deeper than one level
    below the top is moved up to the top first."""

    def __init__(self) -> None:
        self._deadline = time.monotonic() + REMOVE_SECONDS
        self._prefix = hidden_name()
        self._moved = self._count = 0

    def remove(self, name: str, parent: int) -> int:
        with Directory(os.open(name, DIRECTORY, dir_fd=parent)) as top:
            while True:
                self._clear(top.fd, top.fd)
                try:
                    os.rmdir(name, dir_fd=parent)
                    return self._count + 1
                except OSError as error:
                    if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                        raise

    def _clear(self, fd: int, top: int) -> None:
        """What the program changes under us is left to the next pass."""
        self._check_time()
        with os.scandir(fd) as entries:
            for entry in entries:
                self._check_time()
                try:
                    self._remove_entry(entry, fd, top)
                except OSError as error:
                    if error.errno not in RACES:
                        raise

    def _remove_entry(self, entry: os.DirEntry, fd: int, top: int) -> None:
        if not entry.is_dir(follow_symlinks=False):
            os.unlink(entry.name, dir_fd=fd)
        elif fd == top:
            with Directory(os.open(entry.name, DIRECTORY, dir_fd=fd)) as below:
                self._clear(below.fd, top)
            os.rmdir(entry.name, dir_fd=fd)
        else:
            self._moved += 1
            os.rename(entry.name, "%s-%d" % (self._prefix, self._moved), src_dir_fd=fd, dst_dir_fd=top)
            return
        self._count += 1

    def _check_time(self) -> None:
        if time.monotonic() > self._deadline:
            raise Failed("io_error", "the directory could not be removed in time")


class Staging:
    """A hidden directory in the workspace, for what is to appear as a whole; removed with what is left in it."""

    def __init__(self, root: int) -> None:
        self._root, self._name = root, hidden_name()

    def __enter__(self) -> int:
        os.mkdir(self._name, 0o700, dir_fd=self._root)
        try:
            self._directory = reach(self._root, [self._name])
        except BaseException:  # the program was faster
            self._remove()
            raise
        return self._directory.fd

    def __exit__(self, *_: object) -> None:
        self._directory.__exit__()
        self._remove()

    def _remove(self) -> None:
        try:
            Removal().remove(self._name, self._root)
        except (OSError, Failed):
            pass
