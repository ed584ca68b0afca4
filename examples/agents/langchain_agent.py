"""A LangChain agent with Hutch as its `run_python` tool, over HTTP: text and plots, and one session for the agent.

    HUTCH_KEY=hutch_... ANTHROPIC_API_KEY=... python langchain_agent.py "What is the 10,000th prime?"
"""
import json
import os
import sys
import urllib.request

from langchain.agents import create_agent
from langchain_core.tools import StructuredTool, ToolException

HUTCH_URL = os.environ.get("HUTCH_URL", "http://127.0.0.1:8484")
MODEL = os.environ.get("MODEL", "anthropic:claude-sonnet-5-5")
SYSTEM = "Use run_python for whatever can be computed. Variables and files stay from one call to the next."
MOST_STEPS = 40  # a turn of the model and a call of a tool are two


def hutch(method, path, body=None):
    headers = {"Authorization": "Bearer " + os.environ["HUTCH_KEY"], "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(HUTCH_URL + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=330) as answer:
        return json.loads(answer.read() or "null")


def make_tool(name, session):
    about = hutch("GET", "/v1/tools?format=anthropic&names=" + name)["tools"][0]

    def call(**arguments):
        answer = hutch("POST", "/v1/tools/call", {"name": name, "arguments": arguments, "session_id": session})
        if answer["is_error"]:  # the tool failed; an exception of the code is a result like any other
            raise ToolException(answer["text"])
        pictures = [{"type": "image", "base64": image["data"], "mime_type": image["mime_type"]}
                    for image in answer["images"]]
        return [{"type": "text", "text": answer["text"]}, *pictures], answer["result"]

    return StructuredTool(name=name, description=about["description"], args_schema=about["input_schema"], func=call,
                          response_format="content_and_artifact", handle_tool_error=True)


def ask(question):
    session = hutch("POST", "/v1/sessions", {"name": "langchain"})["id"]
    try:
        agent = create_agent(MODEL, tools=[make_tool("run_python", session)], system_prompt=SYSTEM)
        state = agent.invoke({"messages": [{"role": "user", "content": question}]}, {"recursion_limit": MOST_STEPS})
        return state["messages"][-1].text
    finally:
        hutch("DELETE", "/v1/sessions/" + session)


print(ask(" ".join(sys.argv[1:]) or "What is the 10,000th prime?"))
