"""Tools of the client: called from cells, answered by the engine, in threads and tasks, and cut short."""
from __future__ import annotations

import json
import os
import signal
import struct
import unittest

from support import CELL_DONE, ERROR, Error, ShellTest, frame, needs, shown, text

OK, FAILED = 0, 1
TOOL_RESULT, TOOL_CALL, TOOL_CALL_DROPPED = 9, 75, 76

SEARCH = {"name": "search", "description": "Finds rows.\nSlowly.", "input_schema": {
    "type": "object", "required": ["query"],
    "properties": {"query": {"type": "string", "description": "what to look for"},
                   "limit": {"type": "integer", "default": 10}}}}
ANY = {"name": "any", "description": "", "input_schema": {"type": "object"}}


def run_in_session(code: str, tools: list | None = None) -> bytes:
    offered = json.dumps(tools) if tools is not None else ""
    return frame(5, text(code) + bytes((0, 0)) + text("") + text(offered))


def result(number: int, value: str = "", code: str = "") -> bytes:
    return frame(TOOL_RESULT, struct.pack("<IB", number, not code) + text(value) + text(code))


class Call:
    def __init__(self, payload: bytes) -> None:
        self.number, size = struct.unpack("<II", payload[:8])
        self.name, rest = payload[8:8 + size].decode(), payload[8 + size:]
        size, = struct.unpack("<I", rest[:4])
        assert len(rest) == 4 + size
        self.input = json.loads(rest[4:])


class HostToolsTest(ShellTest):
    def begin(self, code: str, tools: list | None = None) -> None:
        self.connection.end.sendall(run_in_session(code, [SEARCH, ANY] if tools is None else tools))

    def call(self) -> Call:
        kind, payload = self.connection.receive()
        self.assertEqual(kind, TOOL_CALL, payload)
        return Call(payload)

    def answer(self, *results: bytes) -> None:
        self.connection.end.sendall(b"".join(results))

    def finish(self, expect: int = OK) -> list[Error]:
        errors = []
        while (got := self.connection.receive())[0] != CELL_DONE:
            if got[0] != TOOL_CALL_DROPPED:  # when an interrupt comes in between
                self.assertEqual(got[0], ERROR, got)
                errors.append(Error(got[1]))
        status = got[1][0]
        self.assertEqual(status, expect, [(error.name, error.value) for error in errors])
        return errors

    def fails(self, code: str, name: str, *words: str) -> Error:
        """Without a call."""
        self.begin(code)
        error, = self.finish(FAILED)
        self.assertEqual(error.name, name, error.value)
        for word in words:
            self.assertIn(word, error.value)
        return error

    def test_a_call_is_awaited(self) -> None:
        self.begin("import json\nrows = json.loads(await tools.search(query='x', limit=3))\nrows[1]")
        call = self.call()
        self.assertEqual((call.name, call.input), ("search", {"query": "x", "limit": 3}))
        self.answer(result(call.number, "[1, 22]"))
        self.finish()
        self.begin("await tools.search({'query': 'ü'})")
        call = self.call()
        self.assertEqual(call.input, {"query": "ü"})
        self.answer(result(call.number, "ß"))
        self.finish()
        self.assertEqual(self.results(), ["22", "'ß'"])

    def test_calls_at_once_get_their_own_results(self) -> None:
        self.begin("import asyncio\n'-'.join(await asyncio.gather(*(tools.any(i=i) for i in range(20))))")
        calls = [self.call() for _ in range(20)]
        self.assertEqual([call.input["i"] for call in calls], list(range(20)))
        self.assertEqual(len({call.number for call in calls}), 20)
        self.answer(*(result(call.number, str(call.input["i"])) for call in reversed(calls)))
        self.finish()
        self.assertEqual(self.results(), [repr("-".join(map(str, range(20))))])

    def test_tasks_can_be_made_of_them(self) -> None:
        self.begin("import asyncio\ntask = asyncio.create_task(tools.any())\nawait asyncio.sleep(0)\nawait task")
        self.answer(result(self.call().number, "a"))
        self.finish()
        self.assertEqual(self.results(), ["'a'"])

    def test_without_await(self) -> None:
        self.begin("def f():\n    return tools.search.sync(query='q') + tools.any.sync({})\nf()")
        self.answer(result(self.call().number, "a"))
        self.answer(result(self.call().number, "b"))
        self.finish()
        self.assertEqual(self.results(), ["'ab'"])

    def test_from_threads(self) -> None:
        self.begin("from concurrent.futures import ThreadPoolExecutor as Pool\nimport asyncio\n"
                   "with Pool(8) as pool:\n"
                   "    sync = list(pool.map(lambda i: tools.any.sync(i=i), range(8)))\n"
                   "with Pool(4) as pool:\n"
                   "    own_loops = list(pool.map(lambda i: asyncio.run(tools.any(i=i)), range(4)))\n"
                   "sync, own_loops")
        for _ in range(12):
            call = self.call()
            self.answer(result(call.number, str(call.input["i"])))
        self.finish()
        self.assertEqual(self.results(), ["(['0', '1', '2', '3', '4', '5', '6', '7'], ['0', '1', '2', '3'])"])

    def test_displays_while_calls_are_pending(self) -> None:
        self.begin("import asyncio\ntask = asyncio.create_task(tools.any())\nawait asyncio.sleep(0)\n"
                   "for i in range(5):\n    display(i)\nawait task")
        call = self.call()
        self.connection.answers = False
        for i in range(5):
            self.assertEqual(self.connection.receive()[0], 72)
            if i == 2:
                self.answer(result(call.number, "z"))
            self.answer(shown(self.connection.displays[-1].number))
        self.connection.answers = True
        self.finish()
        self.assertEqual(self.results(), ["'z'"])

    def test_the_next_task_is_not_lost_while_a_call_is_read_for(self) -> None:
        self.begin("import asyncio\ntask = asyncio.create_task(tools.any())\n_ = await asyncio.sleep(0)")
        self.call()
        self.finish()
        for i in range(5):
            self.assertEqual(self.cell("%d" % i), (OK, []))
        self.assertEqual(self.results(), ["0", "1", "2", "3", "4"])

    def test_failures_are_exceptions_with_codes(self) -> None:
        code = ("try:\n    await tools.any()\nexcept %s as error:\n    print(type(error).__name__, error, error.code)")
        for kind, reason in (("tools.ToolError", "tool_error"), ("tools.ToolError", "tool_denied"),
                             ("RuntimeError", "tool_error"), ("TimeoutError", "tool_timeout")):
            self.begin(code % kind)
            self.answer(result(self.call().number, "why", reason))
            self.finish()
        out = self.end()[0]
        self.assertEqual(out, "ToolError why tool_error\nToolError why tool_denied\nToolError why tool_error\n"
                              "TimeoutError why tool_timeout\n")

    def test_an_uncaught_failure_ends_the_cell_at_the_users_line(self) -> None:
        for code in ("x = 1\nawait tools.any()", "x = 1\ntools.any.sync()"):
            self.begin(code)
            self.answer(result(self.call().number, "no such table", "tool_error"))
            error, = self.finish(FAILED)
            self.assertEqual((error.name, error.value, error.line), ("ToolError", "no such table", 2))
            self.assertEqual(len(error.traceback), 1, error.traceback)
        err = self.end()[1]
        self.assertIn("\nToolError: no such table\n", err)
        self.assertNotIn("hutch_runner", err)

    def test_arguments_are_checked_before_anybody_is_asked(self) -> None:
        self.fails("await tools.search()", "TypeError", "search() needs 'query'")
        self.fails("await tools.search(query='x', limt=3)", "TypeError", "no parameter 'limt'", "query, limit")
        self.fails("await tools.search('x')", "TypeError", "keyword arguments, or one dict")
        self.fails("await tools.search({'query': 'x'}, limit=3)", "TypeError", "keyword arguments, or one dict")
        self.fails("await tools.any(a=object())", "TypeError", "a tool cannot be given a object")
        self.fails("await tools.any(a=float('nan'))", "ValueError")
        self.fails("await tools.any(a='x' * (1 << 20))", "ValueError", "at most 1048576 bytes")
        error = self.fails("await tools.serach(query='x')", "AttributeError", "'serach'", "search, any")
        self.assertEqual(error.line, 1)

    def test_tools_say_what_they_are(self) -> None:
        self.begin("print(tools)\nprint(dir(tools), len(tools), list(tools), 'search' in tools)\nhelp(tools.search)\n"
                   "import inspect\nprint(inspect.iscoroutinefunction(tools.search), tools['search'] is tools.search)")
        self.finish()
        out = self.end()[0]
        for words in ("await tools.search(*, query: str, limit: int = 10) -> str  # Finds rows.",
                      "['ToolError', 'any', 'search'] 2 ['search', 'any'] True", "Slowly.",
                      "query (str, required): what to look for", "True True"):
            self.assertIn(words, out)

    def test_strange_names_and_schemas(self) -> None:
        strange = [{"name": "__class__", "description": None, "input_schema": {"properties": {"a-b": 1, "class": {}}}},
                   {"name": "import", "input_schema": {"properties": [], "required": 7}}, {"name": "ToolError"}]
        self.begin("repr(tools); help(tools['__class__'])\nawait tools['__class__']({'a-b': 1})", strange)
        self.answer(result(self.call().number, "1"))
        self.finish()
        self.begin("await tools['import'](x=1) + await tools['ToolError']()", strange)
        self.answer(result(self.call().number, "2"))
        self.answer(result(self.call().number, "3"))
        self.finish()
        self.assertEqual(self.results(), ["'1'", "'23'"])

    def test_a_users_own_tools_stay(self) -> None:
        self.begin("tools = 5")
        self.finish()
        self.begin("tools")
        self.finish()
        self.begin("del tools\nlen(tools)")
        self.finish()
        self.assertEqual(self.cell("import builtins\nbuiltins.tools = 'mine'"), (OK, []))
        self.begin("tools")
        self.finish()
        self.assertEqual(self.cell("tools"), (OK, []))
        self.assertEqual(self.results(), ["5", "2", "'mine'", "'mine'"])

    def test_they_are_gone_after_the_run(self) -> None:
        self.begin("old = tools.any")
        self.finish()
        status, errors = self.cell("tools")
        self.assertEqual((status, errors[0].name), (FAILED, "NameError"))
        self.connection.end.sendall(run_in_session("await old()"))  # the engine knows what it offered
        self.answer(result(self.call().number, "not offered", "tool_denied"))
        error, = self.finish(FAILED)
        self.assertEqual((error.name, error.value), ("ToolError", "not offered"))

    def test_a_forked_process_cannot_call(self) -> None:
        self.begin("import os\npid = os.fork()\nif pid == 0:\n    try:\n        tools.any.sync()\n"
                   "    except BaseException as error:\n        print(type(error).__name__, error.code, flush=True)\n"
                   "    os._exit(7)\nos.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])")
        self.finish()
        self.assertEqual(self.results(), ["7"])
        self.assertEqual(self.end()[0], "ToolError tool_denied\n")

    def test_an_interrupt_ends_the_wait(self) -> None:
        for code in ("await tools.any()", "tools.any.sync()"):
            self.begin(code)
            call = self.call()
            os.kill(self.process.pid, signal.SIGINT)
            error, = self.finish(FAILED)
            self.assertEqual(error.name, "KeyboardInterrupt")
            self.answer(result(call.number, "late"))
            self.begin("await tools.any()")
            self.answer(result(self.call().number, "next"))
            self.finish()
        self.assertEqual(self.results(), ["'next'", "'next'"])

    def test_the_interrupt_is_seen_and_not_the_cancelled_call(self) -> None:
        self.begin("import asyncio\nawait asyncio.gather(*(tools.any(i=i) for i in range(30)))")
        calls = [self.call() for _ in range(30)]
        self.answer(*(result(call.number, "cancelled", "cancelled") for call in calls))
        os.kill(self.process.pid, signal.SIGINT)
        error, = self.finish(FAILED)
        self.assertEqual(error.name, "KeyboardInterrupt")
        self.assertEqual(self.cell("1"), (OK, []))

    def test_waiting_threads_are_released_when_the_cell_ends(self) -> None:
        self.begin("import threading\nseen = []\ndef wait():\n    try:\n        tools.any.sync()\n"
                   "    except RuntimeError as error:\n        seen.append(error.code)\n"
                   "thread = threading.Thread(target=wait)\nthread.start()\n_ = tools.any.sync(n=2)")
        calls = [self.call(), self.call()]
        self.answer(*(result(call.number) for call in calls if call.input))
        self.finish()
        self.answer(*(result(call.number, "late") for call in calls if not call.input))
        self.assertEqual(self.cell("thread.join(5)\nseen"), (OK, []))
        self.assertEqual(self.results(), ["['cancelled']"])

    def test_results_for_nobody_are_ignored(self) -> None:
        self.begin("await tools.any()")
        call = self.call()
        self.answer(result(999, "x"), result(0, "y"), result(call.number, "z"), result(call.number, "again"))
        self.finish()
        self.assertEqual(self.cell("2"), (OK, []))
        self.assertEqual(self.results(), ["'z'", "2"])

    def test_a_call_that_nobody_waits_for_is_dropped(self) -> None:
        self.begin("import asyncio\ntry:\n    await asyncio.wait_for(tools.any(), 0.05)\nexcept TimeoutError:\n"
                   "    pass\nawait tools.any(n=2)")
        call = self.call()
        self.assertEqual(self.connection.receive(), (TOOL_CALL_DROPPED, struct.pack("<I", call.number)))
        self.answer(result(call.number, "late"), result(self.call().number, "second"))
        self.finish()
        self.assertEqual(self.results(), ["'second'"])

    def test_large_results_and_inputs(self) -> None:
        self.begin("len(await tools.any(a='x' * 1_000_000))")
        call = self.call()
        self.assertEqual(len(call.input["a"]), 1_000_000)
        self.answer(result(call.number, "y" * (4 << 20)))
        self.finish()
        self.assertEqual(self.results(), [str(4 << 20)])

    def test_a_closed_connection_is_no_endless_wait(self) -> None:
        self.begin("import os\nos.close(3)\nawait tools.any()")
        self.connection.end.settimeout(10)
        self.assertIsNone(self.connection.receive())
        said = self.process.communicate(timeout=20)[1].decode()
        self.assertIn("only the process of the cell itself can call tools", said)

    def test_what_was_printed_comes_before_the_call(self) -> None:
        self.begin("print('before', end='')\nawait tools.any()")
        call = self.call()
        self.assertEqual(os.read(self.process.stdout.fileno(), 100), b"before")
        self.answer(result(call.number, ""))
        self.finish()


@needs("IPython")
class IPythonHostToolsTest(HostToolsTest):
    ipython = True


if __name__ == "__main__":
    unittest.main()
