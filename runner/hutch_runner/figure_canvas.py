"""The matplotlib backend: Agg, whose show() shows. Loaded by matplotlib itself when the first figure is made."""
from __future__ import annotations

from matplotlib.backend_bases import FigureManagerBase
from matplotlib.backends.backend_agg import FigureCanvasAgg

from . import figures


class FigureManager(FigureManagerBase):
    """One for each figure that pyplot knows."""

    @classmethod
    def pyplot_show(cls, *, block=None) -> None:
        figures.show_all()

    def show(self) -> None:
        """Figure.show(): this one, which stays open."""
        figures.show(self.canvas.figure)


class FigureCanvas(FigureCanvasAgg):
    manager_class = FigureManager
