#!/usr/bin/env python3
"""What cells cost with everything on: x += 1 over the engine's socket, and a plot shown against the same plot saved.

  python3 tests/performance/cells.py [--rounds 400] [--plots 40] [--json FILE]

The plots are made in one live session of the daemon, saved and shown in turn by the same interpreter, so that only what
showing adds is compared: the picture, the chart as data, the way to the daemon and back. Exits with 1 when a goal is
missed.
"""
from __future__ import annotations

import argparse
import json
import os
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "scenarios"))
import api_support  # noqa: E402
import engine_protocol as protocol  # noqa: E402
import figures  # noqa: E402
import goals  # noqa: E402
import support  # noqa: E402

PLOTS = """
import io, json, time
import matplotlib.pyplot as plt
def draw():
    fig, ax = plt.subplots()
    ax.plot(range(100), [i * i for i in range(100)], label="a")
    ax.set_title("A line"); ax.set_xlabel("x"); ax.set_ylabel("y"); ax.legend()
    return fig
def saved():
    fig = draw(); begin = time.perf_counter()
    fig.savefig(io.BytesIO(), format="png"); plt.close(fig)
    return time.perf_counter() - begin
def shown():
    draw(); begin = time.perf_counter()
    plt.show()
    return time.perf_counter() - begin
saved(); shown()
pairs = []
for _ in range(%d):
    pairs.append((saved(), shown()))
print(json.dumps(pairs))
"""


def one_more_cell(home: support.Home, rounds: int, mode: int) -> dict:
    """A summary of x += 1."""
    home.run("pass", "--template", "default")  # the engine is there, and warm
    with protocol.Client(home.runtime + "/engine.sock") as shell:
        shell.hello()
        shell.begin(protocol.Request(template="default", mode=mode))
        took = []
        for i in range(rounds + 20):
            begin = time.perf_counter()
            shell.send(protocol.cell("x = 0" if i == 0 else "x += 1"))
            while shell.receive()[0] != protocol.CELL_DONE:
                pass
            if i >= 20:
                took.append(time.perf_counter() - begin)
            time.sleep(0.001)
    return figures.summary(took)


def plots(api: api_support.Client, count: int) -> dict:
    """Shown against saved, as a ratio of medians; and how much the session's memory grew from 100 to 400 plots."""
    with api.session(template="default", mode="ipython", limits={"timeout": 120, "cpu_time": 120}) as session:
        run = session.run(PLOTS % count)
        if run["error"]:
            sys.exit("the plots failed: %s" % run["error"]["message"])
        pairs = json.loads(run["stdout"])
        saved, shown = (figures.summary([pair[side] for pair in pairs]) for side in (0, 1))
        many = "for _ in range(50):\n    shown()"
        for _ in range(2):
            session.run(many)
        before = session.show()["memory_bytes"]
        for _ in range(6):
            session.run(many)
        return {"plot_saved": saved, "plot_shown": shown, "plot_ratio": shown["p50_ms"] / saved["p50_ms"],
                "growth_bytes": session.show()["memory_bytes"] - before}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=400)
    parser.add_argument("--plots", type=int, default=40)
    parser.add_argument("--json", help="where to write the figures")
    arguments = parser.parse_args()
    measurement = figures.Measurement("cells", arguments)
    home = support.Home()
    try:
        found = {"cell_plain": one_more_cell(home, arguments.rounds, 1),
                 "cell_ipython": one_more_cell(home, arguments.rounds, 2)}
    finally:
        home.call("engine", "stop")
        home.close()
    api_support.begin()
    try:
        found |= plots(api_support.server.client(), arguments.plots)
    finally:
        api_support.finish()
    measurement.write(arguments.json, found)
    verdicts = goals.judge("cells", found)
    for line in goals.lines(verdicts):
        print(line)
    sys.exit(bool(goals.missed(verdicts)))


main()
