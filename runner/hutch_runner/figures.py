"""Figures of matplotlib: shown by show() and at the end of a cell, then closed. Loads nothing of matplotlib itself."""
from __future__ import annotations

import builtins
import gc
import io
import os
import sys
import weakref

from . import charts, display, reprs

__builtins__ = dict(vars(builtins))

BACKEND = "module://hutch_runner.figure_canvas"
MIME_TYPES = {"png": "image/png", "svg": "image/svg+xml", "jpeg": "image/jpeg", "pdf": "application/pdf"}
MOST_PIXELS = 32_000_000
MOST_FRAMES = 100
TIGHT = {"bbox_inches": "tight"}

# Figures, and a hash of the pictures of them that are on show.
_shown: weakref.WeakKeyDictionary = weakref.WeakKeyDictionary()


def adopt(name: str, matplotlib) -> None:
    """matplotlib was just loaded. Whoever wants another backend than the template's says so to matplotlib."""
    backend = dict.get(matplotlib.rcParams, "backend")
    if not isinstance(backend, str) or backend.lower() == "agg":
        use_in(matplotlib)


def use() -> None:
    import matplotlib

    use_in(matplotlib)


def use_in(matplotlib) -> None:
    pyplot = sys.modules.get("matplotlib.pyplot")
    if getattr(pyplot, "_backend_mod", None) is not None:
        pyplot.switch_backend(BACKEND)
    else:
        matplotlib.rcParams["backend"] = BACKEND


def warm_up() -> None:
    """One small plot in the zygote: what the first one loads, and makes, every session then has. Leaves no trace."""
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is None or dict.get(sys.modules["matplotlib"].rcParams, "backend") != BACKEND:
        return
    figure, axes = pyplot.subplots()
    axes.plot([1, 2], [1, 2])
    display.clean(figure_bundle(figure))
    pyplot.close("all")
    _shown.clear()
    del figure, axes
    close_fonts()


def close_fonts() -> None:
    """Their files are open, and children must not inherit them."""
    opened = getattr(sys.modules["matplotlib.font_manager"], "_get_font", None)
    if hasattr(opened, "cache_clear"):
        opened.cache_clear()
    gc.collect()


def show_all() -> None:
    """pyplot.show(), and the end of a cell: each figure that is not on show as it is, and then it is closed."""
    helpers = sys.modules["matplotlib._pylab_helpers"]
    canvas = sys.modules.get("hutch_runner.figure_canvas")
    for manager in helpers.Gcf.get_all_fig_managers():
        if canvas is None or not isinstance(manager, canvas.FigureManager):
            continue  # of another backend, which the program chose
        figure = manager.canvas.figure
        try:
            if figure.stale or figure not in _shown:
                before = _shown.get(figure)
                data = figure_bundle(figure)
                if before is None or _shown.get(figure) != before:  # savefig, too, makes a figure stale
                    send(data)
        finally:
            helpers.Gcf.destroy(manager)
            forget_pixels(figure.canvas)


def show(figure) -> None:
    send(figure_bundle(figure))


def send(data: dict) -> None:
    """Where display() would go: IPython's %%capture puts something else there."""
    shell = ipython()
    if shell is None or type(shell.display_pub).__module__ == __package__ + ".ipython_display":
        display.publish(display.DISPLAY, data)
    else:
        shell.display_pub.publish(data)


def bundle(value: object) -> dict | None:
    """For a figure or an animation that is the value of a cell, or given to display()."""
    if isinstance(value, sys.modules["matplotlib.figure"].Figure):
        return figure_bundle(value)
    animation = sys.modules.get("matplotlib.animation")
    if animation is not None and isinstance(value, animation.Animation):
        return animation_bundle(value)
    return None


def more(value: object) -> dict:
    return {}


def figure_bundle(figure) -> dict:
    data = {"text/plain": reprs.plain(figure)}
    width, height = figure.bbox.size
    if width * height > MOST_PIXELS:
        data["text/plain"] += "\n[the image was left out: %d x %d pixels are too many; %s]" % (
            width, height, display.REMEDY)
        return data
    if not figure.axes and not figure.lines and not figure.texts and not figure.images and not figure.patches:
        return data  # nothing but an empty page
    options = print_options()
    for name in formats():
        data[MIME_TYPES[name]] = png(figure) if name == "png" and options == TIGHT else printed(figure, name, options)
    _shown[figure] = hash(tuple(data[MIME_TYPES[name]] for name in formats()))
    try:
        data.update(charts.bundle(figure))
    except Exception:
        pass  # the picture is there
    figure.stale = False
    return data


def png(figure) -> bytes:
    """As print_figure(bbox_inches="tight") makes it, which draws everything twice: first to learn how far it reaches,
    then with the page cut to that. Most figures stay on their page: those are drawn once, and the picture is cut."""
    canvas, own = agg_canvas(figure)
    try:
        canvas._is_saving = True
        canvas.draw()
        renderer = canvas.get_renderer()
        picture = canvas.buffer_rgba()
        box = ink(picture, figure)
        if box is not None and all(is_on_page(artist, renderer, figure.bbox) for artist in loose_artists(figure)):
            return encoded(picture, box, figure.dpi)
        width, height = figure.get_tightbbox(renderer).size * figure.dpi
        if width * height > MOST_PIXELS:  # something is far off: the page as it is
            return encoded(picture, (0, 0, picture.shape[1], picture.shape[0]), figure.dpi)
    finally:
        canvas._is_saving = False
        figure.set_canvas(own)
    return printed(figure, "png", TIGHT)


def ink(picture, figure) -> tuple | None:
    """The part of the page that is not empty, with the usual margin. None when something reaches its edge, where it may
    go on."""
    import numpy

    pixels = numpy.asarray(picture).view(numpy.uint32)[..., 0]
    height, width = pixels.shape
    marked = pixels != pixels[0, 0]
    rows, columns = marked.any(axis=1).nonzero()[0], marked.any(axis=0).nonzero()[0]
    if not len(rows) or rows[0] == 0 or rows[-1] == height - 1 or columns[0] == 0 or columns[-1] == width - 1:
        return None
    left, top, right, bottom = columns[0], rows[0], columns[-1] + 1, rows[-1] + 1
    for axes in figure.axes:  # even where nothing is drawn
        if axes.get_visible():
            x0, y0, x1, y1 = axes.bbox.extents
            left, top, right, bottom = min(left, x0), min(top, height - y1), max(right, x1), max(bottom, height - y0)
    margin = sys.modules["matplotlib"].rcParams["savefig.pad_inches"] * figure.dpi
    return (max(0, round(left - margin)), max(0, round(top - margin)),
            min(width, round(right + margin)), min(height, round(bottom + margin)))


def loose_artists(figure):
    """Those that may stand wholly beside the page; all others are clipped, or hang on something that is seen."""
    yield from figure.texts
    yield from figure.legends
    for axes in figure.axes:
        yield from axes.texts
        yield from axes.tables
        yield from axes.artists
        yield from (axes.title, axes.xaxis.label, axes.yaxis.label)
        legend = axes.get_legend()
        if legend is not None:
            yield legend


def is_on_page(artist, renderer, page) -> bool:
    clipped = artist.get_clip_on() and artist.get_clip_box() is not None
    empty = hasattr(artist, "get_text") and not artist.get_text()
    if clipped or empty or not artist.get_visible():
        return True
    x0, y0, x1, y1 = artist.get_window_extent(renderer).extents
    return page.x0 <= x0 and page.y0 <= y0 and x1 <= page.x1 and y1 <= page.y1


def agg_canvas(figure) -> tuple:
    """A canvas to draw on, and the one that the figure has."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    own = figure.canvas
    return (own if isinstance(own, FigureCanvasAgg) else FigureCanvasAgg(figure)), own


def encoded(picture, box: tuple, dpi: float) -> bytes:
    import numpy
    from PIL import Image

    left, top, right, bottom = box
    part = numpy.asarray(picture)[top:bottom, left:right]
    if (part[..., 3] == 255).all():
        part = part[..., :3]  # a quarter less to pack
    file = io.BytesIO()
    Image.fromarray(numpy.ascontiguousarray(part)).save(file, "png", dpi=(dpi, dpi))
    return file.getvalue()


def printed(figure, name: str, options: dict) -> bytes | str:
    file = io.BytesIO()
    own = {"dpi": figure.dpi, "facecolor": figure.get_facecolor(), "edgecolor": figure.get_edgecolor()}
    figure.canvas.print_figure(file, format=name, **{**own, **options})
    return file.getvalue().decode() if name == "svg" else file.getvalue()


def formats() -> list[str]:
    """Which kinds of pictures are wanted: as IPython's settings say, or else the environment."""
    wanted = [name for name, mime in MIME_TYPES.items() if is_set_in_ipython(mime)]
    if not wanted:
        given = os.environ.get("HUTCH_FIGURE_FORMATS", "").lower().replace("jpg", "jpeg").split(",")
        wanted = [name for name in MIME_TYPES if name in [word.strip() for word in given]]
    return wanted or ["png"]


def is_set_in_ipython(mime: str) -> bool:
    shell = ipython()
    if shell is None:
        return False
    return sys.modules["matplotlib.figure"].Figure in shell.display_formatter.formatters[mime].type_printers


def ipython():
    ours = sys.modules.get("hutch_runner.ipython_shell")
    return ours._prepared[0] if ours is not None and ours._prepared else None


def print_options() -> dict:
    config = sys.modules.get("matplotlib_inline.config")
    if config is None or not config.InlineBackend.initialized():
        return TIGHT
    return dict(config.InlineBackend.instance().print_figure_kwargs)


def forget_pixels(canvas) -> None:
    """A closed figure that somebody still holds needs no megabytes of picture."""
    if getattr(canvas, "_lastKey", None) is not None:
        canvas._lastKey = canvas.renderer = None


def animation_bundle(value) -> dict:
    """As HTML if matplotlib is told so, and as GIF if it is short."""
    data = {"text/plain": reprs.plain(value)}
    html, _ = reprs.call(value, "_repr_html_")
    if html is not None:
        data["text/html"] = html
    frames = getattr(value, "_save_count", None)
    if isinstance(frames, int) and frames <= MOST_FRAMES:
        picture = gif(value)
        if len(picture) <= display.MOST_ITEM:
            data["image/gif"] = picture
    figure = value._fig
    figure.stale = False
    _shown[figure] = 0
    return data


def gif(value) -> bytes:
    import tempfile

    from matplotlib.animation import PillowWriter

    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "animation.gif")
        value.save(path, writer=PillowWriter(fps=1000 / max(getattr(value, "_interval", 200), 1)))
        with open(path, "rb") as file:
            return file.read()
