"""Unit tests of what is said about peers that are better."""
import unittest

import better
import markdown


def part(*rows: dict) -> dict:
    return {"title": "a title", "rows": list(rows)}


class BetterTest(unittest.TestCase):
    def test_less_time_is_better_and_hutch_is_no_peer_of_itself(self) -> None:
        rows = part({"peer": "hutch engine", "p50": 2.0}, {"peer": "hutch run", "p50": 1.0}, {"peer": "b", "p50": 1.5},
                    {"peer": "a", "p50": 0.5}, {"peer": "c", "p50": 2.5}, {"peer": "d", "reason": "failed"})
        found = better.where_a_peer_is_better({"cell": rows})[0]
        self.assertEqual(list(found["better"].items()), [("a", 0.5), ("b", 1.5)])
        self.assertEqual(markdown.better([found]), "- a title: a (0.500), b (1.50); hutch engine: 2.00\n")

    def test_more_starts_are_better(self) -> None:
        rows = part({"peer": "hutch engine", "per_second": 100.0}, {"peer": "a", "per_second": 200.0},
                    {"peer": "b", "per_second": 50.0})
        self.assertEqual(list(better.where_a_peer_is_better({"sustained": rows})[0]["better"]), ["a"])

    def test_what_sessions_share_counts_for_one_alone(self) -> None:
        rows = part({"peer": "hutch engine", "mb": 2.0, "shared_mb": 90.0}, {"peer": "a", "mb": 40.0, "shared_mb": 0.0},
                    {"peer": "b", "mb": 95.0, "shared_mb": 0.0})
        each, alone = better.where_a_peer_is_better({"memory": rows})
        self.assertEqual((list(each["better"]), list(alone["better"])), ([], ["a"]))

    def test_attacks_are_compared_by_the_share_that_got_through(self) -> None:
        rows = part({"peer": "hutch engine", "blocked": ["a", "b"], "open": {"c": "it did"}},
                    {"peer": "runc", "blocked": ["a", "b", "c"], "open": {}},
                    {"peer": "nobody could try", "blocked": [], "open": {}})
        self.assertEqual(list(better.where_a_peer_is_better({"attacks": rows})[0]["better"]), ["runc"])

    def test_without_hutch_nothing_is_claimed(self) -> None:
        found = better.where_a_peer_is_better({"print": part({"peer": "a", "p50": 1.0})})
        self.assertEqual(markdown.better(found), "- a title: hutch engine was not measured\n")

    def test_none_is_said_to_be_none(self) -> None:
        found = better.where_a_peer_is_better({"print": part({"peer": "hutch engine", "p50": 1.0})})
        self.assertEqual(markdown.better(found), "- a title: none; hutch engine: 1.00\n")


if __name__ == "__main__":
    unittest.main()
