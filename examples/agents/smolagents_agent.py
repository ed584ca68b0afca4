"""A smolagents CodeAgent whose code runs in a Hutch session instead of in this process.

    HUTCH_KEY=hutch_... OPENAI_API_KEY=... python smolagents_agent.py "What is the 10,000th prime?"
"""
import json
import os
import sys
import urllib.request

from smolagents import AgentError, CodeAgent, LogLevel, OpenAIModel
from smolagents.local_python_executor import CodeOutput
from smolagents.monitoring import AgentLogger
from smolagents.remote_executors import RemotePythonExecutor

HUTCH_URL = os.environ.get("HUTCH_URL", "http://127.0.0.1:8484")
MODEL = os.environ.get("MODEL", "gpt-5.5")


def hutch(method, path, body=None):
    headers = {"Authorization": "Bearer " + os.environ["HUTCH_KEY"], "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(HUTCH_URL + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=330) as answer:
        return json.loads(answer.read() or "null")


class HutchExecutor(RemotePythonExecutor):
    """One session for the agent: what a step defines, the next one finds."""

    def __init__(self, logger, **session):
        super().__init__(additional_imports=[], logger=logger)
        self.path = "/v1/sessions/" + hutch("POST", "/v1/sessions", {"name": "smolagents", **session})["id"]

    def install_packages(self, additional_imports):
        return additional_imports  # a sandbox has no network: packages belong into the template

    def run(self, code):
        return hutch("POST", self.path + "/runs", {"code": code})

    def run_code_raise_errors(self, code):
        run = self.run(code)
        if error := run["error"]:
            if (error["python"] or {}).get("ename") == self.FINAL_ANSWER_EXCEPTION:
                value = self.run("import sys\nprint(sys.last_value.value)")["stdout"]  # a message is cut at 4 KiB
                answer = self._deserialize_final_answer(value.rstrip("\n"))
                return CodeOutput(answer, run["stdout"], is_final_answer=True)
            words = "%s%s\n%s %s" % (run["stdout"], run["stderr"], error["message"], error["hint"])
            raise AgentError(words, self.logger)
        value = run["result"]["mime"].get("text/plain") if run["result"] else None
        return CodeOutput(value, run["stdout"] + run["stderr"], is_final_answer=False)

    def cleanup(self):
        hutch("DELETE", self.path)


def ask(question):
    logger = AgentLogger(level=LogLevel.ERROR)
    model = OpenAIModel(MODEL, api_base=os.environ.get("OPENAI_BASE_URL"))
    with CodeAgent(tools=[], model=model, executor=HutchExecutor(logger), logger=logger,
                   additional_authorized_imports=["*"]) as agent:  # the sandbox is the limit
        return agent.run(question)


print(ask(" ".join(sys.argv[1:]) or "What is the 10,000th prime?"))
