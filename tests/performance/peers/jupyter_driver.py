"""Runs in build/peers/venv: starts Jupyter kernels and runs cells in them, as told by JSON lines on its input.

Every request has a tag, which its answer repeats, and is served by a thread of its own. A cell is timed here, so that
these threads and lines are not in its time."""
from __future__ import annotations

import json
import os
import sys
import threading
import time

from jupyter_client.blocking import BlockingKernelClient
from jupyter_client.manager import KernelManager

SECONDS = 90  # a hundred may start at the same moment, and a kernel that never answers must not cost much more
kernels: dict[int, tuple] = {}
writing = threading.Lock()


def open_kernel(request: dict) -> dict:
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel(env={**os.environ, **request["variables"]})
    client = manager.client()
    kernels[request["session"]] = (manager, client)
    client.start_channels()
    client.wait_for_ready(timeout=SECONDS)
    return {}


def run_cell(request: dict) -> dict:
    """Straight from the sockets, which is the quickest way that jupyter_client has."""
    _, client = kernels[request["session"]]
    begin = time.monotonic()
    number = client.execute(request["code"])
    printed = until_idle(client, number)
    seconds = time.monotonic() - begin
    reply = reply_to(client, number)
    if reply["status"] != "ok":
        raise RuntimeError("%s: %s" % (reply.get("ename"), reply.get("evalue")))
    return {"output": printed, "seconds": seconds}


def until_idle(client: BlockingKernelClient, number: str) -> str:
    """What the cell of this number printed."""
    printed = ""
    while True:
        message = client.iopub_channel.get_msg(timeout=SECONDS)
        content = message["content"]
        if message["parent_header"].get("msg_id") != number:
            continue
        if message["msg_type"] == "stream" and content["name"] == "stdout":
            printed += content["text"]
        if message["msg_type"] == "status" and content["execution_state"] == "idle":
            return printed


def reply_to(client: BlockingKernelClient, number: str) -> dict:
    while True:
        message = client.shell_channel.get_msg(timeout=SECONDS)
        if message["parent_header"].get("msg_id") == number:
            return message["content"]


def close_kernel(request: dict) -> dict:
    if request["session"] in kernels:
        manager, client = kernels.pop(request["session"])
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    return {}


OPERATIONS = {"open": open_kernel, "run": run_cell, "close": close_kernel}


def serve(request: dict) -> None:
    answer = {"tag": request["tag"]}
    try:
        answer |= OPERATIONS[request["operation"]](request)
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
