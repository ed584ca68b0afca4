"""Ten thousand forks: no two draw the same numbers, and the zygote is replaced on the way without anybody noticing."""
from __future__ import annotations

import glob
import os
import threading
import unittest

import engine_protocol as protocol
import support
from support import Scenario

FORKS = int(os.environ.get("HUTCH_TEST_FORKS", "10000"))
CLIENTS = 4

# Everything that a program would take for random, on one line.
PROGRAM = """\
import os, random, sys, tempfile, uuid
drawn = [random.random(), random.getrandbits(64), random.Random().random(), random.SystemRandom().random(),
         os.urandom(8).hex(), uuid.uuid4(), next(tempfile._get_candidate_names())]
if 'numpy' in sys.modules:
    import numpy
    drawn += [numpy.random.random(), numpy.random.default_rng().random(), numpy.random.randint(1 << 62)]
print(*drawn)
"""
NAMES = ("random", "getrandbits", "Random", "SystemRandom", "urandom", "uuid4", "tempfile", "numpy legacy",
         "numpy default_rng", "numpy randint")


def setUpModule() -> None:
    support.begin("default" if glob.glob(support.DATA + "/templates/default-*/env") else "bare")


def tearDownModule() -> None:
    support.finish()


class Forks(Scenario):
    def test_no_two_forks_draw_the_same_numbers(self) -> None:
        self.home.run("1")
        template = self.home.environment["HUTCH_TEMPLATE"]
        lines: list[str] = []
        problems: list[object] = []

        def run(count: int, on_demand: bool) -> None:
            with protocol.Client(self.home.runtime + "/engine.sock", 60) as client:
                for _ in range(count):
                    outcome = client.run(protocol.Request(PROGRAM, template, on_demand=on_demand))
                    if outcome.record is None or outcome.record["exit_code"] != 0:
                        return problems.append(outcome)
                    lines.append(outcome.out.decode())

        # From the pool and on demand alike.
        threads = [threading.Thread(target=run, args=(FORKS // CLIENTS, number % 2 == 0)) for number in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(problems, [])
        drawn = list(zip(*(line.split() for line in lines)))
        self.assertEqual(len(drawn), len(NAMES) if template == "default" else len(NAMES) - 3)
        for name, values in zip(NAMES, drawn):
            self.assertEqual(len(values), FORKS // CLIENTS * CLIENTS)
            self.assertEqual(len(set(values)), len(values), "%s repeats itself" % name)

    def test_a_child_touches_few_pages(self) -> None:
        """A figure that no busy machine changes: 200 page faults for `bare` and 380 for `default` when this was written, and
        about as many more where the host does not let us pin pages."""
        code = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)"
        for template, most in (("bare", 450), ("default", 750)):
            if template == "bare" or self.home.environment["HUTCH_TEMPLATE"] == "default":
                with self.subTest(template):
                    self.assertLess(int(self.home.run(code, "--no-pool", "--template", template).text), most)


if __name__ == "__main__":
    unittest.main()
