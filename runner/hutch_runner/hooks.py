"""What happens when a program loads a library that can show things. Our own part for it is loaded then, not before."""
from __future__ import annotations

import builtins
import sys

from .wire import Channel

__builtins__ = dict(vars(builtins))

# The module of a library, and the module of ours whose adopt() takes care of it.
ADOPTERS = {
    "matplotlib": "figures",
    "PIL.ImageShow": "images",
    "plotly.io._renderers": "plots",
    "altair": "plots",
    "bokeh.io.showing": "plots",
}

_adopted: set = set()
_connected: list[Channel] = []


def connect(channel: Channel) -> None:
    """User code follows, and what it shows goes to `channel`."""
    _connected[:] = (channel,)
    if Watcher not in sys.meta_path:
        watch()


def watch() -> None:
    """In the zygote, once it has loaded what it will; elsewhere before user code. Libraries that are there are adopted
    now, others when they come."""
    for name in ADOPTERS:
        if name in sys.modules:
            adopt(name)
    sys.meta_path.insert(0, Watcher)


def channel() -> Channel | None:
    return _connected[-1] if _connected else None


def adopt(name: str) -> None:
    """A library that is not as we know it shows nothing, and works otherwise."""
    if name in _adopted:
        return
    _adopted.add(name)
    try:
        ours = __import__("hutch_runner." + ADOPTERS[name], fromlist=("adopt",))
        ours.adopt(name, sys.modules[name])
    except Exception:
        pass


class Watcher:
    """A finder of modules that finds nothing itself, but learns what is loaded."""

    @classmethod
    def find_spec(cls, name: str, path=None, target=None):
        if name not in ADOPTERS or name in _adopted:
            return None
        for finder in sys.meta_path:
            find = None if finder is cls else getattr(finder, "find_spec", None)
            spec = find(name, path, target) if find is not None else None
            if spec is not None:
                if hasattr(spec.loader, "exec_module"):
                    spec.loader = Loader(spec.loader)
                return spec
        return None


class Loader:
    """Loads a module as the loader that it stands for, which is put back in its place, and adopts it."""

    __slots__ = ("_loader",)

    def __init__(self, loader) -> None:
        self._loader = loader

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module) -> None:
        module.__spec__.loader = module.__loader__ = self._loader
        self._loader.exec_module(module)
        adopt(module.__name__)
