"""From code to the API's JSON: every kind of display and every library that draws or holds tables, in the template `viz`,
held against a golden file where it is stable. After a change that is meant: UPDATE_GOLDEN=1, and read the difference."""
from __future__ import annotations

import base64
import glob
import json
import os
import re
import struct

import api_support
import support
from api_support import ApiScenario

GOLDEN = os.path.join(support.ROOT, "tests/scenarios/golden/displays.json")
BEGINNINGS = {"image/png": b"\x89PNG\r\n\x1a\n", "image/jpeg": b"\xff\xd8\xff", "image/gif": b"GIF8",
              "image/webp": b"RIFF", "application/pdf": b"%PDF-"}
SETUP = """
import io
import matplotlib.pyplot as plt, numpy as np, pandas as pd
from IPython.display import *
from PIL import Image
frame = pd.DataFrame({'city': ['Oslo', 'Kyiv', '東京'], 'people': [0.7, 2.9, 14.0], 'coast': [True, False, True]})
red = Image.new('RGB', (7, 5), 'red')
def raw(kind, mime):
    bytes_ = io.BytesIO()
    red.save(bytes_, kind)
    display({mime: bytes_.getvalue()}, raw=True)
"""
KINDS = {
    "text": "{'a': [1, 2]}",
    "html": "HTML('<b>a</b>')",
    "markdown": "Markdown('*a*')",
    "latex": "Math('x^2')",
    "svg": "SVG('<svg xmlns=\"http://www.w3.org/2000/svg\"/>')",
    "json": "JSON({'a': 1})",
    "javascript": "Javascript('1')",
    "png": "red",
    "jpeg": "raw('JPEG', 'image/jpeg')",
    "gif": "raw('GIF', 'image/gif')",
    "webp": "raw('WEBP', 'image/webp')",
    "pdf": "raw('PDF', 'application/pdf')",
}
LIBRARIES = {
    "sympy": "import sympy\nsympy.Symbol('x') ** 2",
    "pandas frame": "frame",
    "pandas series": "frame.set_index('city')['people']",
    "numpy": "np.arange(6).reshape(2, 3)",
    "polars": "import polars\npolars.DataFrame({'a': [1, None], 'b': ['x', 'y']})",
    "pyarrow": "import pyarrow\npyarrow.table({'a': [1, None], 'b': ['x', 'y']})",
    "matplotlib line": "plt.plot([1, 2, 3], [1, 4, 9], label='squares'); plt.title('T'); plt.xlabel('t (s)'); plt.legend();",
    "matplotlib bars": "plt.bar(frame['city'], frame['people']);",
    "matplotlib scatter": "plt.scatter([1, 2], [3, 4]);",
    "matplotlib pie": "plt.pie([1, 3], labels=['a', 'b']);",
    "matplotlib boxes": "plt.boxplot([[1, 2, 3], [2, 3, 9]]);",
    "matplotlib animation": "from matplotlib.animation import FuncAnimation\nfig, ax = plt.subplots(figsize=(2, 2))\n"
                            "[line] = ax.plot([0, 1])\nFuncAnimation(fig, lambda i: line.set_ydata([0, i]), frames=3)",
    "seaborn": "import seaborn\nseaborn.barplot(frame, x='city', y='people');",
    "plotly": "import plotly.express\nplotly.express.line(frame, x='city', y='people')",
    "altair": "import altair\naltair.Chart(frame).mark_bar().encode(x='city', y='people')",
    "bokeh": "from bokeh.plotting import figure\np = figure(); r = p.line([1, 2], [3, 4])\np",
}


def setUpModule() -> None:
    if not glob.glob(support.DATA + "/templates/viz-*/env"):
        support.missing("the template viz: hutch template build viz")
    api_support.begin()


def tearDownModule() -> None:
    api_support.finish()


def check_binary(mime: str, text: str) -> str:
    data = base64.b64decode(text, validate=True)
    assert data.startswith(BEGINNINGS[mime]), (mime, data[:10])
    if mime == "image/png":
        width, height = struct.unpack(">II", data[16:24])
        assert 1 <= width < 1600 and 1 <= height < 1600, (width, height)
    return "<%s>" % mime


def stable(name: str, mime: str, value: object) -> object:
    """What is the same in every run; of libraries, also in every version."""
    if mime in BEGINNINGS:
        return check_binary(mime, value)
    if mime.startswith(("application/vnd.plotly", "application/vnd.vegalite")):
        return sorted(set(value) & {"data", "layout", "mark", "encoding"})
    if isinstance(value, str):
        return "<text>" if name in LIBRARIES else re.sub(r"0x[0-9a-fA-F]{6,}", "0x…", value)
    return value


class Libraries(ApiScenario):
    maxDiff = None

    def test_every_kind_and_every_library(self):
        update = "UPDATE_GOLDEN" in os.environ
        golden = {}
        if not update:
            with open(GOLDEN) as file:
                golden = json.load(file)
        seen = {}
        with self.api.session(template="viz", mode="ipython") as session:
            self.assertEqual(session.run(SETUP)["status"], "ok")
            for name, code in {**KINDS, **LIBRARIES}.items():
                with self.subTest(name):
                    run = session.run(code)
                    self.assertEqual((run["status"], run["stderr"]), ("ok", ""), run["error"])
                    shown = [*run["displays"], *([run["result"]] if run["result"] else [])]
                    seen[name] = [{re.sub(r"\.v\d+", ".v…", mime): stable(name, mime, value)
                                   for mime, value in sorted(one["mime"].items())} for one in shown]
                    self.assertTrue(seen[name], "nothing was shown")
                    if not update:
                        self.assertEqual(seen[name], golden.get(name))
        if update:
            with open(GOLDEN, "w") as file:
                json.dump(seen, file, indent=1, ensure_ascii=False, sort_keys=True)
                file.write("\n")
        self.assertEqual(set(seen), set(golden or seen))


if __name__ == "__main__":
    support.main()
