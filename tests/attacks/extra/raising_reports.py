"""An exception that fights being reported: hostile str, endless cause chain, huge message, hostile class."""
import sys

sys.setrecursionlimit(10_000)


class Hostile(Exception):
    def __str__(self):
        return "F" * (64 << 20)

    def __repr__(self):
        raise RecursionError

    @property
    def __traceback__(self):
        return 7

    @property
    def __class__(self):
        return SystemExit


def chain(depth):
    error = Hostile("x" * 1000)
    for _ in range(depth):
        outer = Hostile("y" * 1000)
        outer.__cause__ = error
        error = outer
    return error


raise chain(5_000)
