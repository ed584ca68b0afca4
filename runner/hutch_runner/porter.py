"""The file porter: a second runner in the sandbox of a live session. It changes the workspace for the file API while
the program may be running, and racing with it, in another process. It has no more rights than the program.

One request at a time, and exactly one DONE or FAILED for each. An upload (WRITE or UNPACK, DATA …, then END or ABORT; or
WRITE_FILES, then for each file NEXT_FILE and DATA …, then END or ABORT) that fails is answered at once; what still comes of it is swallowed in silence up to its END or ABORT. A healthy upload
that is aborted is answered by a DONE of zeros. No path leads through a symbolic link, whatever the program does.
"""
from __future__ import annotations

import _signal
import os
import stat
import sys

from .porter_paths import (NEW_FILE, Failed, Removal, Staging, check_place, hidden_name, kind_of, not_root, path_of, reach,
                           unmake, write_all)
from .wire import (ABORT, DATA, DONE, END, FAILED, MAX_DATA, MKDIR, MOVE, NEXT_FILE, PACK, REMOVE, UNPACK, WRITE,
                   WRITE_FILES, Channel, ProtocolError, Reader)

BROKEN_PROTOCOL = 125  # the exit code


class Aborted(BaseException):
    """The engine does not want the upload any more."""


class HungUp(BaseException):
    """The engine does not want us any more."""


class Engine:
    """The other end of the channel. What it sends is trusted to be well-formed, or we end."""

    def __init__(self, channel: Channel) -> None:
        self._fd = channel.fd
        self._early = channel._pending  # what was read before we took over
        self._buffer = memoryview(bytearray(MAX_DATA))  # one for all: fresh memory costs more than the copying
        self.uploading = False  # neither END nor ABORT has come
        self.in_files = False  # what is uploaded are several, each after its NEXT_FILE
        self._announced: bytes | None = None  # the payload of that, until next_file()

    def receive(self) -> tuple[int, memoryview]:
        """The next frame as (type, payload). The payload is good until the next call."""
        self._fill(self._buffer[:5])
        size, kind = int.from_bytes(self._buffer[:4], "little") - 1, self._buffer[4]
        if not 0 <= size <= MAX_DATA:
            raise ProtocolError("a frame of %d bytes" % size)
        payload = self._buffer[:size]
        self._fill(payload)
        return kind, payload

    def _fill(self, rest: memoryview) -> None:
        if self._early:
            early = self._early[:len(rest)]
            rest[:len(early)] = early
            del self._early[:len(early)]
            rest = rest[len(early):]
        try:
            while rest:
                got = os.readv(self._fd, [rest])
                if not got:
                    raise HungUp
                rest = rest[got:]
        except OSError:  # a reset
            raise HungUp from None

    def data(self) -> memoryview:
        """The next piece of the upload, or of this file of it, good until the next call; empty after its end."""
        while self.uploading and self._announced is None:
            kind, piece = self.receive()
            if kind == NEXT_FILE and self.in_files:
                self._announced = bytes(piece)
                continue
            if kind == DATA:
                if piece:
                    return piece
                continue
            if kind not in (END, ABORT) or piece:
                raise ProtocolError("frame %d is no part of an upload" % kind)
            self.uploading = False
            if kind == ABORT:
                raise Aborted
        return self._buffer[:0]

    def next_file(self) -> bytes | None:
        """What is said of the next file, when the one before has been read to its end; nothing after the last."""
        if self.data():
            raise ProtocolError("data of no file")
        announced, self._announced = self._announced, None
        return announced

    def swallow(self) -> None:
        try:
            while self.uploading:
                self._announced = None
                self.data()
        except Aborted:
            pass

    def send(self, kind: int, payload: bytes) -> None:
        self.send_frame(memoryview((len(payload) + 1).to_bytes(4, "little") + bytes((kind,)) + payload))

    def send_frame(self, rest: memoryview) -> None:
        try:
            while rest:
                rest = rest[os.write(self._fd, rest):]
        except OSError:
            raise HungUp from None


Done = tuple[bool, int, int]  # something new is there; how many entries; how many bytes


def run(channel: Channel, workspace: str) -> None:
    """Serves until the engine hangs up; ends the process."""
    code = 0
    keep_only_the_library()
    try:
        _signal.signal(_signal.SIGINT, _signal.SIG_IGN)  # meant for the program
        _signal.signal(_signal.SIGPIPE, _signal.SIG_IGN)
        os.umask(0o022)
        root = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        engine = Engine(channel)
        while True:
            serve(engine, root)
    except HungUp:
        pass
    except BaseException:
        code = BROKEN_PROTOCOL
    os._exit(code)


def keep_only_the_library() -> None:
    """On the way to modules. What lies elsewhere may be the program's, and this process lives on when its is killed."""
    prefixes = tuple(os.path.join(prefix, "") for prefix in (sys.base_prefix, sys.base_exec_prefix))
    sys.path[:] = [path for path in sys.path if path.startswith(prefixes)]


def serve(engine: Engine, root: int) -> None:
    kind, payload = engine.receive()
    if kind == ABORT and not payload:
        return  # it crossed our answer
    if kind not in HANDLERS:
        raise ProtocolError("request %d is unknown" % kind)
    engine.uploading, engine.in_files = kind in (WRITE, UNPACK, WRITE_FILES), kind == WRITE_FILES
    try:
        try:
            created, count, size = HANDLERS[kind](engine, root, Reader(bytes(payload)))
        except Aborted:
            created, count, size = False, 0, 0
        except OSError as error:
            raise Failed.of(error) from None
        except (Failed, ProtocolError):
            raise
        except Exception as error:
            raise Failed("io_error", "%s: %s" % (type(error).__name__, error)) from None
        engine.send(DONE, bytes((created,)) + min(count, 0xFFFFFFFF).to_bytes(4, "little") + size.to_bytes(8, "little"))
    except Failed as failure:
        texts = [text.encode("utf-8", "backslashreplace")[:1024] for text in (failure.code, str(failure))]
        engine.send(FAILED, b"".join(len(text).to_bytes(4, "little") + text for text in texts))
        engine.swallow()


# Requests, in the order of their numbers.


def write(engine: Engine, root: int, reader: Reader) -> Done:
    parts, executable, exclusive = path_of(reader), reader.flag(), reader.flag()
    reader.end()
    if not parts:
        raise Failed("is_directory", "the workspace is a directory")
    with reach(root, parts[:-1], make=True) as parent:
        try:
            return write_into(engine, parent.fd, parts[-1], 0o755 if executable else 0o644, exclusive)
        except BaseException:
            unmake(root, parts[:-1], parent.first_made)
            raise


def write_into(engine: Engine, parent: int, name: str, mode: int, exclusive: bool) -> Done:
    """Under another name until it is complete."""
    check_place(name, parent, exclusive)  # now, to spare a long upload, and again at its end
    temporary, size = hidden_name(), 0
    fd = os.open(temporary, NEW_FILE, 0o600, dir_fd=parent)
    try:
        while piece := engine.data():
            write_all(fd, piece)
            size += len(piece)
        os.fchmod(fd, mode)
        created = check_place(name, parent, exclusive)
        if not os.path.samestat(os.fstat(fd), os.stat(temporary, dir_fd=parent, follow_symlinks=False)):
            raise Failed("io_error", "the program took the temporary file away")
        if exclusive:  # a link never replaces anything
            os.link(temporary, name, src_dir_fd=parent, dst_dir_fd=parent, follow_symlinks=False)
        else:
            os.rename(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        return created, 1, size
    finally:
        os.close(fd)
        try:
            os.unlink(temporary, dir_fd=parent)
        except OSError:  # renamed
            pass


def remove(engine: Engine, root: int, reader: Reader) -> Done:
    parts, recursive = not_root(path_of(reader)), reader.flag()
    reader.end()
    with reach(root, parts[:-1]) as parent:
        if kind_of(parts[-1], parent.fd) != stat.S_IFDIR:
            os.unlink(parts[-1], dir_fd=parent.fd)
        elif recursive:
            return False, Removal().remove(parts[-1], parent.fd), 0
        else:
            os.rmdir(parts[-1], dir_fd=parent.fd)
    return False, 1, 0


def make_directory(engine: Engine, root: int, reader: Reader) -> Done:
    parts = path_of(reader)
    reader.end()
    try:
        with reach(root, parts, make=True) as made:
            new = 0 if made.first_made is None else len(parts) - made.first_made
            return new > 0, new, 0
    except NotADirectoryError:
        with reach(root, parts[:-1]):  # when the way to it is free, it is in the way itself
            raise Failed("already_exists", "what is in its place is not a directory") from None


def move(engine: Engine, root: int, reader: Reader) -> Done:
    source, target, overwrite = not_root(path_of(reader)), not_root(path_of(reader)), reader.flag()
    reader.end()
    with reach(root, source[:-1]) as from_parent:
        kind = kind_of(source[-1], from_parent.fd)
        if not kind:
            raise Failed("file_not_found", "there is nothing to move")
        with reach(root, target[:-1], make=True) as to_parent:
            try:
                return move_into(kind, source[-1], from_parent.fd, target[-1], to_parent.fd, overwrite)
            except BaseException:
                unmake(root, target[:-1], to_parent.first_made)
                raise


def move_into(kind: int, old: str, old_parent: int, new: str, new_parent: int, overwrite: bool) -> Done:
    there = kind_of(new, new_parent)
    places = {"src_dir_fd": old_parent, "dst_dir_fd": new_parent}
    if there and not overwrite:
        raise Failed("already_exists", "the target exists")
    if there and kind == stat.S_IFDIR and there != stat.S_IFDIR:
        raise Failed("already_exists", "a directory cannot take the place of a file")
    if overwrite or kind == stat.S_IFDIR:  # a directory replaces at most an empty one that appears just now
        os.rename(old, new, **places)
    else:
        os.link(old, new, follow_symlinks=False, **places)
        os.unlink(old, dir_fd=old_parent)
    return there == 0, 1, 0


def pack(engine: Engine, root: int, reader: Reader) -> Done:
    from . import porter_pack

    parts, as_zip = path_of(reader), reader.flag()
    reader.end()
    with reach(root, parts) as top:
        pieces = porter_pack.Pieces(engine)
        count, size = (porter_pack.pack_zip if as_zip else porter_pack.pack_tar)(pieces, top.fd)
        pieces.flush()
        return False, count, size


def unpack(engine: Engine, root: int, reader: Reader) -> Done:
    """Into a hidden directory, which is merged with the real one after the END."""
    from . import porter_unpack as archives

    parts, is_zip, most_files = path_of(reader), reader.flag(), reader.count()
    reader.end()
    try:
        reach(root, parts).__exit__()
    except FileNotFoundError:  # it is made when everything has arrived
        pass
    with Staging(root) as fresh:
        store = archives.Store(fresh, most_files)
        archives.fill(store, archives.unpack_zip if is_zip else archives.unpack_tar, engine)
        while engine.data():  # padding; an ABORT still counts
            pass
        with reach(root, parts, make=True) as target:
            archives.merge(fresh, target.fd, lambda *_: None)  # fails, if it must, before anything has moved
            archives.merge(fresh, target.fd,
                           lambda name, old, new: os.rename(name, name, src_dir_fd=old, dst_dir_fd=new))
            return target.first_made is not None, store.files, store.size


def write_files(engine: Engine, root: int, reader: Reader) -> Done:
    """Into a hidden directory, until all of them are complete."""
    from .porter_batch import Batch

    reader.end()
    with Staging(root) as fresh:
        batch = Batch(root, fresh)
        while (announced := engine.next_file()) is not None:
            about = Reader(announced)
            path = path_of(about)
            about.end()
            batch.receive(path, engine)
        return batch.move(), len(batch.paths), batch.size


HANDLERS = {WRITE: write, REMOVE: remove, MKDIR: make_directory, MOVE: move, PACK: pack, UNPACK: unpack,
            WRITE_FILES: write_files}
