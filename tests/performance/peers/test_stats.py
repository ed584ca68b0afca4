"""Unit tests of the statistics."""
import unittest

from stats import Summary, percentile, ratio, summarize


class StatsTest(unittest.TestCase):
    def test_a_percentile_lies_between_its_neighbours(self) -> None:
        self.assertEqual(percentile([4.0, 1.0, 3.0, 2.0], 50), 2.5)
        self.assertEqual(percentile([1.0, 2.0, 3.0], 0), 1.0)
        self.assertEqual(percentile([1.0, 2.0, 3.0], 100), 3.0)
        self.assertAlmostEqual(percentile([float(value) for value in range(101)], 95), 95.0)

    def test_one_sample_is_its_median(self) -> None:
        self.assertEqual(summarize([7.0]), Summary(count=1, p50=7.0, p95=None, p99=None, spread=0.0))

    def test_the_spread_is_the_interquartile_range_over_the_median(self) -> None:
        self.assertAlmostEqual(summarize([1.0, 2.0, 3.0, 4.0, 5.0]).spread, 2 / 3)

    def test_the_order_of_samples_does_not_matter(self) -> None:
        self.assertEqual(summarize([5.0, 1.0, 3.0]), summarize([1.0, 3.0, 5.0]))

    def test_few_samples_have_no_high_percentiles(self) -> None:
        def told(count: int) -> tuple[bool, bool]:
            summary = summarize([1.0] * count)
            return summary.p95 is not None, summary.p99 is not None

        self.assertEqual([told(count) for count in (19, 20, 99, 100)],
                         [(False, False), (True, False), (True, False), (True, True)])

    def test_no_samples_are_an_error(self) -> None:
        with self.assertRaises(ValueError):
            summarize([])

    def test_without_an_anchor_there_is_no_ratio(self) -> None:
        self.assertEqual(ratio(3.0, 2.0), 1.5)
        self.assertIsNone(ratio(3.0, None))


if __name__ == "__main__":
    unittest.main()
