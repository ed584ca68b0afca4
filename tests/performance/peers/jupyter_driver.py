"""Runs in build/peers/venv: starts Jupyter kernels and runs cells in them, as told by JSON lines on its input.

Every request has a tag, which its answer repeats, and is served by a thread of its own."""
from __future__ import annotations

import json
import os
import sys
import threading

from jupyter_client.manager import KernelManager

SECONDS = 60
kernels: dict[int, tuple] = {}
writing = threading.Lock()


def open_kernel(request: dict) -> str:
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env={**os.environ, **request["variables"]})
    client = manager.client()
    kernels[request["session"]] = (manager, client)
    client.start_channels()
    client.wait_for_ready(timeout=SECONDS)
    return ""


def run_cell(request: dict) -> str:
    printed: list[str] = []

    def collect(message: dict) -> None:
        content = message["content"]
        if message["msg_type"] == "stream" and content["name"] == "stdout":
            printed.append(content["text"])

    _, client = kernels[request["session"]]
    reply = client.execute_interactive(request["code"], timeout=SECONDS, output_hook=collect)["content"]
    if reply["status"] != "ok":
        raise RuntimeError("%s: %s" % (reply.get("ename"), reply.get("evalue")))
    return "".join(printed)


def close_kernel(request: dict) -> str:
    if request["session"] in kernels:
        manager, client = kernels.pop(request["session"])
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    return ""


OPERATIONS = {"open": open_kernel, "run": run_cell, "close": close_kernel}


def serve(request: dict) -> None:
    answer = {"tag": request["tag"]}
    try:
        answer["output"] = OPERATIONS[request["operation"]](request)
    except Exception as error:  # whatever it is, the harness reports it
        answer["error"] = "%s: %s" % (type(error).__name__, error)
    with writing:
        print(json.dumps(answer), flush=True)


def main() -> None:
    for line in sys.stdin:
        threading.Thread(target=serve, args=(json.loads(line),), daemon=True).start()
    for session in list(kernels):
        close_kernel({"session": session})


main()
