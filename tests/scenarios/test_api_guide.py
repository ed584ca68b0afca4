"""Every shell block of docs/api.md, in order and in one shell, against a daemon; what comes back is what the guide says."""
from __future__ import annotations

import dataclasses
import os
import re
import subprocess

import api_support
import support
from api_support import ApiScenario

setUpModule, tearDownModule = api_support.begin, api_support.finish

GUIDE = os.path.join(support.ROOT, "docs/api.md")
MARK = "----- end of block %d"
PATIENCE = 60


@dataclasses.dataclass
class Block:
    """What is typed, and what should come back; in `json` white space does not count."""

    line: int
    script: str
    kind: str = ""
    expected: str = ""


def read_blocks() -> list[Block]:
    """A block of output belongs to the script that it follows, with nothing in between."""
    with open(GUIDE) as file:
        text = file.read()
    blocks: list[Block] = []
    end = -1
    for found in re.finditer(r"(?ms)^```(\w*)\n(.*?)^```\n", text):
        kind, body = found.groups()
        if kind == "sh":
            blocks.append(Block(text.count("\n", 0, found.start()) + 2, body))
            end = found.end()
        elif kind in ("text", "json") and found.start() == end:
            blocks[-1].kind, blocks[-1].expected = kind, body
    return blocks


def matches(block: Block, output: str) -> bool:
    """`…` stands for anything."""
    expected = block.expected.strip()
    output = re.sub(r"[ \t]+$", "", output.replace("\r", ""), flags=re.MULTILINE).strip()
    if block.kind == "json":
        expected, output = re.sub(r"\s", "", expected), re.sub(r"\s", "", output)
    return re.fullmatch(".*?".join(map(re.escape, expected.split("…"))), output, re.DOTALL) is not None


class Guide(ApiScenario):
    def run_blocks(self, blocks: list[Block]) -> tuple[list[str], str]:
        """What each block wrote, as far as they came, and what was said on standard error."""
        script = "set -euo pipefail\n" + "".join("%s\necho; echo '%s'\n" % (block.script, MARK % number)
                                                 for number, block in enumerate(blocks))
        server = api_support.server
        with self.home.folder() as folder:
            os.mkdir(os.path.join(folder, "bin"))
            os.mkdir(os.path.join(folder, "work"))
            os.symlink(os.path.abspath(support.HUTCH), os.path.join(folder, "bin/hutch"))
            environment = {**self.home.environment, "HUTCH_URL": "http://%s:%d" % (server.host, server.port),
                           "HUTCH_KEY": server.key, "HUTCH_SERVE_DATA": server.data,
                           "PATH": os.path.join(folder, "bin") + ":" + self.home.environment["PATH"]}
            done = subprocess.run(["bash", "-c", script], cwd=os.path.join(folder, "work"), env=environment,
                                  stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=PATIENCE)
        outputs = re.split(r"\n----- end of block \d+\n", done.stdout)
        if len(outputs) <= len(blocks):
            broken = blocks[len(outputs) - 1]
            self.fail("docs/api.md:%d ends with %d:\n%s\n%s%s" % (broken.line, done.returncode, broken.script,
                                                                 outputs[-1][-3000:], done.stderr[-3000:]))
        return outputs[:-1], done.stderr

    def test_every_block_runs_and_says_what_the_guide_says(self):
        blocks = read_blocks()
        self.assertGreater(len(blocks), 20)
        outputs, errors = self.run_blocks(blocks)
        for block, output in zip(blocks, outputs):
            with self.subTest(line=block.line):
                if block.kind:
                    self.assertTrue(matches(block, output), "docs/api.md:%d\n%s\nexpected:\n%s\ngot:\n%s\n%s" % (
                        block.line, block.script, block.expected, output[-3000:], errors[-1000:]))

    def test_every_serve_key_is_in_the_guide_with_its_default(self):
        with open(GUIDE) as file:
            table = dict(re.findall(r"(?m)^\| (`serve\.[^|]*)\|([^|]*)\|", file.read()))
        said = {name: value.strip("` ") for names, value in table.items() for name in re.findall(r"`([^`]+)`", names)}
        config = {name: about["value"] for name, about in self.home.call("config", "--json").record.items()
                  if name.startswith("serve.")}
        self.assertEqual(sorted(said), sorted(config))
        units = {"K": 10, "M": 20, "G": 30}
        for name, value in config.items():
            with self.subTest(name):
                if value:
                    plain = said[name]
                    if plain[-1] in units:
                        plain = str(int(plain[:-1]) << units[plain[-1]])
                    self.assertEqual(plain, value)


if __name__ == "__main__":
    support.main()
