"""Runs every program of examples/agents as its guide says, against a daemon with real sandboxes and a model that is a
script, and checks what the model was told, what the program printed, and that a sandbox did the work."""
from __future__ import annotations

import concurrent.futures
import dataclasses
import glob
import os
import shutil
import subprocess
import sys
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
sys.path.insert(0, os.path.join(ROOT, "tests/scenarios"))

import api_support
import environments
import support
from api_support import ApiScenario
from scripted_model import TOKEN, Conversation, ScriptedModel
from test_guides import EXAMPLES, GuidesTest  # noqa: F401  the guides and what they show belong together

PATIENCE = 120  # seconds for one example
AT_ONCE = 2
ANTHROPIC, OPENAI = "ANTHROPIC", "OPENAI"


@dataclasses.dataclass
class Example:
    file: str
    provider: str
    packages: str
    code: int = -1
    output: str = ""
    errors: str = ""
    seconds: float = 0

    @property
    def name(self) -> str:
        return self.file.partition(".")[0]

    def run(self, model: ScriptedModel, key: str) -> None:
        begin = time.monotonic()
        with support.home.folder() as home:
            try:
                done = subprocess.run([*self._program(), "What is the token?"], cwd=home, stdin=subprocess.DEVNULL,
                                      env=self._environment(model, key, home), capture_output=True, text=True,
                                      timeout=PATIENCE)
                self.code, self.output, self.errors = done.returncode, done.stdout, done.stderr
            except subprocess.TimeoutExpired as late:
                self.errors = "did not come back: %s" % (late.stderr or b"").decode("utf-8", "replace")
        self.seconds = time.monotonic() - begin

    def _program(self) -> list[str]:
        path = os.path.join(EXAMPLES, self.file)
        if self.packages != NODE:
            return [environments.python_for(self.packages), path]
        place = os.path.join(environments.node_directory(), self.file)  # node looks for packages beside the program
        shutil.copyfile(path, place)
        return [environments.node_and_npm()[0], place]

    def _environment(self, model: ScriptedModel, key: str, home: str) -> dict[str, str]:
        server = api_support.server
        versioned = self.provider == OPENAI or self.packages == NODE  # Anthropic's own SDKs add /v1 themselves
        base = model.url(self.name) + ("/v1" if versioned else "")
        return {
            "PATH": os.environ["PATH"], "HOME": home, "LANG": "C.UTF-8",
            "HUTCH_URL": "http://%s:%d" % (server.host, server.port), "HUTCH_KEY": key,
            self.provider + "_BASE_URL": base, self.provider + "_API_KEY": "scripted",
            # Nobody leaves this machine: what is not loopback meets a closed door at once.
            "HTTP_PROXY": "http://127.0.0.1:9", "HTTPS_PROXY": "http://127.0.0.1:9", "NO_PROXY": "127.0.0.1",
        }


PLAIN, LANGCHAIN, NODE = "requirements.txt", "requirements-langchain.txt", "node"
EXAMPLE_LIST = [
    Example("anthropic_messages.py", ANTHROPIC, PLAIN),
    Example("openai_chat.py", OPENAI, PLAIN),
    Example("openai_responses.py", OPENAI, PLAIN),
    Example("langchain_agent.py", ANTHROPIC, LANGCHAIN),
    Example("langchain_mcp.py", ANTHROPIC, LANGCHAIN),
    Example("pydantic_ai_agent.py", ANTHROPIC, PLAIN),
    Example("smolagents_agent.py", OPENAI, PLAIN),
    Example("vercel_ai.mjs", ANTHROPIC, NODE),
]

unavailable: dict[str, str] = {}  # packages that cannot be had here, and why
examples: dict[str, Example] = {}
clients: dict[str, api_support.Client] = {}
conversations: dict[str, Conversation] = {}


def setUpModule() -> None:
    if not glob.glob(support.DATA + "/templates/default-*/env"):
        support.missing("the template default: hutch template build default")
    for packages in (PLAIN, LANGCHAIN, NODE):  # before anything runs, so that times are those of the examples
        try:
            environments.node_directory() if packages == NODE else environments.python_for(packages)
        except unittest.SkipTest as why:
            unavailable[packages] = str(why)
    api_support.begin(env={"HUTCH_TEMPLATE": "default"})  # smolagents brings code along that imports numpy
    try:
        run_all()
    except BaseException:
        api_support.finish()
        raise


def run_all() -> None:
    model = ScriptedModel()
    try:
        able = [example for example in EXAMPLE_LIST if example.packages not in unavailable]
        for example in EXAMPLE_LIST:
            examples[example.file] = example
            clients[example.file] = api_support.server.new_client(example.name)  # its runs are its own
        with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(lambda example: example.run(model, clients[example.file].key), able))
        for example in EXAMPLE_LIST:
            conversations[example.file] = model.conversations.get(example.name, Conversation())
    finally:
        model.close()


def tearDownModule() -> None:
    api_support.finish()


class InteropTest(ApiScenario):
    def finished(self, file: str) -> tuple[Example, Conversation, str]:
        """The example, what it told the model, and the token that a sandbox made for it."""
        example, conversation = examples[file], conversations[file]
        if example.packages in unavailable:
            self.skipTest(unavailable[example.packages])
        said = "%s, %.1f s\n%s\n%s\n%s" % (file, example.seconds, conversation, example.output, example.errors[-3000:])
        self.assertEqual(conversation.complaints, [], said)
        self.assertEqual(example.code, 0, said)
        found = TOKEN.search(conversation.results[0].text)
        self.assertTrue(found, said)
        self.assertEqual(example.output.split("\n")[-2].rstrip(), "The token is %s." % found[1], said)
        self.assertEqual(self.printed_by_runs(file).count("token: " + found[1]), 1, said)
        return example, conversation, found[1]

    @staticmethod
    def printed_by_runs(file: str) -> str:
        client = clients[file]
        return "".join(client.get("/v1/runs/" + run["execution_id"]).json["stdout"]
                       for run in client.get("/v1/runs?limit=50").json["runs"])

    def check_calls(self, file: str, tells_errors: bool, shows_pictures: bool) -> None:
        """Output, state and an exception; a picture; a call that is not allowed."""
        _, conversation, token = self.finished(file)
        self.assertEqual(conversation.tools, ["run_python"])
        self.assertEqual(len(conversation.results), 4)
        first, failed, shown, refused = conversation.results
        self.assertIn("again: " + token, failed.text)
        self.assertIn("ValueError: on purpose", failed.text)
        self.assertIn("kode", refused.text)
        if tells_errors:
            self.assertEqual([result.is_error for result in conversation.results], [False, False, False, True])
        self.assertEqual([result.pictures for result in conversation.results], [0, 0, int(shows_pictures), 0])

    def check_nothing_left(self, file: str) -> None:
        self.assertEqual(clients[file].get("/v1/sessions").json["sessions"], [])

    def test_anthropic_messages(self):
        self.check_calls("anthropic_messages.py", tells_errors=True, shows_pictures=True)
        self.check_nothing_left("anthropic_messages.py")

    def test_openai_chat(self):
        self.check_calls("openai_chat.py", tells_errors=False, shows_pictures=False)
        self.check_nothing_left("openai_chat.py")

    def test_openai_responses(self):
        self.check_calls("openai_responses.py", tells_errors=False, shows_pictures=True)
        self.check_nothing_left("openai_responses.py")

    def test_langchain_agent(self):
        self.check_calls("langchain_agent.py", tells_errors=True, shows_pictures=True)
        self.check_nothing_left("langchain_agent.py")

    def test_langchain_mcp(self):
        self.check_calls("langchain_mcp.py", tells_errors=True, shows_pictures=True)

    def test_pydantic_ai(self):
        self.check_calls("pydantic_ai_agent.py", tells_errors=True, shows_pictures=True)

    def test_smolagents(self):
        _, conversation, token = self.finished("smolagents_agent.py")
        self.assertEqual(len(conversation.results), 2)
        self.assertIn("again: " + token, conversation.results[1].text)
        self.assertIn("ValueError: on purpose", conversation.results[1].text)
        self.check_nothing_left("smolagents_agent.py")

    def test_vercel_ai(self):
        self.check_calls("vercel_ai.mjs", tells_errors=True, shows_pictures=True)
        self.check_nothing_left("vercel_ai.mjs")


if __name__ == "__main__":
    support.main()
