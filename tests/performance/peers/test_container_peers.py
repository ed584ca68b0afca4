"""Unit tests of what is asked of container engines."""
import unittest
from unittest import mock

import process
from container_peers import Docker
from peer import PeerError
from test_command_peers import CONTEXT


class DockerTest(unittest.TestCase):
    def setUp(self) -> None:
        with mock.patch.object(process, "find_program", return_value="/usr/bin/docker"):
            self.docker = Docker(CONTEXT)

    def test_the_version_is_that_of_the_engine(self) -> None:
        with mock.patch.object(process, "call", return_value="27.1.0\n") as call:
            self.assertEqual((self.docker.missing(), self.docker.version()), ("", "docker engine 27.1.0"))
        self.assertIn("{{.Server.Version}}", call.call_args.args[0])

    def test_a_command_without_an_engine_is_told(self) -> None:
        with mock.patch.object(process, "call", side_effect=PeerError("cannot connect")):
            self.assertEqual(self.docker.missing(), "no docker engine answers on this machine")


if __name__ == "__main__":
    unittest.main()
