"""Unit tests of the pictures."""
import unittest
import xml.etree.ElementTree as ElementTree

import svg
from svg import Bar, chart

NAMESPACE = "{http://www.w3.org/2000/svg}"


def parts(picture: str, tag: str) -> list[ElementTree.Element]:
    return list(ElementTree.fromstring(picture).iter(NAMESPACE + tag))


class SvgTest(unittest.TestCase):
    def setUp(self) -> None:
        self.picture = chart("Title <&>", "ms", [Bar("slow", 1000.0), Bar("hutch engine", 4.0), Bar("middle", 63.2)])

    def test_it_is_well_formed_and_has_a_title(self) -> None:
        self.assertEqual(parts(self.picture, "title")[0].text, "Title <&>")

    def test_the_shortest_bar_is_on_top_and_widths_are_logarithmic(self) -> None:
        labels = [text.text for text in parts(self.picture, "text") if text.get("text-anchor") == "end"]
        self.assertEqual(labels, ["hutch engine", "middle", "slow"])
        widths = [float(bar.get("width", "0")) for bar in parts(self.picture, "rect")]
        whole = svg.WIDTH - svg.LEFT - svg.RIGHT
        self.assertAlmostEqual(widths[2], whole, delta=1)
        self.assertAlmostEqual(widths[1], whole * 0.6, delta=1)

    def test_hutch_stands_out(self) -> None:
        self.assertEqual([bar.get("class") for bar in parts(self.picture, "rect")], ["own", "bar", "bar"])

    def test_every_bar_says_its_value_and_the_axis_its_unit(self) -> None:
        texts = [text.text for text in parts(self.picture, "text")]
        for words in ("4.00", "63.2", "1,000", "10", "100", "ms, logarithmic; shorter is better"):
            self.assertIn(words, texts)

    def test_dark_pages_are_provided_for(self) -> None:
        self.assertIn("prefers-color-scheme: dark", self.picture)

    def test_small_and_equal_values_have_an_axis(self) -> None:
        self.assertEqual(len(parts(chart("t", "ms", [Bar("a", 0.1), Bar("b", 0.1)]), "rect")), 2)

    def test_what_has_no_place_on_the_axis_is_named(self) -> None:
        picture = chart("t", "MB", [Bar("a", 1.0), Bar("b", -1.0), Bar("c", None)])
        self.assertEqual(len(parts(picture, "rect")), 1)
        self.assertIn("Not drawn, without a figure: b, c", [text.text for text in parts(picture, "text")])
        with self.assertRaises(ValueError):
            chart("t", "MB", [Bar("b", 0.0)])

    def test_a_long_note_has_lines_and_room_for_them(self) -> None:
        one, many = (chart("t", "MB", [Bar("a", 1.0)] + [Bar("a long name", None)] * count) for count in (1, 30))
        heights = [int(ElementTree.fromstring(picture).get("height", "0")) for picture in (one, many)]
        self.assertEqual((heights[1] - heights[0]) % svg.NOTE_LINE, 0)
        self.assertGreater(heights[1], heights[0])

    def test_where_more_is_better_the_longest_is_on_top(self) -> None:
        picture = chart("t", "starts a second", [Bar("a", 1.0), Bar("b", 5.0)], "longer")
        texts = [text.text for text in parts(picture, "text")]
        self.assertLess(texts.index("b"), texts.index("a"))
        self.assertIn("starts a second, logarithmic; longer is better", texts)

    def test_only_tables_with_figures_are_drawn(self) -> None:
        rows = [{"peer": "a", "p50": 1.0}, {"peer": "b", "reason": "failed"}]
        results = {"peers": [{"name": "docker", "missing": "no engine"}, {"name": "a", "missing": ""}],
                   "workloads": {"print": {"title": "print", "rows": rows},
                                 "memory": {"title": "memory", "rows": [{"peer": "b", "reason": "failed"}]}}}
        drawn = svg.charts(results)
        self.assertEqual(list(drawn), ["print"])
        self.assertIn("figure: b, docker<", drawn["print"])


if __name__ == "__main__":
    unittest.main()
