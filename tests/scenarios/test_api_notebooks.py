"""Notebooks over HTTP: run as a whole, and a session as a notebook."""
from __future__ import annotations

import json

import api_support
import support
from api_support import ApiScenario

try:
    import nbformat
except ImportError:
    nbformat = None

setUpModule, tearDownModule = api_support.begin, api_support.finish


def code(source: str, *tags: str) -> dict:
    return {"cell_type": "code", "execution_count": None, "metadata": {"tags": list(tags)}, "outputs": [], "source": source}


def notebook(*sources: str | dict) -> dict:
    return {"cells": [code(source) if isinstance(source, str) else source for source in sources],
            "metadata": {"custom": 1}, "nbformat": 4, "nbformat_minor": 4}


def text_of(output: dict) -> str:
    return "".join(output["text"] if output["output_type"] == "stream" else output["data"]["text/plain"])


class NotebookScenario(ApiScenario):
    def check_valid(self, document: dict) -> None:
        if nbformat is None:
            support.missing("python3-nbformat")
        self.assertEqual(document["nbformat_minor"], 5)
        nbformat.validate(nbformat.from_dict(document))

    def run_notebook(self, *sources: str | dict, **more) -> dict:
        answer = self.api.post("/v1/notebooks/run", {"notebook": notebook(*sources), "template": "bare", **more}).json
        self.check_valid(answer["notebook"])
        return answer

    def texts(self, document: dict) -> list[str]:
        return ["".join(map(text_of, cell["outputs"])) for cell in document["cells"]]


class Running(NotebookScenario):
    def test_a_notebook_comes_back_with_its_outputs(self):
        before = len(self.api.get("/v1/sessions").json["sessions"])
        answer = self.run_notebook("x = 6", {"cell_type": "markdown", "metadata": {}, "source": "text"}, "print(x)\nx * 7")
        self.assertEqual((answer["status"], answer["cells"], answer["cells_run"], answer["error"]), ("ok", 2, 2, None))
        self.assertEqual(answer["notebook"]["metadata"], {"custom": 1})
        self.assertEqual([text_of(output) for output in answer["notebook"]["cells"][2]["outputs"]], ["6\n", "42"])
        self.assertEqual(len(self.api.get("/v1/sessions").json["sessions"]), before, "its session is still there")
        self.assertEqual(len(self.api.get("/v1/runs?session=" + answer["session_id"]).json["runs"]), 2)

    def test_an_error_ends_it_or_does_not(self):
        answer = self.run_notebook("1 / 0", "2")
        self.assertEqual((answer["status"], answer["cells_run"], answer["error"]["cell"]), ("error", 1, 1))
        self.assertEqual((answer["error"]["ename"], answer["notebook"]["cells"][1]["outputs"]), ("ZeroDivisionError", []))
        self.assertEqual(answer["error"]["cell_id"], answer["notebook"]["cells"][0]["id"])
        self.assertEqual([output["output_type"] for output in answer["notebook"]["cells"][0]["outputs"]], ["error"])
        answer = self.run_notebook("1 / 0", "2", allow_errors=True)
        self.assertEqual((answer["status"], answer["cells_failed"], text_of(answer["notebook"]["cells"][1]["outputs"][0])),
                         ("ok", 1, "2"))

    def test_each_cell_has_its_time(self):
        answer = self.run_notebook("x = 1", "while True: pass", "x", timeout=0.5, allow_errors=True)
        self.assertEqual(answer["error"]["ename"], "TimeoutError")
        self.assertEqual(text_of(answer["notebook"]["cells"][2]["outputs"][0]), "1")

    def test_it_ends_with_its_interpreter(self):
        answer = self.run_notebook("import os\nprint('said', flush=True)\nos.abort()", "2", allow_errors=True)
        self.assertEqual((answer["status"], answer["cells_run"], answer["error"]["ename"]), ("error", 1, "signal_abrt"))
        self.assertEqual(text_of(answer["notebook"]["cells"][0]["outputs"][0]), "said\n")

    def test_parameters(self):
        answer = self.run_notebook(code("n = 1", "parameters"), "print(n)", parameters={"n": [None, "'\n"]})
        self.assertEqual(self.texts(answer["notebook"])[2], "[None, \"'\\n\"]\n")

    def test_much_output_is_cut_and_said_so(self):
        answer = self.run_notebook("print('x' * 1000000)")
        out, err = answer["notebook"]["cells"][0]["outputs"]
        self.assertLess(len(text_of(out)), 300_000)
        self.assertIn("the rest of stdout was left out", text_of(err))

    def test_what_is_refused(self):
        def refused(data: dict, code: str, *words: str) -> None:
            self.refused("POST", "/v1/notebooks/run", data, 400, "invalid_request", code, *words)

        refused({}, "bad_arguments", "notebook")
        refused({"notebook": notebook(), "more": 1}, "unknown_field", "more")
        refused({"notebook": {"nbformat": 3, "worksheets": []}}, "bad_arguments", "format 3")
        refused({"notebook": notebook({"cell_type": "sql", "source": ""})}, "bad_arguments", "cell 1")
        refused({"notebook": notebook(), "parameters": {"a b": 1}}, "bad_arguments", "parameter")
        refused({"notebook": notebook(), "limits": {"memory": "much"}}, "bad_arguments", "limits.memory")
        refused({"notebook": notebook(), "timeout": 0}, "bad_arguments", "timeout")
        other = {**notebook(), "metadata": {"kernelspec": {"name": "ir", "display_name": "R", "language": "R"}}}
        refused({"notebook": other}, "bad_arguments", "for r")
        self.refused("POST", "/v1/notebooks/run", {"notebook": notebook(), "template": "none"}, 404, "template_not_found",
                     "unknown_template")


class Download(NotebookScenario):
    def download(self, at: str) -> dict:
        answer = self.api.get(at + "/notebook")
        self.assertEqual(answer.media_type, "application/x-ipynb+json")
        self.assertIn(".ipynb", answer.headers["content-disposition"])
        document = json.loads(answer.body)
        self.check_valid(document)
        return document

    def test_a_session_with_everything_that_it_showed(self):
        with self.api.session() as session:
            self.assertEqual(self.download(session.at)["cells"], [])
            for source in ("x = display('one', display_id='d')", "print('a')\ndisplay({'image/png': %r}, raw=True)\nprint('b')\n5" % PNG,
                           "update_display('two', display_id='d')", "print('gone')\nclear_output()\n'here'", "1 / 0"):
                session.run(source)
            self.api.post(session.at + "/runs", {"command": "echo not a cell"})
            document = self.download(session.at)
        self.assertEqual([cell["execution_count"] for cell in document["cells"]], [1, 2, 3, 4, 5])
        kinds = [[output["output_type"] for output in cell["outputs"]] for cell in document["cells"]]
        self.assertEqual(kinds, [["display_data"], ["stream", "display_data", "stream", "execute_result"], [],
                                 ["execute_result"], ["error"]])
        self.assertEqual(text_of(document["cells"][0]["outputs"][0]), "'two'")
        self.assertEqual(document["cells"][1]["outputs"][1]["data"]["image/png"], PNG)
        self.assertEqual(document["cells"][1]["outputs"][3]["execution_count"], 2)
        self.assertEqual(document["cells"][4]["outputs"][0]["ename"], "ZeroDivisionError")
        self.assertEqual(self.download(session.at)["cells"], document["cells"], "gone with its session")

    def test_what_it_wrote_runs_again(self):
        with self.api.session() as session:
            session.run("x = 20")
            session.run("x + 1")
            document = self.download(session.at)
        again = self.api.post("/v1/notebooks/run", {"notebook": document, "template": "bare"}).json["notebook"]
        self.assertEqual(again["cells"], document["cells"])

    def test_others_see_nothing(self):
        with self.api.session() as session:
            session.run("1")
            other = api_support.server.new_client("other")
            self.check_error(other.call("GET", session.at + "/notebook"), 404, "session_not_found", "unknown")
        self.refused("GET", "/v1/sessions/ses_0123456789abcdef01234567/notebook", None, 404, "session_not_found",
                     "unknown")


PNG = ("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")

if __name__ == "__main__":
    support.main()
