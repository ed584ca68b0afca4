"""Every kind of error that a call of a tool can end in, from a real cause, in every dialect, held against a golden file.
After a change that is meant: UPDATE_GOLDEN=1, and read the difference."""
from __future__ import annotations

import json
import os
import re
import time

import api_support
import support
from api_support import ApiScenario
from mcp_client import HttpClient

GOLDEN = os.path.join(support.ROOT, "tests/scenarios/golden/tool_errors.json")
SEARCH = [{"name": "search", "description": "Finds.", "input_schema": {"type": "object", "properties": {}}}]
LIMITS = {"HUTCH_LIMITS_MEMORY": "160M", "HUTCH_LIMITS_SCRATCH": "8M", "HUTCH_LIMITS_OPEN_FILES": "64",
          "HUTCH_LIMITS_PROCESSES": "24", "HUTCH_ENGINE_MAX_SESSIONS": "12"}
# Category and code, the tool, its arguments. A session is made for each unless it says "fresh".
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
    ("invalid_request/unknown_tool", "no_such_tool", {}),
    ("invalid_request/unknown_execution", "get_execution", {"execution_id": "exe_none", "session_id": "fresh"}),
    ("session_not_found/unknown", "run_python", {"code": "1", "session_id": "ses_none"}),
)


def setUpModule() -> None:
    api_support.begin(env=LIMITS)


def tearDownModule() -> None:
    api_support.finish()


def plainly(value: object) -> object:
    """Without what differs from run to run."""
    if isinstance(value, dict):
        return {name: plainly(item) for name, item in value.items() if name not in ("used", "traceback")}
    if isinstance(value, list):
        return [plainly(item) for item in value]
    if isinstance(value, str):
        value = re.sub(r"<cell \d+>", "<cell …>", value)
        value = re.sub(r"(exe|ses|req)_[0-9a-f]{8,}", r"\1_…", value)
        return re.sub(r"0x[0-9a-f]+", "0x…", value)
    return value


class ToolErrors(ApiScenario):
    def setUp(self):
        self.mcp = HttpClient()
        self.mcp.begin()

    def in_dialect(self, dialect: str, name: str, arguments: dict, client=None) -> tuple[bool, dict]:
        """Whether the dialect calls it an error (None: it cannot say so), and the structured result."""
        api = client or self.api
        if dialect == "mcp":
            answer = self.mcp.legacy("tools/call", {"name": name, "arguments": arguments}).response
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

    def all_dialects(self, golden: dict, key: str, name: str, arguments: dict, prepare=None) -> None:
        category, code = key.split("/")
        session = None
        if "session_id" not in arguments:
            session = self.api.session()
            self.addCleanup(session.__exit__)
            self.api.put(session.file("f"), b"a a")
            self.api.post(session.file("d"), {"operation": "mkdir"}, 201)
        for dialect in ("plain", "anthropic", "openai", "openai-responses", "gemini", "mcp"):
            with self.subTest(key, dialect=dialect):
                given = {"session_id": session.id, **arguments} if session else dict(arguments)
                if given["session_id"] == "fresh" or name == "no_such_tool":
                    del given["session_id"]
                flag, result = self.in_dialect(dialect, name, given)
                if "protocol_error" in result:
                    self.assertIn("Unknown tool", result["protocol_error"]["message"])
                    continue
                error = result["error"]
                self.assertEqual((error["category"], error["code"]), (category, code), result)
                self.assertEqual((result["errorCategory"], result["isRetryable"]), (category, error["retryable"]))
                self.assertEqual(result["isError"], flag if flag is not None else result["isError"])
                for word in ("message", "hint", "fix", "state"):
                    self.assertIsInstance(error[word], str)
                self.assertNotRegex(error["hint"], r"--[a-z]|limits\.", "a hint for another kind of caller")
                told = plainly({"status": result["status"], "exit_code": result.get("exit_code"),
                                "isError": result["isError"], "error": error})
                if key in golden:
                    self.assertEqual(told, golden[key])
                golden[key] = told
        if session:
            session.__exit__()

    def test_every_cause_in_every_dialect(self):
        update = "UPDATE_GOLDEN" in os.environ
        golden = {}
        if not update:
            with open(GOLDEN) as file:
                golden = json.load(file)
        known = set(golden)
        for key, name, arguments in CAUSES:
            self.all_dialects(golden, key, name, arguments)
        if update:
            with open(GOLDEN, "w") as file:
                json.dump(golden, file, indent=1, ensure_ascii=False, sort_keys=True)
                file.write("\n")
        else:
            self.assertEqual(known, set(golden), "a cause that the golden file does not know")

    def test_a_cancelled_run(self):
        with self.api.session() as session:
            begun = self.in_dialect("plain", "run_python", {"code": "import time\nprint(1, flush=True)\ntime.sleep(60)",
                                                            "session_id": session.id, "background": True})[1]
            time.sleep(0.5)
            flag, result = self.in_dialect("anthropic", "cancel_execution", {"execution_id": begun["execution_id"]})
            self.assertEqual((flag, result["errorCategory"]), (False, "cancelled"), result)

    def test_a_tool_of_the_client_that_failed(self):
        with self.api.session() as session:
            begun = self.in_dialect("plain", "run_python", {"code": "await tools.search()", "tools": SEARCH,
                                                            "session_id": session.id})[1]
            flag, result = self.in_dialect("anthropic", "answer_tool_calls", {
                "execution_id": begun["execution_id"], "results": [
                    {"call_id": begun["pending_tool_calls"][0]["call_id"], "content": "no index", "is_error": True}]})
            self.assertEqual((flag, result["errorCategory"], result["error"]["code"]),
                             (False, "host_call_failed", "tool_error"), result)

    def test_no_room(self):
        sessions = []
        try:
            for _ in range(30):
                answer = self.api.call("POST", "/v1/sessions", {"template": "bare", "mode": "plain"})
                if answer.status != 201:
                    break
                sessions.append(answer.json["id"])
            for dialect in ("plain", "anthropic", "mcp"):
                flag, result = self.in_dialect(dialect, "run_python", {"code": "1", "session_id": "new"})
                self.assertEqual((flag, result["errorCategory"], result["exit_code"], result["isRetryable"]),
                                 (True, "capacity", 127, True), result)
        finally:
            for name in sessions:
                self.api.delete("/v1/sessions/" + name)

    def test_keys_have_limits_and_scopes(self):
        eager = api_support.server.new_client("eager", "--runs-per-minute", "1")
        self.in_dialect("plain", "run_python", {"code": "1"}, eager)
        flag, result = self.in_dialect("anthropic", "run_python", {"code": "1"}, eager)
        self.assertEqual((flag, result["errorCategory"], result["error"]["fix"]), (True, "rate_limited", "wait_and_retry"))
        self.assertGreater(result["error"]["retry_after_ms"], 0)
        runner = api_support.server.new_client("runner", "--scope", "run")
        flag, result = self.in_dialect("anthropic", "read_file", {"session_id": "ses_x", "path": "a"}, runner)
        self.assertEqual((flag, result["errorCategory"], result["error"]["fix"]), (True, "unauthorized", "ask_operator"))
        nobody = api_support.Client(api_support.server, None)
        nobody.post("/v1/tools/call", {"name": "run_python", "arguments": {"code": "1"}}, 401)


if __name__ == "__main__":
    support.main()
