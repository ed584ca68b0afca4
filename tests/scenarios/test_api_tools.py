"""Tools as agents call them: definitions in every format, calls in every dialect, results, errors and files."""
from __future__ import annotations

import base64
import json
import os
import random
import time

import api_support
import support
from api_support import ApiScenario

setUpModule, tearDownModule = api_support.begin, api_support.finish


class Tools(ApiScenario):
    def plain(self, name: str, arguments: dict, expect: int = 200, **more) -> dict:
        return self.api.post("/v1/tools/call", {"name": name, "arguments": arguments, **more}, expect).json

    def python(self, code: str, **arguments) -> dict:
        """The structured result of a run that the tool itself did not refuse."""
        answer = self.plain("run_python", {"code": code, **arguments})
        self.assertFalse(answer["is_error"], answer)
        return answer["result"]

    def session(self) -> str:
        return self.python("1", session_id="new")["session_id"]


class Definitions(Tools):
    NAMES = ("run_python", "code_execution", "execute_python", "run_shell", "edit_file", "list_files", "read_file",
             "write_file", "get_execution", "cancel_execution", "list_sessions", "reset_session", "close_session")

    def test_every_format_tells_of_the_same_tools(self):
        shapes = {"anthropic": lambda tool: (tool["name"], tool["input_schema"]),
                  "openai": lambda tool: (tool["function"]["name"], tool["function"]["parameters"]),
                  "openai-responses": lambda tool: (tool["name"], tool["parameters"]),
                  "mcp": lambda tool: (tool["name"], tool["inputSchema"])}
        first = None
        for form, take in shapes.items():
            tools = dict(map(take, self.api.get("/v1/tools?format=" + form).json["tools"]))
            self.assertLessEqual(set(self.NAMES), set(tools))
            first = first or tools
            self.assertEqual(tools, first)
        gemini = self.api.get("/v1/tools?format=gemini&names=run_python").json["tools"]
        self.assertEqual(gemini[0]["functionDeclarations"][0]["name"], "run_python")
        self.assertNotIn("additionalProperties", json.dumps(gemini))

    def test_the_schemas_are_valid_and_closed(self):
        import jsonschema

        for tool in self.api.get("/v1/tools?format=mcp").json["tools"]:
            for schema in (tool["inputSchema"], tool["outputSchema"]):
                jsonschema.Draft202012Validator.check_schema(schema)
            self.assertIs(tool["inputSchema"]["additionalProperties"], False)
            self.assertRegex(tool["name"], "^[a-zA-Z0-9_-]{1,64}$")

    def test_the_parameters_are_those_of_the_documents(self):
        tools = {tool["name"]: tool["input_schema"] for tool in self.api.get("/v1/tools").json["tools"]}
        run = tools["run_python"]["properties"]
        self.assertEqual((run["timeout"]["type"], run["timeout"]["default"]), ("integer", 30))
        execution = tools["code_execution"]
        self.assertEqual(list(execution["properties"]), ["language", "code", "timeout", "install_packages",
                                                         "working_directory", "capture_output", "return_base64"])
        self.assertEqual(execution["required"], ["language", "code"])
        self.assertEqual((execution["properties"]["timeout"]["minimum"], execution["properties"]["timeout"]["maximum"]),
                         (1, 300))
        self.assertEqual(list(tools["execute_python"]["properties"]), ["code", "packages", "timeout", "files"])
        self.assertEqual(tools["execute_python"]["properties"]["timeout"]["default"], 30000)

    def test_names_choose_and_unknown_ones_are_refused(self):
        self.assertEqual([tool["name"] for tool in self.api.get("/v1/tools?names=run_shell,run_python").json["tools"]],
                         ["run_shell", "run_python"])
        self.assertIn("run_python", self.api.get("/v1/tools?names=nothing", 400).json["error"]["hint"])
        self.api.get("/v1/tools?format=xml", 400)

    def test_the_command_prints_the_same(self):
        printed = json.loads(self.home.call("tools", "all", "--format", "openai").out)
        self.assertEqual(printed, self.api.get("/v1/tools?format=openai").json["tools"])
        self.assertNotIn("code_execution", self.home.call("tools").text)


class Dialects(Tools):
    CODE = "print('hi')\n6 * 7"

    def check(self, text: str) -> None:
        result = json.loads(text)
        self.assertEqual((result["stdout"], result["result"], result["exit_code"]), ("hi\n", "42", 0))
        self.assertGreater(result["execution_time"], 0)

    def test_an_anthropic_block_gives_a_tool_result(self):
        answer = self.api.post("/v1/tools/call", {"type": "tool_use", "id": "toolu_1", "name": "run_python",
                                                  "input": {"code": self.CODE}, "caller": {"type": "direct"}}).json
        self.assertEqual((answer["type"], answer["tool_use_id"], answer["is_error"]), ("tool_result", "toolu_1", False))
        self.check(answer["content"][0]["text"])

    def test_an_openai_chat_call_gives_a_tool_message(self):
        answer = self.api.post("/v1/tools/call", {"id": "call_1", "type": "function", "function": {
            "name": "run_python", "arguments": json.dumps({"code": self.CODE})}}).json
        self.assertEqual((answer["role"], answer["tool_call_id"]), ("tool", "call_1"))
        self.check(answer["content"])

    def test_an_openai_responses_item_gives_an_output(self):
        answer = self.api.post("/v1/tools/call", {"type": "function_call", "id": "fc_1", "call_id": "call_2",
                                                  "status": "completed", "name": "run_python",
                                                  "arguments": json.dumps({"code": self.CODE})}).json
        self.assertEqual((answer["type"], answer["call_id"]), ("function_call_output", "call_2"))
        self.check(answer["output"])

    def test_a_gemini_call_gives_a_response(self):
        answer = self.api.post("/v1/tools/call", {"functionCall": {"id": "g", "name": "run_python",
                                                                   "args": {"code": self.CODE}}}).json
        self.assertEqual(answer["functionResponse"]["id"], "g")
        self.check(json.dumps(answer["functionResponse"]["response"]))

    def test_pictures_come_as_images(self):
        code = "import matplotlib.pyplot as plt\nplt.plot([1, 3, 2])\nplt.show()"
        session = self.api.session(template="default", mode="ipython")
        self.addCleanup(session.__exit__)
        answer = self.api.post("/v1/tools/call", {"type": "tool_use", "id": "t", "name": "run_python",
                                                  "input": {"code": code}, "session_id": session.id}).json
        image = answer["content"][1]["source"]
        self.assertEqual((image["type"], image["media_type"]), ("base64", "image/png"))
        self.assertTrue(base64.b64decode(image["data"]).startswith(b"\x89PNG"))
        answer = self.api.post("/v1/tools/call", {"type": "function_call", "call_id": "c", "name": "run_python",
                                                  "arguments": json.dumps({"code": code}), "session_id": session.id}).json
        self.assertEqual([part["type"] for part in answer["output"]], ["input_text", "input_image"])

    def test_pictures_that_a_model_would_refuse_are_left_out_and_told_of(self):
        shown = ("class P:\n def __init__(self, b): self.b = b\n def _repr_png_(self): return self.b\n"
                 "display(P(b'\\x89PNG\\r\\n\\x1a\\n\\0\\0\\0\\x0dIHDR' + (9000).to_bytes(4, 'big') * 2 + bytes(99)))")
        answer = self.plain("run_python", {"code": shown})
        self.assertEqual((answer["images"], len(answer["result"]["images_left_out"])), ([], 1), answer)
        self.assertIn("[a picture is not shown: it has 9000 x 9000 pixels", answer["text"])

    def test_anthropics_own_tool_can_be_imitated(self):
        def call(name: str, **arguments) -> dict:
            return self.api.post("/v1/tools/call", {"type": "server_tool_use", "id": "srvtoolu_1", "name": name,
                                                    "input": arguments, "session_id": session}).json

        session = "new"
        answer = call("code_execution", code="print('a')\nopen('f.txt', 'w').write('b')")
        session = answer["session_id"]
        self.assertEqual(answer["type"], "code_execution_tool_result")
        content = answer["content"]
        self.assertEqual((content["type"], content["stdout"], content["return_code"]),
                         ("code_execution_result", "a\n1\n", 0))
        self.assertEqual(content["content"][0]["type"], "code_execution_output")
        self.assertTrue(content["content"][0]["file_id"].endswith("/files/f.txt"))
        content = call("bash_code_execution", command="cat f.txt; echo e >&2; exit 3")["content"]
        self.assertEqual({**content, "content": []}, {"type": "bash_code_execution_result", "stdout": "b",
                                                      "stderr": "e\n", "return_code": 3, "content": []})
        content = call("bash_code_execution", restart=True)["content"]
        self.assertEqual((content["type"], content["return_code"]), ("bash_code_execution_result", 0))
        content = call("text_editor_code_execution", command="view", path="f.txt")["content"]
        self.assertEqual((content["type"], content["content"], content["total_lines"]),
                         ("text_editor_code_execution_view_result", "b", 1))
        content = call("text_editor_code_execution", command="create", path="f.txt", file_text="a\nb\n")["content"]
        self.assertEqual(content, {"type": "text_editor_code_execution_create_result", "is_file_update": True})
        content = call("text_editor_code_execution", command="str_replace", path="f.txt", old_str="b", new_str="c")
        self.assertEqual((content["content"]["old_start"], content["content"]["lines"]), (2, ["-b", "+c"]))
        content = call("text_editor_code_execution", command="view", path="none.txt")["content"]
        self.assertEqual((content["type"], content["error_code"]),
                         ("text_editor_code_execution_tool_result_error", "file_not_found"))
        content = call("code_execution", command="no such argument")["content"]
        self.assertEqual(content, {"type": "code_execution_tool_result_error", "error_code": "invalid_tool_input"})
        self.api.post("/v1/tools/call", {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}, 400)

    def test_what_is_no_call_is_refused(self):
        for body in ({}, {"name": 5}, {"type": "tool_use", "name": "run_python"},
                     {"type": "function", "id": "a", "function": {"arguments": "{}"}}, {"name": "run_python", "x": 1},
                     {"name": "run_python", "arguments": 3}):
            with self.subTest(body=body):
                self.assertEqual(self.api.post("/v1/tools/call", body, 400).json["error"]["category"],
                                 "invalid_request")

    def test_a_tool_that_does_not_exist_is_for_the_model_to_correct(self):
        answer = self.api.post("/v1/tools/call", {"type": "tool_use", "id": "t", "name": "nothing", "input": {},
                                                  "added_by_the_provider": 1}).json
        self.assertTrue(answer["is_error"])
        self.assertIn("run_python", answer["content"][0]["text"])


class Arguments(Tools):
    def refusal(self, name: str, arguments: dict) -> str:
        answer = self.plain(name, arguments)
        self.assertTrue(answer["is_error"], answer)
        self.assertEqual((answer["result"]["errorCategory"], answer["result"]["isRetryable"]), ("invalid_request", False))
        return answer["result"]["error"]["message"]

    def test_each_problem_is_named(self):
        self.assertEqual(self.refusal("run_python", {}), "Invalid arguments: code is missing.")
        self.assertEqual(self.refusal("run_python", {"code": 1}), "Invalid arguments: code must be a string.")
        self.assertEqual(self.refusal("run_python", {"code": "1", "timeout": 0}),
                         "Invalid arguments: timeout must be from 1 to 300.")
        self.assertIn("unknown parameter: cod (it takes code, timeout", self.refusal("run_python", {"cod": "1"}))
        self.assertIn('language must be one of ["python"]',
                      self.refusal("code_execution", {"language": "ruby", "code": "1"}))
        self.assertIn("files[0].content is missing",
                      self.refusal("execute_python", {"code": "1", "files": [{"name": "a"}]}))
        self.assertIn("longer than 10240 characters", self.refusal("run_python", {"code": "x" * 20_000}))

    def test_arguments_that_are_no_json_are_for_the_model_to_correct(self):
        answer = self.api.post("/v1/tools/call", {"id": "c", "type": "function", "function": {
            "name": "run_python", "arguments": '{"code": "1"'}}).json
        self.assertIn("not a JSON object", json.loads(answer["content"])["error"]["message"])


class Runs(Tools):
    def test_a_fresh_sandbox_unless_a_session_is_named(self):
        self.assertIsNone(self.python("x = 1")["session_id"])
        self.assertEqual(self.python("x")["errorCategory"], "python_exception")
        session = self.session()
        self.python("x = 5", session_id=session)
        self.assertEqual(self.python("x * 2", session_id=session)["result"], "10")
        answer = self.plain("run_python", {"code": "x"}, session_id=session)
        self.assertEqual((answer["result"]["result"], answer["session_id"]), ("5", session))
        self.plain("close_session", {"session_id": session})
        answer = self.plain("run_python", {"code": "x", "session_id": session})
        self.assertEqual((answer["is_error"], answer["result"]["errorCategory"], answer["result"]["context"]["fix"]),
                         (True, "session_not_found", "new_session"))

    def test_output_is_cut_with_a_pointer_to_the_rest(self):
        result = self.python("import sys\nprint('é' * 30_000)\nprint('e' * 6_000, file=sys.stderr)")
        self.assertEqual((result["stdout"], len(result["stderr"])), ("é" * 10_000, 5_000))
        self.assertEqual(result["truncated"], {"stdout": True, "stderr": True})
        rest = self.api.get(result["full_log"]["stdout"]).body.decode()
        self.assertEqual(rest, "é" * 30_000 + "\n")
        more = self.plain("get_execution", {"execution_id": result["execution_id"], "stdout_from": 59_990})["result"]
        self.assertEqual((more["stdout"], more["truncated"]["stdout"]), ("ééééé\n", False))

    def test_a_time_out_has_what_was_printed_and_exit_code_124(self):
        result = self.python("import time\nprint('before', flush=True)\ntime.sleep(60)", timeout=1)
        self.assertEqual((result["status"], result["exit_code"], result["stdout"]), ("timeout", 124, "before\n"))
        self.assertTrue(result["stderr"].endswith("Execution timed out after 1s"), result["stderr"])

    def test_a_long_run_is_asked_for_later(self):
        session = self.session()
        begun = self.python("import time\nprint('a', flush=True)\ntime.sleep(1)\nprint('b')", session_id=session,
                            background=True)
        self.assertEqual((begun["status"], begun["exit_code"]), ("running", None))
        ended = self.plain("get_execution", {"execution_id": begun["execution_id"], "wait_seconds": 20})["result"]
        self.assertEqual((ended["status"], ended["stdout"]), ("ok", "a\nb\n"))

    def test_a_run_can_be_cancelled(self):
        session = self.session()
        begun = self.python("import time\nx = 1\ntime.sleep(60)", session_id=session, background=True)
        time.sleep(0.3)
        began = time.monotonic()
        self.plain("cancel_execution", {"execution_id": begun["execution_id"]})
        self.assertLess(time.monotonic() - began, 5)
        self.assertEqual(self.python("x", session_id=session)["result"], "1")
        self.assertTrue(self.plain("cancel_execution", {"execution_id": "exe_none"})["is_error"])

    def test_code_that_does_not_hear_of_its_cancellation_loses_its_interpreter(self):
        session = self.session()
        deaf = "import time\nopen('f', 'w').close()\nwhile True:\n try: time.sleep(60)\n except KeyboardInterrupt: pass"
        begun = self.python(deaf, session_id=session, background=True)
        time.sleep(0.3)
        ended = self.plain("cancel_execution", {"execution_id": begun["execution_id"]})["result"]
        self.assertEqual((ended["status"], ended["error"]["state"]), ("cancelled", "files_kept"))
        self.assertEqual(self.python("import os\nos.listdir()", session_id=session)["result"], "['f']")

    def test_a_command_runs_in_the_shell(self):
        result = self.plain("run_shell", {"command": "echo out; echo err >&2; exit 4"})["result"]
        self.assertEqual((result["stdout"], result["stderr"], result["exit_code"], result["session_id"]),
                         ("out\n", "err\n", 4, None))
        self.assertEqual(result["errorCategory"], "process_exit")
        session = self.session()
        self.plain("bash", {"command": "echo data > f"}, session_id=session)
        self.assertEqual(self.python("open('f').read()", session_id=session)["result"], "'data\\n'")
        self.plain("reset_session", {"session_id": session})
        self.assertIn(session, [one["session_id"] for one in self.plain("list_sessions", {})["result"]["sessions"]])

    def test_code_can_call_tools_that_were_offered(self):
        offer = [{"name": "search", "description": "Finds things.", "input_schema": {
            "type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}}]
        code = "a = await tools.search(query='x')\nb = await tools.search(query=a)\nprint(a, b)"
        result = self.python(code, tools=offer, session_id="new")
        self.assertEqual(result["status"], "running")
        self.assertEqual([(call["name"], call["input"]) for call in result["pending_tool_calls"]],
                         [("search", {"query": "x"})])
        for content in ("one", "two"):
            result = self.plain("answer_tool_calls", {"execution_id": result["execution_id"], "results": [
                {"call_id": result["pending_tool_calls"][0]["call_id"], "content": content}]})["result"]
        self.assertEqual((result["status"], result["stdout"]), ("ok", "one two\n"))
        self.assertTrue(self.plain("answer_tool_calls", {"execution_id": result["execution_id"], "results": [
            {"call_id": "call_9", "content": ""}]})["is_error"])

    def test_a_missing_module_is_told_with_what_is_there(self):
        error = self.python("import stats")["error"]
        self.assertEqual(error["category"], "missing_module")
        self.assertIn("statistics", error["hint"])

    def test_what_a_run_left_is_listed(self):
        result = self.python("open('out.csv', 'w').write('a,b\\n')")
        self.assertEqual([(file["path"], file["size"], file["change"]) for file in result["files"]],
                         [("/workspace/out.csv", 4, "created")])


class OtherFaces(Tools):
    def test_code_execution_measures_everything(self):
        result = self.plain("code_execution", {"language": "python", "code": "import ctypes\nprint(sum(range(10**6)))\n"
                                               "open('a.txt', 'w').write('x')", "return_base64": True,
                                               "install_packages": ["json"]})["result"]
        self.assertEqual((result["exit_code"], result["success"], result["stdout"]), (0, True, "499999500000\n"))
        self.assertEqual(base64.b64decode(result["base64_output"]), b"499999500000\n")
        file = result["created_files"][0]
        self.assertEqual((file["path"], file["size_bytes"], file["mime_type"]), ("/workspace/a.txt", 1, "text/plain"))
        self.assertEqual(base64.b64decode(file["content_base64"]), b"x")
        self.assertEqual(result["installed_packages"], [])
        security = result["security_validation"]
        self.assertEqual((security["allowed"], security["risk_level"]), (True, "high"))
        self.assertTrue(any("ctypes" in warning for warning in security["warnings"]), security)
        metrics = result["performance_metrics"]
        for name in ("sandbox_setup_time_ms", "code_validation_time_ms", "execution_time_ms",
                     "result_processing_time_ms", "total_time_ms"):
            self.assertGreater(metrics[name], 0, name)
        self.assertGreater(metrics["total_time_ms"], metrics["execution_time_ms"])
        self.assertGreater(result["memory_usage_mb"], 1)
        self.assertGreater(result["cpu_usage_percent"], 0)

    def test_code_execution_refuses_what_cannot_be(self):
        refused = self.plain("code_execution", {"language": "python", "code": "1", "install_packages": ["torch"]})
        self.assertIn("Package installation failed", refused["result"]["error"]["message"])
        refused = self.plain("code_execution", {"language": "python", "code": "1", "working_directory": "/etc"})
        self.assertEqual(refused["result"]["errorCategory"], "permission_denied")
        quiet = self.plain("code_execution", {"language": "python", "code": "import os\nprint(os.getcwd())",
                                              "working_directory": "/tmp/deep/er"})["result"]
        self.assertEqual(quiet["stdout"], "/tmp/deep/er\n")
        quiet = self.plain("code_execution", {"language": "python", "code": "print(1)", "capture_output": False})
        self.assertEqual(quiet["result"]["stdout"], "")

    def test_execute_python(self):
        result = self.plain("execute_python", {
            "code": "import json\ntext = open('in/data.txt').read()\nopen('out.txt', 'w').write(text.upper())",
            "packages": ["json"], "files": [{"name": "in/data.txt", "content": "abc"}], "timeout": 10_000})["result"]
        self.assertEqual((result["success"], result["error"], result["exitCode"]), (True, None, 0))
        self.assertEqual({file["name"]: base64.b64decode(file["content"]) for file in result["files"]},
                         {"out.txt": b"ABC"})
        refused = self.plain("execute_python", {"code": "1", "packages": ["evil", "numpy", "worse"]})
        self.assertEqual(refused["result"]["error"]["message"], "Packages not allowed: evil, worse")
        late = self.plain("execute_python", {"code": "while True: pass", "timeout": 300})["result"]
        self.assertIn("timeout", late["error"])


class Editor(Tools):
    def edit(self, command: str, path: str = "a.py", **more) -> dict:
        return self.plain("edit_file", {"command": command, "path": path, **more}, session_id=self.id)

    def setUp(self):
        super().setUp()
        self.id = self.session()

    def test_the_commands_and_their_words(self):
        self.assertEqual(self.edit("create", file_text="one\ntwo\nthree\n")["text"], "File created successfully at: a.py")
        viewed = self.edit("view", view_range=[2, -1])["text"]
        self.assertEqual(viewed, "Here's the result of running `cat -n` on a.py:\n     2\ttwo\n     3\tthree\n")
        replaced = self.edit("str_replace", old_str="two", new_str="2")["text"]
        self.assertTrue(replaced.startswith("Successfully replaced text at exactly one location."), replaced)
        inserted = self.edit("insert", insert_line=0, insert_text="zero")["text"]
        self.assertTrue(inserted.startswith("The file a.py has been edited."), inserted)
        self.assertIn("zero\n     2\tone\n     3\t2", self.edit("view", path="/workspace/a.py")["text"])
        self.edit("undo_edit")
        self.assertNotIn("zero", self.edit("view")["text"])
        self.edit("undo_edit")
        self.edit("undo_edit")
        self.assertEqual(self.edit("view")["result"]["error"]["code"], "file_not_found")
        self.assertIn("No edit history found", self.edit("undo_edit")["text"])

    def test_refusals(self):
        self.edit("create", file_text="a\na\n")
        for more, code, text in (
                ({"command": "str_replace", "old_str": "b"}, "no_match", "Error: No match found for replacement."),
                ({"command": "str_replace", "old_str": "a"}, "multiple_matches", "Error: Found 2 matches"),
                ({"command": "insert", "insert_line": 9, "insert_text": "x"}, "bad_arguments",
                 "Invalid `insert_line` parameter: 9. It should be within the range of lines of the file: [0, 2]"),
                ({"command": "view", "view_range": [5, 6]}, "bad_arguments", "Invalid `view_range`"),
                ({"command": "view", "path": "/etc/passwd"}, "invalid_path", "Only files in /workspace"),
                ({"command": "create", "path": "../x", "file_text": ""}, "invalid_path", ""),
                ({"command": "create"}, "bad_arguments", "file_text is missing")):
            with self.subTest(more=more):
                answer = self.edit(**more)
                self.assertEqual((answer["is_error"], answer["result"]["error"]["code"]), (True, code), answer)
                self.assertIn(text, answer["text"])

    def test_directories_are_shown_two_levels_deep(self):
        self.edit("create", path="d/e/f.txt", file_text="x")
        text = self.edit("view", path="/workspace")["text"]
        self.assertIn("up to 2 levels deep in /workspace", text)
        self.assertIn("d/e", text)
        self.assertNotIn("f.txt", text)

    def test_edit_and_execute_is_one_call(self):
        answer = self.edit("create", file_text="import sys\nprint(__name__, __file__)\n1/0\n", execute=True)
        run = answer["result"]["execution"]
        self.assertEqual(run["stdout"], "__main__ /workspace/a.py\n")
        self.assertEqual((run["errorCategory"], run["error"]["python"]["ename"]),
                         ("python_exception", "ZeroDivisionError"))
        self.assertIn('File "/workspace/a.py", line 3', run["stderr"])
        answer = self.edit("str_replace", old_str="1/0", new_str="print('mended')", execute=True)
        self.assertTrue(answer["result"]["execution"]["stdout"].endswith("mended\n"))

    def test_files_are_read_written_and_listed(self):
        data = bytes(range(256))
        self.plain("write_file", {"path": "b.bin", "content_base64": base64.b64encode(data).decode()}, session_id=self.id)
        self.plain("write_file", {"path": "t.txt", "content": "é" * 30_000}, session_id=self.id)
        read = self.plain("read_file", {"session_id": self.id, "path": "b.bin"})["result"]
        self.assertEqual(base64.b64decode(read["base64"]), data)
        read = self.plain("read_file", {"session_id": self.id, "path": "t.txt", "offset": 1, "limit": 11})["result"]
        self.assertTrue(read["truncated"])
        paths = [entry["path"] for entry in self.plain("list_files", {"session_id": self.id})["result"]["entries"]]
        self.assertEqual(paths, ["/workspace/b.bin", "/workspace/t.txt"])
        self.python("import os\nos.symlink('/etc/passwd', 'link')", session_id=self.id)
        self.assertTrue(self.plain("read_file", {"session_id": self.id, "path": "link"})["is_error"])


class Hostile(Tools):
    def test_thousands_of_mangled_calls_never_break_the_daemon(self):
        chance = random.Random(20261116)
        values = (None, True, -1, 0, 1.5, 1e300, 10**30, 2**63, "", "x", "new", "\x00", "é" * 50, [], [1], [1e300, 2],
                  [2, -1], {}, {"a": {}}, "view", "../..")
        imitated = ("code_execution", "bash_code_execution", "text_editor_code_execution", "web_search")
        tools = [tool for tool in self.api.get("/v1/tools").json["tools"]]
        connection = self.api.connect()
        for _ in range(int(os.environ.get("FUZZ_CALLS", "1500"))):
            tool = chance.choice(tools)
            properties = tool["input_schema"]["properties"]
            arguments = {name: chance.choice(values) for name in properties if chance.random() < 0.6}
            if "code" in arguments and chance.random() < 0.8:
                arguments["code"] = chance.choice(("1", "1/0", "(", 5))
            if tool["name"] == "run_shell" and "command" in arguments:  # `view` is an editor on some hosts, and waits
                arguments["command"] = chance.choice(("true", "exit 3", "", 5, None))
            arguments.pop("wait_seconds", None)
            body = chance.choice((
                {"name": tool["name"], "arguments": arguments},
                {"type": "tool_use", "id": chance.choice(values), "name": tool["name"], "input": arguments},
                {"id": "c", "type": "function", "function": {"name": tool["name"], "arguments": json.dumps(arguments)}},
                {"type": "server_tool_use", "id": "s", "name": chance.choice(imitated),
                 "input": {**arguments, "command": chance.choice(("true", "create", "insert", 5, None))}},
                {"type": chance.choice(values), "name": chance.choice(values), "arguments": chance.choice(values)}))
            raw = json.dumps(body).encode()
            if chance.random() < 0.1:
                raw = raw[:chance.randrange(len(raw))]
            connection.request("POST", "/v1/tools/call", raw, {"Authorization": "Bearer " + self.api.key,
                                                               "Content-Type": "application/json"})
            answer = connection.getresponse()
            text = answer.read()
            self.assertLess(answer.status, 500, (body, text))
        connection.close()
        self.assertEqual(self.python("6 * 7")["result"], "42")


if __name__ == "__main__":
    support.main()
