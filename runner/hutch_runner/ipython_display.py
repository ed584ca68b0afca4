"""IPython's display machinery, ending at our displays: results, display(), update_display, clear_output."""
from __future__ import annotations

import builtins
import io
import sys

from IPython.core.displayhook import DisplayHook
from IPython.core.displaypub import DisplayPublisher
from IPython.core.display_trap import DisplayTrap
from IPython.core import formatters
from IPython.core.formatters import DisplayFormatter
from IPython.lib import pretty

from . import display, reprs

__builtins__ = dict(vars(builtins))


class Enough(BaseException):
    """Raised through a value's own code when its text is as long as it may be."""


class Page(io.StringIO):
    """Text of a value, up to what a display may have."""

    def write(self, text: str) -> int:
        if self.tell() > reprs.MOST_TEXT:
            raise Enough
        return super().write(text[: reprs.MOST_TEXT + 1])


class PlainTextFormatter(formatters.PlainTextFormatter):
    """IPython's pretty printer, bounded."""

    def __call__(self, obj: object) -> str:
        page = Page()
        try:
            if not self.pprint or type(obj) in (str, bytes, bytearray):
                return reprs.cut(reprs.bounded_repr(obj))
            printer = pretty.RepresentationPrinter(
                page, self.verbose, self.max_width, self.newline, max_seq_length=self.max_seq_length,
                singleton_pprinters=self.singleton_printers, type_pprinters=self.type_printers,
                deferred_pprinters=self.deferred_printers)
            printer.pretty(obj)
            printer.flush()
        except Enough:
            pass
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return reprs.failed(obj, error)
        return reprs.cut(page.getvalue())


class Formatter(DisplayFormatter):
    """Representations by IPython's rules, and what we know better or can add."""

    _failure = None

    def _formatters_default(self) -> dict:
        known = super()._formatters_default()
        known["text/plain"] = PlainTextFormatter(parent=self)
        return known

    def note_failure(self, exc_tuple) -> None:
        """IPython would show a traceback of a repr that raised."""
        if exc_tuple is not None and exc_tuple[1] is not None:
            self._failure = exc_tuple[1]

    def format(self, obj: object, include=None, exclude=None) -> reprs.Bundle:
        data, metadata = reprs.expert_bundle(obj)
        if data is not None:
            return reprs.select(data, metadata, include, exclude)
        self._failure = None
        try:
            data, metadata = super().format(obj, include=include, exclude=exclude)
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return {"text/plain": reprs.failed(obj, error)}, {}
        if self._failure is not None:
            reprs.complain("a repr of %s raised %s" % (reprs.type_name(obj), reprs.error_text(self._failure)))
            self._failure = None
        if data:
            reprs.add_expert(obj, data)
        return reprs.select(data, metadata, include, exclude)


class ResultHook(DisplayHook):
    """The value of a cell's last expression."""

    def write_output_prompt(self) -> None:
        pass

    def compute_format_data(self, result: object) -> reprs.Bundle:
        data, metadata = super().compute_format_data(result)
        if data:
            reprs.add_json(result, data)
        return data, metadata

    def write_format_data(self, format_dict: dict, md_dict: dict | None = None) -> None:
        display.publish(display.RESULT, format_dict, md_dict)

    def update_user_ns(self, result: object) -> None:
        """Out would keep every figure alive that was ever plotted."""
        full = self.do_full_cache
        try:
            self.do_full_cache = full and not is_plotted(result)
            super().update_user_ns(result)
        finally:
            self.do_full_cache = full

    def log_output(self, format_dict: dict) -> None:
        pass  # it would keep every image

    def finish_displayhook(self) -> None:
        self._is_active = False


def is_plotted(value: object) -> bool:
    """What matplotlib's functions return."""
    if type(value) in (list, tuple) and value:
        value = value[0]
    artist = sys.modules.get("matplotlib.artist")
    container = sys.modules.get("matplotlib.container")
    return artist is not None and isinstance(value, artist.Artist) or (
        container is not None and isinstance(value, container.Container))


class Publisher(DisplayPublisher):
    """display() and its kin."""

    def publish(self, data, metadata=None, source=None, *, transient=None, update=False, **_) -> None:
        self._validate_data(data, metadata)
        handlers = getattr(self.shell, "mime_renderers", {})
        for mime, handler in handlers.items():
            if mime in data:
                handler(data[mime], (metadata or {}).get(mime))
                return
        name = str((transient or {}).get("display_id", ""))
        display.publish(display.UPDATE if update else display.DISPLAY, data, metadata, name)

    def clear_output(self, wait: bool = False) -> None:
        display.clear_output(wait)


def show_captured_figures(shell) -> None:
    """At the end of code that runs inside a cell, as in %%capture: what it drew belongs to whoever captures."""
    drawn = sys.modules.get("matplotlib._pylab_helpers")
    if drawn is not None and drawn.Gcf.figs and not isinstance(shell.display_pub, Publisher):
        from . import figures

        figures.show_all()


class Trap(DisplayTrap):
    """Lets a sys.displayhook stay that a cell has set."""

    def unset(self) -> None:
        if sys.displayhook is not self.hook:
            self.hook = sys.displayhook
        super().unset()


def offer_figure_settings(shell) -> None:
    """`%config InlineBackend.…` and set_matplotlib_formats(): figures.py reads what they set."""
    try:
        from matplotlib_inline.config import InlineBackend
    except ImportError:
        return
    settings = InlineBackend.instance(parent=shell)
    settings.shell = shell
    if settings not in shell.configurables:
        shell.configurables.append(settings)
