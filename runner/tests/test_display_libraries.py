"""Displays of libraries: figures, charts, tables, images, interactive plots. What is not installed is skipped by name."""
from __future__ import annotations

import io
import os
import unittest

from support import RunnerTest, ShellTest, needs, run_script

TABLE, CHART = "application/vnd.hutch.table+json", "application/vnd.hutch.chart+json"
PLOTS = int(os.environ.get("HUTCH_TEST_PLOTS", "60"))  # 1000 for the whole truth


def picture(data: bytes):
    from PIL import Image

    image = Image.open(io.BytesIO(data))
    image.load()
    return image


class LibraryTest(ShellTest):
    environment = {"MPLBACKEND": "Agg", "OPENBLAS_NUM_THREADS": "1"}


class Figures:
    """In plain cells and in IPython's."""

    def setUp(self) -> None:
        super().setUp()
        self.show("import matplotlib.pyplot as plt")

    def test_a_figure_appears_at_the_end_of_a_cell_and_is_closed(self) -> None:
        got = self.one("x = plt.plot([1, 2, 3], [1, 4, 9])")
        self.assertEqual((got.kind, got.text), ("display", "<Figure size 640x480 with 1 Axes>"))
        image = picture(got.data["image/png"])
        self.assertEqual(image.format, "PNG")
        self.assertTrue(500 <= image.width <= 640 and 380 <= image.height <= 480, image.size)
        self.assertGreater(len(image.convert("RGB").getcolors(1 << 16)), 20)  # something is drawn
        self.assertEqual(self.one("plt.get_fignums()").text, "[]")

    def test_show_shows_in_its_place(self) -> None:
        got = self.show("display('before')\nx = plt.plot([1, 2])\nplt.show()\ndisplay('after')\nplt.show()")
        self.assertEqual([each.text[:7] for each in got], ["'before", "<Figure", "'after'"])

    def test_a_figure_is_shown_once(self) -> None:
        for code in ("fig, ax = plt.subplots(); x = ax.plot([1, 2])\nfig", "fig, ax = plt.subplots(); x = ax.plot([1, 2])\n"
                     "display(fig)", "fig, ax = plt.subplots(); x = ax.plot([1, 2])\nfig.show()\nfig.savefig('f.png')"):
            with self.subTest(code=code):
                self.assertIn("image/png", self.one(code).data)
        self.assertEqual(len(self.show("fig, ax = plt.subplots(); x = ax.plot([1])\ndisplay(fig)\nx = ax.set_title('new')")), 2)
        self.assertEqual(self.one("fig").kind, "result")  # again, later, on request

    def test_size_and_resolution_are_the_figures_own(self) -> None:
        small = picture(self.one("x = plt.figure(figsize=(4, 3), dpi=50); x = plt.plot([1])").data["image/png"])
        self.assertTrue(150 <= small.width <= 200, small.size)
        wide = picture(self.one("fig, ax = plt.subplots(); x = ax.plot([1], label='l' * 60)\n"
                                "x = ax.legend(bbox_to_anchor=(1.05, 1), loc='upper left')").data["image/png"])
        self.assertGreater(wide.width, 640)  # what stands beside the page is not cut off
        beside = picture(self.one("x = plt.plot([1]); x = plt.gcf().text(1.3, .5, 'far')").data["image/png"])
        self.assertGreater(beside.width, 800)
        huge = self.one("x = plt.figure(figsize=(200, 200)); x = plt.plot([1])")
        self.assertEqual(list(huge.data), ["text/plain"])
        self.assertIn("20000 x 20000 pixels are too many", huge.text)

    def test_a_figure_that_cannot_be_drawn_fails_its_cell_only(self) -> None:
        status, errors = self.cell("x = plt.title(r'$\\frac{$')")
        self.assertEqual((status, errors[0].name), (1, "ValueError"))
        self.assertEqual(self.show("x = 1"), [])
        status, errors = self.cell("x = plt.plot([1])\n1/0")
        self.assertEqual((status, [error.name for error in errors]), (1, ["ZeroDivisionError"]))
        self.assertIn("image/png", self.connection.displays[-1].data)

    def test_formats_come_from_the_environment(self) -> None:
        got = self.one("import os; os.environ['HUTCH_FIGURE_FORMATS'] = 'png,svg'\nx = plt.plot([1])")
        self.assertEqual(sorted(got.data), [CHART, "image/png", "image/svg+xml", "text/plain"])
        self.assertIn(b"<svg", got.data["image/svg+xml"])

    def test_a_backend_that_was_chosen_stays(self) -> None:
        self.assertEqual(self.show("import matplotlib; matplotlib.use('svg')\nx = plt.plot([1])\nplt.show()"), [])
        self.assertEqual(self.one("matplotlib.get_backend()").text, "'svg'")

    def test_charts_are_data(self) -> None:
        def chart(code: str) -> dict:
            return self.one("import datetime as dt\n" + code + "\nx = None").json(CHART)

        line = chart("plt.plot([1, 2], [3, float('nan')], label='a'); plt.axhline(1); plt.xlabel('Time (s)'); "
                     "plt.ylabel('U [V]'); plt.title('T'); plt.xscale('log')")
        self.assertEqual((line["type"], line["title"], line["x_unit"], line["y_unit"], line["x_scale"], line["elements"]),
                         ("line", "T", "s", "V", "log", [{"label": "a", "points": [[1, 3], [2, None]]}]))
        dates = chart("plt.plot([dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2)], [1, 2])")
        self.assertEqual((dates["x_scale"], dates["elements"][0]["points"][0]), ("datetime", ["2020-01-01T00:00:00", 1]))
        self.assertEqual(chart("plt.plot(['u', 'v'], [1, 2])")["elements"][0]["points"], [["u", 1], ["v", 2]])
        many = chart("plt.scatter(range(30000), range(30000))")
        self.assertEqual((many["type"], many["truncated"], len(many["elements"][0]["points"])), ("scatter", True, 10000))
        bars = [{"label": "a", "group": "Group 0", "value": 1}, {"label": "b", "group": "Group 0", "value": 2}]
        self.assertEqual(chart("plt.bar(['a', 'b'], [1, 2])")["elements"], bars)
        self.assertEqual(chart("plt.barh(['a', 'b'], [1, 2]); plt.xlabel('n')")["y_label"], "n")
        self.assertEqual(chart("plt.pie([1, 3], labels=['x', 'y'])")["elements"],
                         [{"label": "x", "angle": 90, "radius": 1}, {"label": "y", "angle": 270, "radius": 1}])
        for options in ("", ", patch_artist=True", ", orientation='horizontal'"):
            box = chart("plt.boxplot([[1, 2, 3, 4, 20], [2, 3, 4]]%s)" % options)
            self.assertEqual((box["type"], box["elements"][0]), ("box_and_whisker", {
                "label": "1", "min": 1, "first_quartile": 2, "median": 3, "third_quartile": 4, "max": 4, "outliers": [20]}))
        both = chart("f, (a, b) = plt.subplots(1, 2); a.plot([1]); b.bar(['k'], [2]); f.suptitle('S')")
        self.assertEqual((both["type"], both["title"], [each["type"] for each in both["elements"]]),
                         ("superchart", "S", ["line", "bar"]))
        self.assertEqual(chart("plt.imshow([[1, 2]]); plt.colorbar()"), {"type": "unknown", "title": None, "elements": []})

    def test_an_animation_is_a_gif(self) -> None:
        got = self.one("import matplotlib.animation\nfig, ax = plt.subplots(); l, = ax.plot([0, 1])\n"
                       "matplotlib.animation.FuncAnimation(fig, lambda i: l.set_ydata([0, i]), frames=3)")
        self.assertEqual(picture(got.data["image/gif"]).n_frames, 3)

    def test_many_plots_leave_memory_as_it_was(self) -> None:
        size = "int(open('/proc/self/statm').read().split()[1]) * 4096"
        for _ in range(10):
            self.show("plt.plot(range(100))")
        before = int(self.one(size).text)
        for _ in range(PLOTS):
            self.show("plt.plot(range(100))")
        grown = (int(self.one(size).text) - before) / (1 << 20)
        self.assertLess(grown, 40, "%d plots: %.0f MiB more" % (PLOTS, grown))


@needs("matplotlib")
class PlainFiguresTest(Figures, LibraryTest):
    def test_a_script_shows_at_show_only(self) -> None:
        code = "import matplotlib.pyplot as plt\nplt.plot([1])\n%s\nplt.plot([2])\nprint('end')"
        for show, count in (("plt.show()", 1), ("pass", 0)):
            got = RunnerTest.send(self, run_script(code % show, environment={"MPLBACKEND": "Agg"}))
            self.assertEqual((got.out, got.err, got.code, len(got.displays)), ("end\n", "", 0, count))


@needs("matplotlib", "IPython")
class IPythonFiguresTest(Figures, LibraryTest):
    ipython = True

    def test_ipythons_settings_are_honoured(self) -> None:
        for name in ("inline", "qt", "notebook", "widget", ""):
            self.assertEqual(self.show("%matplotlib " + name), [])
        self.show("%config InlineBackend.figure_formats = ['svg']")
        self.assertEqual(sorted(self.one("x = plt.plot([1])").data), [CHART, "image/svg+xml", "text/plain"])
        self.show("from matplotlib_inline.backend_inline import set_matplotlib_formats\nset_matplotlib_formats('png', 'pdf')")
        self.assertEqual(sorted(self.one("x = plt.plot([1])").data), ["application/pdf", CHART, "image/png", "text/plain"])

    def test_figures_are_captured_like_everything_else(self) -> None:
        for drawn in ("x = plt.plot([1])", "x = plt.plot([1]); plt.show()"):
            self.assertEqual(self.show("%%capture held\ndisplay('a')\n" + drawn), [])
            self.assertEqual([sorted(each.data)[-2:] for each in self.show("held()")],
                             [["text/plain"], ["image/png", "text/plain"]])
        self.assertIn("image/png", self.one("x = plt.plot([1])").data)


class Tables:
    """In plain cells and in IPython's."""

    @needs("pandas")
    def test_data_frames(self) -> None:
        self.show("import pandas as pd, numpy as np, decimal")
        got = self.one("pd.DataFrame({'n': [1.5, float('nan')], 't': pd.to_datetime(['2020-01-02', None]), 's': ['é', 'x' * 999], "
                       "'o': [decimal.Decimal('1.50'), [1]], 'b': [True, False]}, index=['r', 's'])")
        self.assertTrue({"text/plain", "text/html", TABLE} <= set(got.data))
        table = got.json(TABLE)
        self.assertEqual([column["name"] for column in table["columns"]], ["n", "t", "s", "o", "b"])
        self.assertEqual(table["rows"][0], [1.5, "2020-01-02T00:00:00", "é", "1.50", True])
        self.assertEqual((table["rows"][1][:2], len(table["rows"][1][2]), table["rows"][1][3]), ([None, None], 256, "[1]"))
        self.assertEqual((table["index"], table["shape"], table["truncated"]), (["r", "s"], [2, 5], False))
        big = self.one("pd.DataFrame(np.zeros((100000, 300)))")
        table = big.json(TABLE)
        self.assertEqual((len(table["rows"]), len(table["columns"]), table["shape"], table["truncated"]),
                         (100, 50, [100000, 300], True))
        self.assertLess(sum(map(len, big.data.values())), 200_000)
        levels = self.one("pd.DataFrame({('a', 'b'): [1]}, index=pd.MultiIndex.from_tuples([('x', 1)]))").json(TABLE)
        self.assertEqual((levels["columns"][0]["name"], levels["index"]), ("a, b", [["x", 1]]))
        series = self.one("pd.Series(range(10 ** 6), name='v')").json(TABLE)
        self.assertEqual((series["columns"], series["shape"], series["truncated"]), ([{"name": "v", "dtype": "int64"}],
                                                                                   [1000000], True))
        for code in ("pd.DataFrame()", "pd.DataFrame({'a': []})", "pd.Series([], dtype=float)", "pd.Index([1])",
                     "pd.DataFrame({'c': pd.Categorical(['a', None])})", "pd.DataFrame({'p': pd.period_range('2020', periods=2)})",
                     "pd.DataFrame({'a': [1, 2]}).groupby('a').size()"):
            with self.subTest(code=code):
                self.assertIn(TABLE, self.one(code).data)

    @needs("numpy")
    def test_arrays(self) -> None:
        self.show("import numpy as np")
        table = self.one("np.array([[1, 2], [3, 4]])").json(TABLE)
        self.assertEqual((table["rows"], table["shape"]), ([[1, 2], [3, 4]], [2, 2]))
        self.assertEqual(self.one("np.array([1.5, np.inf])").json(TABLE)["rows"], [[1.5], [None]])
        self.assertEqual(self.one("np.array([(1, 'a')], dtype=[('n', int), ('s', 'U1')])").json(TABLE)["rows"], [[1, "a"]])
        self.assertEqual(list(self.one("np.zeros((2, 2, 2))").data), ["text/plain"])
        self.assertLess(sum(map(len, self.one("np.arange(10 ** 7)").data.values())), 10_000)

    @needs("polars")
    def test_polars(self) -> None:
        table = self.one("import polars as pl\npl.DataFrame({'a': [1, None], 'b': ['x', 'y']})").json(TABLE)
        self.assertEqual((table["rows"], table["shape"]), ([[1, "x"], [None, "y"]], [2, 2]))

    @needs("pyarrow")
    def test_pyarrow(self) -> None:
        table = self.one("import pyarrow as pa\npa.table({'a': [1, None], 'b': ['x', 'y']})").json(TABLE)
        self.assertEqual((table["rows"], table["shape"]), ([[1, "x"], [None, "y"]], [2, 2]))


class Pictures:
    """In plain cells and in IPython's."""

    @needs("PIL")
    def test_images_of_pil(self) -> None:
        self.show("from PIL import Image\nimport io\nred = Image.new('RGB', (30, 20), 'red')")
        for code, kind in (("red", "result"), ("red.show()", "display")):
            got = self.one(code)
            self.assertEqual((got.kind, picture(got.data["image/png"]).size), (kind, (30, 20)))
        for mode in ("1", "L", "LA", "P", "RGBA", "CMYK", "YCbCr", "HSV", "I", "F", "LAB"):
            with self.subTest(mode=mode):
                self.assertIn("image/png", self.one("Image.new('%s', (3, 2))" % mode).data)
        got = self.one("b = io.BytesIO(); red.save(b, 'jpeg'); Image.open(b)")
        self.assertEqual(picture(got.data["image/jpeg"]).size, (30, 20))
        got = self.one("Image.new('RGB', (5000, 4000))")
        self.assertLess(picture(got.data["image/png"]).width, 2500)
        self.assertIn("[shown at", got.text)

    @needs("plotly")
    def test_plotly(self) -> None:
        self.show("import plotly.graph_objects as go\nfig = go.Figure(data=[go.Bar(y=[1, float('nan')])])")
        for code, kind in (("fig", "result"), ("fig.show()", "display")):
            got = self.one(code)
            self.assertEqual((got.kind, got.json("application/vnd.plotly.v1+json")["data"][0]["y"]), (kind, [1, None]))
            self.assertIn("text/html", got.data)
        self.assertNotIn("text/html", self.one("go.Figure(data=[go.Bar(y=list(range(10 ** 5)))])").data)

    @needs("altair", "pandas")
    def test_altair(self) -> None:
        got = self.one("import altair, pandas\naltair.Chart(pandas.DataFrame({'x': [1]})).mark_point().encode(x='x')")
        [mime] = [mime for mime in got.data if mime.startswith("application/vnd.vegalite.v")]
        self.assertEqual(got.json(mime)["mark"]["type"], "point")

    @needs("bokeh")
    def test_bokeh(self) -> None:
        self.show("from bokeh.plotting import figure, show\np = figure(); r = p.line([1, 2], [3, 4])")
        for code, kind in (("show(p)", "display"), ("p", "result")):
            got = self.one(code)
            self.assertEqual(got.kind, kind)
            self.assertIn(b"bokeh", got.data["text/html"])

    @needs("seaborn")
    def test_seaborn(self) -> None:
        got = self.one("import seaborn, pandas\nx = seaborn.boxplot(data=pandas.DataFrame({'g': list('uuv'), 'y': [1, 2, 3]}), "
                       "x='g', y='y')")
        self.assertEqual((got.json(CHART)["type"], got.json(CHART)["elements"][0]["label"]), ("box_and_whisker", "u"))


class PlainTablesTest(Tables, LibraryTest):
    pass


class PlainPicturesTest(Pictures, LibraryTest):
    pass


@needs("IPython")
class IPythonTablesTest(Tables, LibraryTest):
    ipython = True


@needs("IPython")
class IPythonPicturesTest(Pictures, LibraryTest):
    ipython = True

    def test_ipythons_own_kinds(self) -> None:
        self.show("from IPython.display import *")
        for code, mime, data in (("HTML('<b>')", "text/html", b"<b>"), ("Markdown('#')", "text/markdown", b"#"),
                                 ("Latex('$x$')", "text/latex", b"$x$"), ("Math('x')", "text/latex", b"$\\displaystyle x$"),
                                 ("JSON({'a': 1})", "application/json", b'{"a":1}'),
                                 ("Javascript('1')", "application/javascript", b"1"),
                                 ("GeoJSON({'type': 'Point'})", "application/geo+json", b'{"type":"Point"}'),
                                 ("Image(data=b'\\x89PNG\\r\\n\\x1a\\n' + bytes(30), format='png')", "image/png", None)):
            with self.subTest(code=code):
                got = self.one(code)
                self.assertIn(mime, got.data)
                self.assertIn(data, (None, got.data[mime]))
        self.assertIn("a video is not shown", self.one("Video(b'x', embed=True, mimetype='video/mp4')").text)

    @needs("sympy")
    def test_sympy(self) -> None:
        self.assertEqual(self.one("import sympy\nsympy.Symbol('x') ** 2").data["text/latex"], b"$\\displaystyle x^{2}$")


if __name__ == "__main__":
    unittest.main()
