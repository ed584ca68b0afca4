"""Unit tests of the bundles that runtimes are given."""
import dataclasses
import json
import pathlib
import tempfile
import unittest
from unittest import mock

import seccomp
from oci_peers import Gvisor, OciPeer, Runc
from test_command_peers import CONTEXT

FILTER = {"defaultAction": "SCMP_ACT_ERRNO"}


class OciTest(unittest.TestCase):
    def setUp(self) -> None:
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.context = dataclasses.replace(CONTEXT, scratch=pathlib.Path(place.name))

    def bundle(self, kind: type[OciPeer], filter: dict | None) -> tuple[OciPeer, dict]:
        peer = kind(self.context)
        with mock.patch.object(seccomp, "default_filter", return_value=filter):
            peer.prepare()
        path = pathlib.Path(peer.bundle(["-c", "1"], libraries=False))
        return peer, json.loads((path / "config.json").read_text(encoding="utf-8"))

    def test_runtimes_get_the_filter_that_podman_would_give(self) -> None:
        peer, config = self.bundle(Runc, FILTER)
        self.assertEqual(config["linux"]["seccomp"], FILTER)
        self.assertIn("; containers' default seccomp filter", peer.about)

    def test_where_there_is_none_the_row_says_so(self) -> None:
        peer, config = self.bundle(Runc, None)
        self.assertNotIn("seccomp", config["linux"])
        self.assertIn("no seccomp filter", peer.about)

    def test_gvisor_filters_for_itself(self) -> None:
        self.assertNotIn("seccomp", self.bundle(Gvisor, FILTER)[1]["linux"])

    def test_nobody_has_a_capability(self) -> None:
        process = self.bundle(Runc, FILTER)[1]["process"]
        self.assertEqual((process["capabilities"], process["noNewPrivileges"]), ({}, True))


if __name__ == "__main__":
    unittest.main()
