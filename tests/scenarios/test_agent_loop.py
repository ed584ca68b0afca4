"""`hutch agent`: a scripted model, real sandboxes. The four questions that an agent must get right, every way in which
a model can stop, and what is done when things fail."""
from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time

import support
from model_server import ModelServer, call, fail, results_of, say
from support import Done, Scenario

setUpModule, tearDownModule = support.begin, support.finish

KEY = "sk-scenario-1f2e3d4c5b6a"
QUESTION = "What is 6 times 7?"
NUMBERS = [23, 45, 12, 67, 89, 34, 56, 78, 90, 11]
SALES = """product,q1,q2,q3,q4
Widget A,120,145,98,167
Widget B,89,112,134,91
Widget C,200,178,220,195
"""


class AgentScenario(Scenario):
    def ask(self, server: ModelServer, *options: str, question: str = QUESTION, **more) -> Done:
        name = "OPENAI_API_KEY" if server.dialect == "openai" else "ANTHROPIC_API_KEY"
        return self.home.call("agent", question, "--base-url", server.url, "--api", server.dialect,
                              "--model", "scripted", "--json", *options, env={name: KEY}, within=120, **more)

    def report(self, script: list, *options: str, dialect: str = "anthropic", question: str = QUESTION) -> dict:
        """The report of an agent that the server had no complaints about."""
        with ModelServer(script, dialect, key=KEY) as server:
            done = self.ask(server, *options, question=question)
            server.check()
            self.requests = server.requests
        self.assertNotIn(KEY, done.text + done.errors)
        try:
            return done.record
        except ValueError:
            raise AssertionError("no report: %r %s" % (done.out[:500], done.errors)) from None

    def check_answered(self, report: dict, *words: str) -> None:
        self.assertEqual((report["stopped_because"], report["best_effort"], report["error"]), ("answered", False, None))
        for word in words:
            self.assertIn(word, report["answer"])


def answer_from_results(request: dict) -> dict:
    """A model that repeats what its code printed: the answer can only be right if the code has run."""
    return say("The code says: " + results_of(request)[-1])


class FourQuestions(AgentScenario):
    def test_statistics_of_a_list(self):
        code = ("import statistics as s\nx = %r\nq = s.quantiles(x, n=4, method='inclusive')\n"
                "print('mean', s.mean(x), 'median', s.median(x), 'sd', round(s.stdev(x), 3), 'iqr', q[2] - q[0])"
                % NUMBERS)
        for dialect in ("anthropic", "openai"):
            with self.subTest(dialect):
                report = self.report([call(code), answer_from_results], dialect=dialect,
                                     question="Mean, median, standard deviation and IQR of %s" % NUMBERS)
                self.check_answered(report, "mean 50.5", "median 50.5", "sd 30.189", "iqr 49.5")
                self.assertEqual((report["attempts"], report["failed_attempts"], report["iterations"]), (1, 0, 2))

    def test_a_percentage_to_four_decimals(self):
        report = self.report([call("print(f'{47 / 1283 * 100:.4f}%')"), answer_from_results],
                             question="47 / 1283 as a percentage to four decimals")
        self.check_answered(report, "3.6633%")

    def test_a_module_that_does_not_exist_takes_two_attempts(self):
        def second(request: dict) -> dict:
            text = results_of(request)[-1]
            self.assertIn("ModuleNotFoundError", text)
            self.assertIn("This can be fixed by changing the code; 2 attempts are left.", text)
            return call("import statistics\nprint(statistics.mean(%r))" % NUMBERS)

        for dialect in ("anthropic", "openai"):
            with self.subTest(dialect):
                first = call("import stats\nprint(stats.mean(%r))" % NUMBERS)
                report = self.report([first, second, answer_from_results], dialect=dialect,
                                     question="Use the `stats` module to compute the mean")
                self.check_answered(report, "50.5")
                self.assertEqual((report["attempts"], report["failed_attempts"], report["iterations"]), (2, 1, 3))

    def test_sales_from_a_file(self):
        code = ("import csv\nrows = list(csv.DictReader(open('sales.csv')))\n"
                "q = {k: sum(int(r[k]) for r in rows) for k in ('q1', 'q2', 'q3', 'q4')}\n"
                "for r in rows: print(r['product'], sum(int(r[k]) for k in q))\n"
                "print('total', sum(q.values()), 'best', max(q, key=q.get), q)\n"
                "print(f\"growth {(q['q4'] / q['q1'] - 1) * 100:.1f}%\")")
        with self.home.folder() as folder:
            path = os.path.join(folder, "sales.csv")
            with open(path, "w") as file:
                file.write(SALES)
            report = self.report([call(code), answer_from_results], "--file", path,
                                 question="Totals, best quarter and growth")
        self.check_answered(report, "Widget A 530", "Widget B 426", "Widget C 793", "total 1749", "best q4",
                            "growth 10.8%")
        self.assertIn("sales.csv", self.requests[0]["system"])


class Turns(AgentScenario):
    def test_several_calls_in_one_turn(self):
        report = self.report([call("print('first')", "print('second')", words="Two things."),
                              lambda request: say(" / ".join(results_of(request)))])
        self.check_answered(report, "first", "second")
        self.assertEqual(report["attempts"], 2)

    def test_what_the_model_thought_goes_back_unchanged(self):
        thinking = [{"type": "thinking", "thinking": "Let me thänk.", "signature": "c2lnbmF0dXJl"},
                    {"type": "redacted_thinking", "data": "b3BhcXVl"},
                    {"type": "block_of_the_future", "value": {"deep": [1, 2.5, None]}}]
        turn = call("print(6 * 7)")
        turn["content"] = thinking + turn["content"]
        self.check_answered(self.report([turn, say("42")]), "42")
        self.assertEqual(self.requests[1]["messages"][1]["content"][:3], thinking)

    def test_a_refusal_is_reported(self):
        report = self.report([{"content": [], "stop_reason": "refusal",
                               "stop_details": {"type": "refusal", "category": "cyber", "explanation": "Not this."}}])
        self.assertEqual((report["stopped_because"], report["error"]["category"], report["error"]["message"]),
                         ("refused", "cyber", "Not this."))

    def test_a_call_that_was_cut_off_is_not_run(self):
        cut = {"type": "tool_use", "name": "run_python", "input": {},
               "partial_json": '{"code": "open(\'x\', \'w\'); pri'}
        report = self.report([{"content": [{"type": "text", "text": "I will run"}, cut], "stop_reason": "max_tokens"},
                              call("import os; print(os.path.exists('x'))"), answer_from_results])
        self.check_answered(report, "False")
        self.assertEqual(report["attempts"], 1)
        self.assertGreater(self.requests[1]["max_tokens"], self.requests[0]["max_tokens"])

    def test_an_answer_that_is_cut_off_twice(self):
        report = self.report([say("One, ", stop_reason="max_tokens"), say("two, ", stop_reason="max_tokens")])
        self.assertEqual((report["stopped_because"], report["answer"]), ("truncated", "One, two, "))

    def test_a_paused_turn_goes_on(self):
        report = self.report([say("Looking", stop_reason="pause_turn"), say("Found: 42")])
        self.check_answered(report, "Found: 42")
        self.assertEqual([message["role"] for message in self.requests[1]["messages"]], ["user", "assistant"])

    def test_a_conversation_that_no_longer_fits(self):
        report = self.report([say("So far", stop_reason="model_context_window_exceeded")])
        self.assertEqual(report["stopped_because"], "truncated")

    def test_counts_of_tokens_are_added_up(self):
        usage = {"input_tokens": 10, "output_tokens": 4, "cache_read_input_tokens": 7}
        for dialect in ("anthropic", "openai"):
            report = self.report([call("1", usage=usage), say("42", usage=usage)], dialect=dialect)
            self.assertEqual(report["tokens"], {"input": 20, "output": 8, "cache_read": 14, "cache_creation": 0})


class Failures(AgentScenario):
    def test_a_server_that_is_busy_is_asked_again(self):
        for dialect in ("anthropic", "openai"):
            with self.subTest(dialect):
                report = self.report([fail(429, "rate_limit_error", retry_after_ms="20"),
                                      fail(529, "overloaded_error"), say("42")], dialect=dialect)
                self.check_answered(report, "42")
                self.assertEqual(report["iterations"], 1)

    def test_an_answer_that_breaks_off_is_asked_for_again(self):
        error = {"type": "overloaded_error", "message": "Overloaded"}
        report = self.report([say("4", **{"break": "error", "error": error}), say("4", **{"break": "close"}),
                              say("42")])
        self.check_answered(report)
        self.assertEqual(report["answer"], "42")

    def test_what_will_not_pass_is_not_repeated(self):
        report = self.report([fail(400, "invalid_request_error", "no such model: scripted")])
        self.assertEqual(report["stopped_because"], "model_error")
        self.assertIn("no such model", report["error"]["message"])
        self.assertTrue(report["error"]["hint"])
        self.assertEqual(len(self.requests), 1)

    def test_a_key_that_the_server_does_not_know_is_not_shown(self):
        with ModelServer([], key="another") as server:
            done = self.ask(server)
        self.assertIn("401", done.record["error"]["message"])
        self.assertNotIn(KEY, done.text + done.errors)

    def test_nobody_listens(self):
        with ModelServer([]) as server:
            pass
        done = self.ask(server)
        self.assertEqual(done.record["stopped_because"], "model_error")

    def test_a_certificate_that_nobody_signed_is_refused(self):
        with self.home.folder() as folder:
            pair = [os.path.join(folder, name) for name in ("certificate.pem", "key.pem")]
            made = subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
                                   "-subj", "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1",
                                   "-out", pair[0], "-keyout", pair[1]], capture_output=True, check=False)
            if made.returncode != 0:
                support.missing("openssl, to make a certificate")
            with ModelServer([say("42")], certificate=(pair[0], pair[1])) as server:
                self.assertEqual(self.ask(server).record["stopped_because"], "model_error")
                self.assertEqual(server.requests, [])
                trusted = self.home.call("agent", QUESTION, "--base-url", server.url, "--model", "scripted", "--json",
                                         env={"ANTHROPIC_API_KEY": KEY, "SSL_CERT_FILE": pair[0]})
                self.assertEqual(trusted.record["answer"], "42", trusted.errors)

    def test_an_interrupt_ends_it_soon(self):
        with ModelServer([call("import time; print('up', flush=True); time.sleep(25)")]) as server:
            process = self.home.start("agent", QUESTION, "--base-url", server.url, "--model", "scripted", "--json",
                                      env={"ANTHROPIC_API_KEY": KEY}, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            support.settle(lambda: server.requests, 30)
            time.sleep(1.5)  # the code is running by then; if it is not yet, the interrupt must work all the same
            begin = time.monotonic()
            process.send_signal(signal.SIGINT)
            out, _ = process.communicate(timeout=30)
        self.assertLess(time.monotonic() - begin, 10)
        if out:
            self.assertEqual(json.loads(out)["stopped_because"], "cancelled")


class Budgets(AgentScenario):
    def test_three_failures_end_the_tools(self):
        report = self.report([call("1 / 0"), call("1 / 0"), call("1 / 0"), say("Perhaps 42.")])
        self.assertEqual((report["stopped_because"], report["best_effort"], report["answer"]),
                         ("attempts_exhausted", True, "Perhaps 42."))
        self.assertEqual((report["attempts"], report["failed_attempts"]), (3, 3))
        self.assertEqual(self.requests[3]["tool_choice"], {"type": "none"})
        self.assertEqual(self.requests[3]["tools"], self.requests[0]["tools"])

    def test_fewer_attempts_on_request(self):
        report = self.report([call("1 / 0", "print('not any more')"), say("No.")], "--max-attempts", "1")
        self.assertEqual((report["attempts"], report["stopped_because"]), (1, "attempts_exhausted"))

    def test_turns_are_bounded_even_if_everything_works(self):
        for dialect in ("anthropic", "openai"):
            report = self.report([call("1"), call("2"), call("3"), say("Perhaps 42.")], "--max-iterations", "3",
                                 dialect=dialect)
            self.assertEqual((report["stopped_because"], report["best_effort"]), ("iterations_exhausted", True))
            self.assertEqual((report["iterations"], report["attempts"]), (3, 3))

    def test_errors_that_code_cannot_mend_end_the_tools(self):
        lost = call("import socket\nsocket.create_connection(('192.0.2.1', 80))")  # there is no network for anybody
        report = self.report([lost, lost, say("I cannot.")])
        self.assertEqual((report["stopped_because"], report["best_effort"]), ("attempts_exhausted", True))
        self.assertIn("This cannot be fixed by changing the code", results_of(self.requests[1])[-1])

    def test_arguments_that_fit_no_tool_are_answered(self):
        turn = call("print(1)", tool="no_such_tool")
        report = self.report([turn, lambda request: say(results_of(request)[-1])])
        self.check_answered(report, "no tool of that name")
        self.assertEqual(report["attempts"], 0)


class Papers(AgentScenario):
    def test_the_transcript_has_every_turn_and_no_key(self):
        with self.home.folder() as folder:
            path = os.path.join(folder, "transcript.json")
            self.report([call("print(6 * 7)", words="I will compute."), say("42")], "--transcript", path)
            with open(path) as file:
                text = file.read()
        transcript = json.loads(text)
        self.assertNotIn(KEY, text)
        self.assertEqual([turn["stop_reason"] for turn in transcript["turns"]], ["tool_use", "end_turn"])
        self.assertIn("print(6 * 7)", json.dumps(transcript["turns"][0]["response"]))
        self.assertTrue(re.search(r"42", json.dumps(transcript["turns"][1]["new_messages"])))

    def test_the_notebook_has_every_cell(self):
        with self.home.folder() as folder:
            path = os.path.join(folder, "answer.ipynb")
            self.report([call("x = 6"), call("print(x * 7)"), say("42")], "--notebook", path)
            with open(path) as file:
                notebook = json.load(file)
        code = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
        self.assertEqual(code, ["x = 6", "print(x * 7)"])

    def test_a_key_from_a_file(self):
        with self.home.folder() as folder:
            path = os.path.join(folder, "key")
            with open(path, "w") as file:
                file.write(KEY + "\n")
            with ModelServer([say("42")], key=KEY) as server:
                done = self.home.call("agent", QUESTION, "--base-url", server.url, "--model", "scripted", "--json",
                                      "--key-file", path)
        self.assertEqual(done.record["answer"], "42", done.errors)

    def test_the_key_is_not_in_the_sandbox(self):
        report = self.report([call("import os; print(sorted(v for v in os.environ.values() if 'sk-' in v))"),
                              answer_from_results])
        self.check_answered(report, "[]")


if __name__ == "__main__":
    support.main()
