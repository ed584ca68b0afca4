"""Unit tests of what is put into BENCHMARKS.md."""
import pathlib
import tempfile
import unittest

import render
from test_markdown import FACTS, timing

FOUND = {"machine": FACTS, "notes": [], "better": [], "peers": [],
         "workloads": {"print": timing(), "memory": {"title": "memory", "rows": [{"peer": "a", "reason": "failed"}]}}}


class RenderTest(unittest.TestCase):
    def test_headings_fit_beneath_one_of_the_second_level(self) -> None:
        heads = [line for line in render.section(FOUND).splitlines() if line.startswith("#")]
        self.assertEqual([head.split(" ")[0] for head in heads], ["###"] * 4)

    def test_plots_are_linked_where_they_are_written(self) -> None:
        self.assertIn("\n![print](docs/images/peers-print.svg)\n", render.section(FOUND))
        self.assertNotIn("peers-memory.svg", render.section(FOUND))

    def test_plots_of_an_earlier_run_are_removed(self) -> None:
        with tempfile.TemporaryDirectory() as name:
            directory = pathlib.Path(name)
            for old in ("peers-memory.svg", "somebody-elses.svg"):
                (directory / old).write_text("old", encoding="utf-8")
            render.write_plots(FOUND, directory)
            self.assertEqual({path.name for path in directory.iterdir()}, {"peers-print.svg", "somebody-elses.svg"})


if __name__ == "__main__":
    unittest.main()
