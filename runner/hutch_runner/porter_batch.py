"""Several files that appear together, or not at all."""
from __future__ import annotations

import os

from .porter_paths import NEW_FILE, Failed, check_place, reach, unmake, write_all


class Batch:
    """In the staging directory each is named by its number, and what it replaces by `old-` and the number."""

    def __init__(self, root: int, staging: int) -> None:
        self._root, self._staging = root, staging
        self.paths: list[list[str]] = []
        self.size = 0

    def receive(self, parts: list[str], engine) -> None:
        if not parts:
            raise Failed("is_directory", "the workspace is a directory")
        try:
            with reach(self._root, parts[:-1]) as parent:
                check_place(parts[-1], parent.fd, False)  # now, to spare a long upload, and again at the end
        except FileNotFoundError:  # the directory is made when everything has arrived
            pass
        fd = os.open(str(len(self.paths)), NEW_FILE, 0o600, dir_fd=self._staging)
        self.paths.append(parts)
        try:
            while piece := engine.data():
                write_all(fd, piece)
                self.size += len(piece)
            os.fchmod(fd, 0o644)
        finally:
            os.close(fd)

    def move(self) -> bool:
        """To their places; true when something new is there. What could fail is done before anything has moved, and
        what fails all the same, because the program changes things under us, is undone."""
        made: list[tuple[list[str], int]] = []
        moved, new = 0, False
        try:
            for number, parts in enumerate(self.paths):
                with reach(self._root, parts[:-1], make=True) as parent:
                    if parent.first_made is not None:
                        made.append((parts[:-1], parent.first_made))
                    if check_place(parts[-1], parent.fd, False):
                        new = True
                    elif number + 1 < len(self.paths):  # after the last one nothing can fail
                        os.link(parts[-1], "old-%d" % number, src_dir_fd=parent.fd, dst_dir_fd=self._staging,
                                follow_symlinks=False)
            for number, parts in enumerate(self.paths):
                with reach(self._root, parts[:-1]) as parent:
                    os.rename(str(number), parts[-1], src_dir_fd=self._staging, dst_dir_fd=parent.fd)
                moved += 1
            return new
        except BaseException:
            for number in reversed(range(moved)):
                self._put_back(number)
            for parts, first_made in reversed(made):
                unmake(self._root, parts, first_made)
            raise

    def _put_back(self, number: int) -> None:
        parts = self.paths[number]
        try:
            with reach(self._root, parts[:-1]) as parent:
                try:
                    os.rename("old-%d" % number, parts[-1], src_dir_fd=self._staging, dst_dir_fd=parent.fd)
                except FileNotFoundError:  # there was none
                    os.unlink(parts[-1], dir_fd=parent.fd)
        except OSError:  # the program has taken it, or its directory, away
            pass
