"""What can be said about the guides without running anything: the code in them is the code that is tested."""
from __future__ import annotations

import glob
import json
import os
import re
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
HERE = os.path.dirname(os.path.abspath(__file__))
EXAMPLES = os.path.join(ROOT, "examples/agents")
GUIDES = os.path.join(ROOT, "docs/guides")
BLOCK = re.compile(r"^```(?:python|js)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TESTED = re.compile(r"`(@?[a-z][a-z0-9/-]*)(?:==|@)([0-9][0-9a-z.]*)`")


def read(*path: str) -> str:
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


def pins() -> dict[str, set[str]]:
    """Every package that is pinned, with the versions that the tests use."""
    found: dict[str, set[str]] = {}
    for path in glob.glob(os.path.join(HERE, "requirements*.txt")):
        for name, version in re.findall(r"(?m)^([a-z0-9-]+)==(\S+)$", read(path)):
            found.setdefault(name, set()).add(version)
    for name, version in json.loads(read(HERE, "package.json"))["dependencies"].items():
        found.setdefault(name, set()).add(version)
    return found


class GuidesTest(unittest.TestCase):
    def guides(self) -> dict[str, str]:
        return {os.path.basename(path): read(path) for path in sorted(glob.glob(os.path.join(GUIDES, "*.md")))}

    def test_every_example_is_in_a_guide_to_the_letter(self):
        shown = {block for text in self.guides().values() for block in BLOCK.findall(text)}
        for path in sorted(glob.glob(os.path.join(EXAMPLES, "*.*"))):
            with self.subTest(os.path.basename(path)):
                self.assertIn(read(path), shown)

    def test_every_program_in_a_guide_is_an_example(self):
        examples = {read(path) for path in glob.glob(os.path.join(EXAMPLES, "*.*"))}
        for name, text in self.guides().items():
            for block in BLOCK.findall(text):
                with self.subTest(guide=name):
                    self.assertIn(block, examples)

    def test_every_version_in_a_guide_is_the_one_that_is_tested(self):
        pinned = pins()
        for guide, text in self.guides().items():
            for name, version in TESTED.findall(text):
                with self.subTest(guide=guide, package=name):
                    self.assertIn(version, pinned.get(name, ()))

    def test_every_guide_is_in_the_index_and_every_link_leads_somewhere(self):
        guides = self.guides()
        for name in set(guides) - {"README.md"}:
            self.assertIn("](%s)" % name, guides["README.md"])
        for name, text in guides.items():
            for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text):
                with self.subTest(guide=name, target=target):
                    self.assertTrue(os.path.exists(os.path.join(GUIDES, target)))


if __name__ == "__main__":
    unittest.main(verbosity=2)
