"""Unit tests of what is told of memory, and what is not."""
import unittest
from unittest import mock

import memory
from memory import Hold, Memory
from testing_peer import CountingPeer

MIB = 1 << 20


def readings(*free: int):
    """What is available, one reading after the other, in MiB."""
    return mock.patch.object(memory, "settled", side_effect=[value * MIB for value in free])


class MemoryTest(unittest.TestCase):
    def test_drift_of_the_machine_counts_half_and_is_noise(self) -> None:
        held = Hold(10, before=1000 * MIB, during=600 * MIB, after=1020 * MIB)
        self.assertEqual((held.used, held.noise, held.clear), (410 * MIB, 20 * MIB, True))

    def test_a_figure_within_the_noise_is_not_clear(self) -> None:
        self.assertFalse(Hold(4, 1000 * MIB, 900 * MIB, 1040 * MIB).clear)
        self.assertFalse(Hold(4, 1000 * MIB, 1030 * MIB, 1000 * MIB).clear)
        self.assertFalse(Hold(4, 1000 * MIB, 990 * MIB, 1000 * MIB).clear)

    def test_more_sessions_are_opened_until_it_is_clear(self) -> None:
        peer, found = CountingPeer(), Memory("test", 5)
        with readings(1000, 985, 1000, 1000, 970, 1000):
            memory.measure_once(peer, found)
        self.assertEqual((found.sessions, found.each), (10, [3 * MIB]))
        self.assertTrue(all(session.closed for session in peer.sessions))

    def test_what_stays_unclear_is_never_a_figure(self) -> None:
        found = Memory("test", 5)
        with readings(*[1000, 1010, 1000] * memory.ATTEMPTS), self.assertRaises(memory.UnclearError) as raised:
            memory.measure_once(CountingPeer(), found)
        self.assertEqual(found.each, [])
        self.assertEqual(str(raised.exception), "0 MB for 20 sessions together, with a noise of 4 MB")

    def test_a_repetition_that_fails_takes_the_figure_away(self) -> None:
        peer = CountingPeer()
        with readings(1000, 800, 1000, *[1000, 1010, 1000] * memory.ATTEMPTS):
            found, = memory.measure_memory([peer], 1.0, 2, lambda text: None)
        self.assertTrue(found.unclear)
        self.assertIn("with a noise of 4 MB", found.failure)

    def test_what_fails_is_not_called_unclear(self) -> None:
        found, = memory.measure_memory([CountingPeer(fails=True)], 1.0, 2, lambda text: None)
        self.assertEqual((found.failure, found.unclear), ("it failed", False))


if __name__ == "__main__":
    unittest.main()
