"""Every kind of error that a call of a tool can end in, from a real cause, in every dialect, held against a golden file.
After a change that is meant: UPDATE_GOLDEN=1, and read the difference."""
from __future__ import annotations

import json
import os
import re

import api_support
import support
from api_support import ApiScenario
from mcp_client import HttpClient

GOLDEN = os.path.join(support.ROOT, "tests/scenarios/golden/tool_errors.json")
SEARCH = [{"name": "search", "description": "Finds.", "input_schema": {"type": "object", "properties": {}}}]
SLEEP = "import time\nprint(1, flush=True)\ntime.sleep(60)"
DIALECTS = ("plain", "anthropic", "openai", "openai-responses", "gemini", "mcp")
LIMITS = {"HUTCH_LIMITS_MEMORY": "160M", "HUTCH_LIMITS_SCRATCH": "8M", "HUTCH_LIMITS_OPEN_FILES": "64",
          "HUTCH_LIMITS_PROCESSES": "24", "HUTCH_ENGINE_MAX_SESSIONS": "12"}
# Category and code, the tool, its arguments.
CAUSES = (
    ("syntax_error/syntax_error", "run_python", {"code": "x = (1,\ny = 2"}),
    ("syntax_error/indentation_error", "run_python", {"code": "if 1:\nx = 2"}),
    ("python_exception/exception", "run_python", {"code": "def f():\n    return 1 / 0\nf()"}),
    ("missing_module/module_not_found", "run_python", {"code": "import stats"}),
    ("system_exit/exit", "run_python", {"code": "import sys\nsys.exit(3)"}),
    ("process_exit/nonzero_exit", "run_shell", {"command": "exit 4"}),
    ("crash/signal_segv", "run_python", {"code": "import ctypes\nctypes.string_at(0)"}),
    ("crash/signal_abrt", "run_python", {"code": "import os\nos.abort()"}),
    ("timeout/wall_timeout", "run_python", {"code": "import time\ntime.sleep(60)", "timeout": 1}),
    ("memory_limit/memory_error", "run_python", {"code": "x = bytearray(1 << 50)"}),
    ("memory_limit/oom_killed", "run_python", {"code": "x = []\nwhile True: x.append(bytearray(b'x') * (1 << 24))"}),
    ("resource_limit/file_too_large", "run_python", {"code": "open('f', 'wb').write(bytes(1 << 25))"}),
    ("resource_limit/disk_full", "run_python", {"code": "for name in 'gh': open(name, 'wb').write(bytes(6 << 20))"}),
    ("resource_limit/too_many_files", "run_python", {"code": "a = [open('/dev/null') for _ in range(999)]"}),
    ("resource_limit/too_many_processes", "run_python",
     {"code": "import threading, time\nfor _ in range(99): threading.Thread(target=time.sleep, args=(3,), daemon=True)"
              ".start()"}),
    ("network_blocked/network_disabled", "run_python",
     {"code": "import socket\nsocket.create_connection(('192.0.2.1', 80), 1)"}),
    ("permission_denied/readonly_fs", "run_python", {"code": "open('/usr/x', 'w')"}),
    ("permission_denied/path_denied", "run_python", {"code": "import os\nos.chown('/workspace', 0, 0)"}),
    ("stdin_unavailable/input_called", "run_python", {"code": "input()"}),
    ("file_error/file_not_found", "edit_file", {"command": "view", "path": "none"}),
    ("file_error/invalid_path", "read_file", {"path": "/etc/passwd"}),
    ("file_error/is_directory", "edit_file", {"command": "create", "path": "d", "file_text": ""}),
    ("file_error/no_match", "edit_file", {"command": "str_replace", "path": "f", "old_str": "b", "new_str": ""}),
    ("file_error/multiple_matches", "edit_file", {"command": "str_replace", "path": "f", "old_str": "a", "new_str": ""}),
    ("invalid_request/bad_arguments", "run_python", {"code": 5, "colour": "red"}),
)
WITHOUT_SESSION = (
    ("invalid_request/unknown_tool", "no_such_tool", {}),
    ("invalid_request/unknown_execution", "get_execution", {"execution_id": "exe_none"}),
    ("session_not_found/unknown", "run_python", {"code": "1", "session_id": "ses_none"}),
)


def setUpModule() -> None:
    api_support.begin(env=LIMITS)


def tearDownModule() -> None:
    api_support.finish()


def plainly(value: object) -> object:
    """Without what differs from run to run."""
    if isinstance(value, dict):
        kept = {name: plainly(item) for name, item in value.items() if name not in ("used", "traceback")}
        if kept.get("retry_after_ms"):
            kept["retry_after_ms"] = "…"
        return kept
    if isinstance(value, list):
        return [plainly(item) for item in value]
    if isinstance(value, str):
        value = re.sub(r"<cell \d+>", "<cell …>", value)
        value = re.sub(r"(exe|ses|req)_[0-9a-f]{8,}", r"\1_…", value)
        return re.sub(r"0x[0-9a-f]+", "0x…", value)
    return value


class ToolErrors(ApiScenario):
    golden: dict = {}
    seen: set = set()

    @classmethod
    def setUpClass(cls):
        if "UPDATE_GOLDEN" not in os.environ:
            with open(GOLDEN) as file:
                cls.golden = json.load(file)

    @classmethod
    def tearDownClass(cls):
        if "UPDATE_GOLDEN" in os.environ:
            with open(GOLDEN, "w") as file:
                json.dump(cls.golden, file, indent=1, ensure_ascii=False, sort_keys=True)
                file.write("\n")

    def in_dialect(self, dialect: str, name: str, arguments: dict, client=None) -> tuple[bool, dict]:
        """Whether the dialect calls it an error (None: it cannot say so), and the structured result."""
        api = client or self.api
        if dialect == "mcp":
            mcp = HttpClient(api.key)
            mcp.begin()
            answer = mcp.legacy("tools/call", {"name": name, "arguments": arguments}).response
            if "error" in answer:  # an unknown tool is an error of the protocol there
                return True, {"protocol_error": answer["error"]}
            return answer["result"]["isError"], answer["result"]["structuredContent"]
        body = {"anthropic": {"type": "tool_use", "id": "t", "name": name, "input": arguments},
                "openai": {"id": "c", "type": "function",
                           "function": {"name": name, "arguments": json.dumps(arguments)}},
                "openai-responses": {"type": "function_call", "call_id": "c", "name": name,
                                     "arguments": json.dumps(arguments)},
                "gemini": {"functionCall": {"name": name, "args": arguments}},
                "plain": {"name": name, "arguments": arguments}}[dialect]
        answer = api.post("/v1/tools/call", body).json
        if dialect == "anthropic":
            return answer["is_error"], json.loads(answer["content"][0]["text"])
        if dialect == "openai":
            return None, json.loads(answer["content"])
        if dialect == "openai-responses":
            return None, json.loads(answer["output"])
        if dialect == "gemini":
            return None, answer["functionResponse"]["response"]
        return answer["is_error"], answer["result"]

    def everywhere(self, key: str, provoke) -> None:
        """`provoke(dialect)` gives what in_dialect gave; every dialect must tell what the golden file says."""
        for dialect in DIALECTS:
            with self.subTest(key, dialect=dialect):
                self.check(key, *provoke(dialect))

    def check(self, key: str, flag: bool | None, result: dict) -> None:
        category, code = key.split("/")
        if "protocol_error" in result:
            self.assertIn("Unknown tool", result["protocol_error"]["message"])
            return
        error = result["error"]
        self.assertEqual((error["category"], error["code"]), (category, code), result)
        self.assertEqual((result["errorCategory"], result["isRetryable"]), (category, error["retryable"]))
        self.assertEqual(result["isError"], flag if flag is not None else result["isError"])
        for word in ("message", "hint", "fix", "state"):
            self.assertIsInstance(error[word], str)
        self.assertNotRegex(error["hint"], r"--[a-z]|limits\.", "a hint for another kind of caller")
        told = plainly({"status": result["status"], "exit_code": result.get("exit_code"),
                        "isError": result["isError"], "error": error})
        if "UPDATE_GOLDEN" in os.environ:
            self.golden.setdefault(key, told)
        self.assertIn(key, self.golden, "a cause that the golden file does not know")
        self.assertEqual(told, self.golden[key])
        self.seen.add(key)

    def test_what_code_and_calls_can_do_wrong(self):
        for key, name, arguments in CAUSES:
            with self.api.session() as session:
                self.api.put(session.file("f"), b"a a")
                self.api.post(session.file("d"), {"operation": "mkdir"}, 201)
                given = {"session_id": session.id, **arguments}
                self.everywhere(key, lambda dialect: self.in_dialect(dialect, name, given))

        for key, name, arguments in WITHOUT_SESSION:
            self.everywhere(key, lambda dialect: self.in_dialect(dialect, name, arguments))

    def test_a_cancelled_run(self):
        def provoke(dialect):
            begun = self.in_dialect(dialect, "run_python", {"code": SLEEP, "session_id": session.id, "background": True})[1]
            shown = lambda: self.in_dialect("plain", "get_execution", {"execution_id": begun["execution_id"]})[1]["stdout"]
            self.assertTrue(support.settle(lambda: "1" in shown(), 10))
            return self.in_dialect(dialect, "cancel_execution", {"execution_id": begun["execution_id"]})
        with self.api.session() as session:
            self.everywhere("cancelled/user_cancelled", provoke)

    def test_a_tool_of_the_client_that_failed(self):
        def provoke(dialect):
            begun = self.in_dialect(dialect, "run_python", {"code": "await tools.search()", "tools": SEARCH,
                                                            "session_id": session.id})[1]
            return self.in_dialect(dialect, "answer_tool_calls", {
                "execution_id": begun["execution_id"], "results": [
                    {"call_id": begun["pending_tool_calls"][0]["call_id"], "content": "no index", "is_error": True}]})
        with self.api.session() as session:
            self.everywhere("host_call_failed/tool_error", provoke)

    def test_no_room(self):
        sessions = []
        try:
            for _ in range(30):
                answer = self.api.call("POST", "/v1/sessions", {"template": "bare", "mode": "plain"})
                if answer.status != 201:
                    break
                sessions.append(answer.json["id"])
            self.everywhere("capacity/no_slots",
                            lambda dialect: self.in_dialect(dialect, "run_python", {"code": "1", "session_id": "new"}))
        finally:
            for name in sessions:
                self.api.delete("/v1/sessions/" + name)

    def test_keys_have_limits_and_scopes(self):
        eager = api_support.server.new_client("eager", "--runs-per-minute", "1")
        self.in_dialect("plain", "run_python", {"code": "1"}, eager)
        self.everywhere("rate_limited/rate_limited",
                        lambda dialect: self.in_dialect(dialect, "run_python", {"code": "1"}, eager))
        runner = api_support.server.new_client("runner", "--scope", "run")
        reading = {"session_id": "ses_x", "path": "a"}
        self.everywhere("unauthorized/forbidden",
                        lambda dialect: self.in_dialect(dialect, "read_file", reading, runner))
        nobody = api_support.Client(api_support.server, None)
        nobody.post("/v1/tools/call", {"name": "run_python", "arguments": {"code": "1"}}, 401)

    def test_zz_a_daemon_that_dies_under_a_run(self):
        """The last, as the daemon is killed and started again."""
        run = self.in_dialect("plain", "run_python", {"code": SLEEP, "background": True})[1]["execution_id"]
        api_support.server.kill()
        api_support.server.start()
        type(self).api = api_support.server.client()
        self.everywhere("internal/worker_lost",
                        lambda dialect: self.in_dialect(dialect, "get_execution", {"execution_id": run}))

    def test_zzz_the_golden_file_tells_of_nothing_else(self):
        if self.seen:  # not this test alone
            self.assertEqual(self.seen | {"invalid_request/unknown_tool"}, set(self.golden))


if __name__ == "__main__":
    support.main()
