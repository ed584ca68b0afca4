"""Unit tests of what is asked at once and of starts that last."""
import unittest

import load
from testing_peer import CountingPeer


def quiet(text: str) -> None:
    """Says nothing."""


class LoadTest(unittest.TestCase):
    def test_a_hundred_where_they_fit_into_memory(self) -> None:
        burst = load.plan_burst(CountingPeer(), 100, free=20_000_000_000)
        self.assertEqual((burst.count, burst.why), (100, ""))

    def test_fewer_are_told_with_the_reason(self) -> None:
        burst = load.plan_burst(CountingPeer(), 100, free=1_000_000_000)
        self.assertEqual(burst.count, int(1000 * load.SHARE / 40))
        self.assertIn("instead of 100: about 40 MB each, and 1.0 GB are free", burst.why)

    def test_a_burst_is_answered_as_often_as_asked(self) -> None:
        peer = CountingPeer()
        burst, = load.measure_bursts([peer], 3, 2, quiet)
        self.assertEqual((peer.runs, len(burst.seconds), burst.failures), (6, 2, []))

    def test_who_is_given_up_has_no_time(self) -> None:
        self.assertEqual(load.last_answered([(12.0, ""), (15.0, ""), (99.0, "no answer")], begin=10.0), 15.0)
        self.assertEqual(load.last_answered([(99.0, "no answer")], begin=10.0), 10.0)

    def test_who_never_answers_is_asked_once(self) -> None:
        burst, = load.measure_bursts([CountingPeer(fails=True)], 3, 2, quiet)
        self.assertEqual((len(burst.seconds), burst.failures), (1, ["it failed"] * 3))

    def test_starts_that_last_end_when_everything_is_taken_apart(self) -> None:
        peer = CountingPeer()
        found, = load.measure_sustained([peer], 0.05, 2, quiet)
        self.assertEqual((len(found.rates), peer.settled, found.failures), (2, 2, []))
        self.assertEqual(found.starts, peer.runs - 2)  # two are not measured

    def test_what_is_slow_is_not_asked_for_many_a_second(self) -> None:
        found, = load.measure_sustained([CountingPeer(seconds=1.5)], 0.05, 1, quiet)
        self.assertEqual((found.rates, found.failures), ([], ["one start takes 1.5 s, more than 1"]))


if __name__ == "__main__":
    unittest.main()
