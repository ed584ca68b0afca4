#!/usr/bin/env python3
"""Holds a daemon against docs/openapi.json with requests that nobody here thought of: Schemathesis makes them from the
document, also ones that the document forbids, and every answer must be one that the document has.

  python3 tests/interop/conformance.py [--max-examples 30] [--seed 1]

Two rounds: every operation with ids that nobody has, then those of sessions and runs with ids of live ones. Exits with
1 when an answer is not as documented. The first time it installs Schemathesis below build/schemathesis, for which it
needs a network.
"""
from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(os.path.dirname(HERE), "scenarios"))
import api_support  # noqa: E402
import support  # noqa: E402

REQUIREMENT = "schemathesis>=4.0,<5"
BUILD = os.path.join(support.ROOT, "build/schemathesis")
CHECKS = ("not_a_server_error", "status_code_conformance", "content_type_conformance", "response_schema_conformance",
          "response_headers_conformance")
PHASES = ("examples", "coverage", "fuzzing")  # what follows links would also follow those to streams without an end
PATIENCE = 60  # seconds for one answer
ENDLESS = ("watchSession", "listenMcp")  # ids of live sessions are also found in answers
NEEDED = ("deleteSession",)  # what the others of its round need would be gone
NO_WATCH = '"query.watch" = "false"\n'  # that would never end either
ENVIRONMENT = {"HUTCH_SERVE_SESSIONS_PER_KEY": "20"}  # the next one is 429


def installed() -> str:
    """The program, made when there is none or it was made for something else."""
    directory = os.path.join(BUILD, "venv")
    program, mark = os.path.join(directory, "bin/schemathesis"), os.path.join(BUILD, "installed")
    if os.path.exists(mark):
        with open(mark) as file:
            if file.read() == REQUIREMENT and os.access(program, os.X_OK):
                return program
    shutil.rmtree(BUILD, ignore_errors=True)
    os.makedirs(BUILD)
    subprocess.run([sys.executable, "-m", "venv", directory], check=True)
    subprocess.run([os.path.join(directory, "bin/pip"), "install", "--quiet", REQUIREMENT], check=True)
    with open(mark, "w") as file:
        file.write(REQUIREMENT)
    return program


def without(operations: tuple[str, ...]) -> list[str]:
    return [part for name in operations for part in ("--exclude-operation-id", name)]


def run_round(program: str, server: api_support.Server, options: argparse.Namespace, parameters: str,
              *filters: str) -> bool:
    """Whether every answer was as documented."""
    url = "http://%s:%d" % (server.host, server.port)
    path = os.path.join(BUILD, "schemathesis.toml")
    with open(path, "w") as file:
        file.write("[parameters]\n" + NO_WATCH + parameters)
    done = subprocess.run(
        [program, "--config-file", path, "run", url + "/v1/openapi.json", "--url", url,
         "--header", "Authorization: Bearer " + server.key, "--checks", ",".join(CHECKS),
         "--phases", ",".join(PHASES), "--max-examples", str(options.max_examples), "--seed", str(options.seed),
         "--request-timeout", str(PATIENCE), "--suppress-health-check", "all", "--continue-on-failure",
         "--generation-database", ":memory:", "--no-color", *filters],
        cwd=BUILD, stdin=subprocess.DEVNULL, env={**os.environ, "NO_PROXY": "127.0.0.1", "no_proxy": "127.0.0.1"})
    return done.returncode == 0


def live_ones(client: api_support.Client) -> str:
    """A session with a run that left something, for every operation that wants their ids."""
    session = client.session()
    run = session.run("x = 1\nprint('y' * 300000)\nopen('data.txt', 'w').write('z')")
    return '"path.session" = "%s"\n"path.run" = "%s"\n' % (session.id, run["execution_id"])


def hold(home: support.Home, options: argparse.Namespace) -> bool:
    program = installed()
    server = api_support.Server(home, env=ENVIRONMENT).start()
    try:
        live = live_ones(server.client())
        rounds = [run_round(program, server, options, "", *without(ENDLESS)),
                  run_round(program, server, options, live, "--include-path-regex", r"\{(session|run)\}",
                            *without(ENDLESS + NEEDED))]
    finally:
        ended = server.stop()
    if ended != 0:
        print("hutch serve ended with %d" % ended, file=sys.stderr)
    return all(rounds) and ended == 0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--max-examples", type=int, default=30, help="of each operation, beside those that must be")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    support.become_subreaper()
    home = support.Home()
    try:
        return 0 if hold(home, options) else 1
    finally:
        home.close()


if __name__ == "__main__":
    sys.exit(main())
