"""The programs that every peer runs, and what each must print."""
from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Program:
    """A program that prints `expected` in a fresh instance."""

    name: str
    title: str
    code: str
    expected: str
    libraries: bool = False  # needs pandas and matplotlib


PRINT = Program("print", "print(1), fresh instance", "print(1)", "1\n")

# The same text as kGroupBy in src/cli/bench_command.cc.
GROUP_BY = Program(
    "pandas", "pandas group-by, fresh instance",
    "import pandas as pd\n"
    "frame = pd.DataFrame({'region': ['north', 'east', 'south', 'west'] * 250, 'amount': range(1000)})\n"
    "for region, amount in frame.groupby('region')['amount'].sum().items():\n"
    "    print(region, amount)\n",
    "east 124750\nnorth 124500\nsouth 125000\nwest 125250\n", libraries=True)

PLOT = Program(
    "plot", "matplotlib line plot to PNG, fresh instance",
    "import io\n"
    "import matplotlib\n"
    "matplotlib.use('Agg')\n"
    "import matplotlib.pyplot as plt\n"
    "plt.plot([1, 4, 2, 3])\n"
    "picture = io.BytesIO()\n"
    "plt.savefig(picture, format='png')\n"
    "print(picture.getvalue()[1:4], len(picture.getvalue()) > 1000)\n",
    "b'PNG' True\n", libraries=True)

FRESH = {program.name: program for program in (PRINT, GROUP_BY, PLOT)}

CELL = "x += 1"
CELL_TITLE = "second cell of a live session: x += 1, there and back"
IMPORT_PANDAS = "import pandas"
