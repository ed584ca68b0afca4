"""Each step of making a sandbox is made to fail once: a clean refusal that names the step, and nothing left behind."""
from __future__ import annotations

import os
import re
import unittest

import support
from support import OWN_FAILURE, Scenario

setUpModule, tearDownModule = support.begin, support.finish

MARKER = "the program ran"


def step_names() -> list[str]:
    with open(os.path.join(support.ROOT, "src/sandbox/steps.h")) as file:
        table = file.read().partition("kStepNames = {")[2].partition("};")[0]
    return [name for name in re.findall(r'"(\w+)"', table) if name != "none"]


WARM_ONLY = {"zygote"}
COLD_ONLY = {"execute"}


class Faults(Scenario):
    def check_step(self, step: str, *options: str) -> None:
        code = "print('%s')" % MARKER
        plain = self.home.run(code, "--inject-fault", step, *options)
        self.assertEqual((plain.code, plain.out), (OWN_FAILURE, b""), plain.errors)
        self.assertIn(step, plain.errors)
        self.assertNotIn(MARKER, plain.errors)
        done = self.home.run(code, "--json", "--inject-fault", step, *options)
        record = done.record
        self.assertEqual((done.code, record["exit_code"], record["status"]), (OWN_FAILURE, OWN_FAILURE, "error"))
        self.assertEqual((record["error"]["category"], record["error"]["step"]), ("internal", step), record)
        self.assertNotIn(MARKER, done.out.decode())
        after = self.home.run("print('next')", *options)
        self.assertEqual((after.code, after.text), (0, "next\n"), after.errors)

    def test_there_are_steps(self):
        self.assertGreater(len(step_names()), 20)
        self.assertIn("seccomp", step_names())

    def test_every_step_with_an_engine(self):
        self.home.run("1")
        before = support.idle_counts(self.home)
        for step in step_names():
            if step in COLD_ONLY:
                continue
            with self.subTest(step):
                if step == "template_root":  # made once for each engine: only a fresh one can fail
                    self.home.stop()
                self.check_step(step)
        after = support.idle_counts(self.home)
        self.assertEqual(after, before)

    def test_every_step_without_one(self):
        for step in step_names():
            if step in WARM_ONLY:
                continue
            with self.subTest(step):
                self.check_step(step, "--no-engine")

    def test_an_unknown_step_is_refused(self):
        self.check_refused(self.home.run("1", "--inject-fault", "nosuch"), "nosuch")


if __name__ == "__main__":
    support.main()
