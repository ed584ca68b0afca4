"""Unit tests of the cells of live sessions."""
import unittest

import cells
from testing_peer import CountingPeer


def measure(peers: list[CountingPeer], rounds: int) -> dict[str, cells.Series]:
    return {series.peer: series for series in cells.measure_cells(peers, rounds, lambda text: None)}


class CellsTest(unittest.TestCase):
    def test_sessions_are_fresh_every_few_rounds_and_closed(self) -> None:
        peer = CountingPeer()
        found = measure([peer], cells.ROUNDS_A_SESSION + 1)
        self.assertEqual(len(found["test"].samples), cells.CELLS * (cells.ROUNDS_A_SESSION + 1))
        self.assertEqual([session.closed for session in peer.sessions], [True, True])

    def test_a_cell_that_was_not_run_is_a_failure(self) -> None:
        found = measure([CountingPeer(lost=1)], 1)
        self.assertEqual(found["test"].failures, ["after 20 cells x is '19\\n'"])

    def test_who_fails_keeps_nobody_else_away(self) -> None:
        found = measure([CountingPeer("bad", fails=True), CountingPeer("good")], 2)
        self.assertEqual((found["bad"].failures, len(found["good"].samples)), (["it failed"], 2 * cells.CELLS))


if __name__ == "__main__":
    unittest.main()
