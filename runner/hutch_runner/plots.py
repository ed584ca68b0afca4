"""Plotly, Altair and Bokeh: interactive plots, as the data that a page can draw."""
from __future__ import annotations

import builtins
import sys

from . import display, reprs

__builtins__ = dict(vars(builtins))

PLOTLY = "application/vnd.plotly.v1+json"
MOST_FOR_HTML = 256 << 10  # bytes of data that are sent as a page as well

_no_images: list = []  # not empty once plotly has failed to make one


def adopt(name: str, module) -> None:
    """One of the libraries was just loaded: its show() shows here."""
    if name == "plotly.io._renderers":
        adopt_plotly(module)
    elif name == "altair":
        module.renderers.enable("mimetype")
    elif name == "bokeh.io.showing":
        module._show_file_with_state = lambda obj, *_, **__: display.publish(display.DISPLAY, bokeh_bundle(obj))


def adopt_plotly(module) -> None:
    class Renderer(module.ExternalRenderer):
        def render(self, figure: dict) -> None:
            display.publish(display.DISPLAY, plotly_bundle(figure, "<plotly figure>"))

    module.renderers["hutch"] = Renderer()
    module.renderers.default = "hutch"


def bundle(value: object) -> dict | None:
    plotly = sys.modules.get("plotly.basedatatypes")
    if plotly is not None and isinstance(value, plotly.BaseFigure):
        return plotly_bundle(value, reprs.plain(value))
    bokeh = sys.modules.get("bokeh.models")
    if bokeh is not None and isinstance(value, (bokeh.LayoutDOM, bokeh.Plot)):
        return bokeh_bundle(value)
    return None


def more(value: object) -> dict:
    return {}


def plotly_bundle(figure, text: str) -> dict:
    import plotly.io

    encoded = display.Json(plotly.io.to_json(figure, validate=False))
    data = {"text/plain": text, PLOTLY: encoded}
    if len(encoded) <= MOST_FOR_HTML:
        data["text/html"] = plotly.io.to_html(figure, include_plotlyjs="cdn", full_html=False, validate=False)
    image = plotly_image(figure)
    if image is not None:
        data["image/png"] = image
    return data


def plotly_image(figure) -> bytes | None:
    """Where kaleido is installed and finds the browser that it needs."""
    from importlib import util

    if _no_images or util.find_spec("kaleido") is None:
        return None
    try:
        return sys.modules["plotly.io"].to_image(figure, format="png", validate=False)
    except Exception:
        _no_images.append(True)
        return None


def bokeh_bundle(value) -> dict:
    from bokeh.embed import file_html
    from bokeh.resources import CDN

    return {"text/plain": reprs.plain(value), "text/html": file_html(value, CDN, _always_new=True)}
