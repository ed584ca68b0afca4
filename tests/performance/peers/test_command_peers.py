"""Unit tests of how interpreters are started behind a command."""
import pathlib
import resource
import unittest
from unittest import mock

import command_peers
from command_peers import ADDRESS_SPACE, Bubblewrap, can_disable_user_namespaces
from context import Context

CONTEXT = Context(hutch="/hutch", data="/data", installed=pathlib.Path("/nowhere"), scratch=pathlib.Path("/nowhere"),
                  python="/usr/bin/python3", library_python="", library_tree="", library_variables={}, font_cache="")


def prepared(version: str) -> Bubblewrap:
    peer = Bubblewrap(CONTEXT)
    with mock.patch.object(command_peers, "first_line", return_value=version):
        peer.prepare()
    return peer


class BubblewrapTest(unittest.TestCase):
    def test_versions_are_numbers_and_not_text(self) -> None:
        versions = ("bubblewrap 0.7.9", "bubblewrap 0.8.0", "bubblewrap 0.11.0")
        self.assertEqual([can_disable_user_namespaces(version) for version in versions],
                         [False, True, True])

    def test_user_namespaces_are_closed_where_it_can(self) -> None:
        new, old = prepared("bubblewrap 0.8.0"), prepared("bubblewrap 0.4.1")
        self.assertIn("--disable-userns", new.command(["-c", "1"], libraries=False))
        self.assertNotIn("--disable-userns", old.command(["-c", "1"], libraries=False))
        self.assertIn("cannot disable", old.about)

    def test_it_is_limited_like_a_subprocess(self) -> None:
        with mock.patch.object(resource, "setrlimit") as limited:
            prepared("bubblewrap 0.8.0").before_exec()()
        self.assertIn(mock.call(resource.RLIMIT_AS, (ADDRESS_SPACE, ADDRESS_SPACE)), limited.mock_calls)


if __name__ == "__main__":
    unittest.main()
