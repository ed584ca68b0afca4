"""Claude with a Python of its own: Hutch answers its `run_python` calls.

    HUTCH_KEY=hutch_... ANTHROPIC_API_KEY=... python anthropic_messages.py "What is the 10,000th prime?"
"""
import json
import os
import sys
import urllib.request

import anthropic

HUTCH_URL = os.environ.get("HUTCH_URL", "http://127.0.0.1:8484")
MODEL = os.environ.get("MODEL", "claude-sonnet-5-5")
SYSTEM = "Use run_python for whatever can be computed. Variables and files stay from one call to the next."
MOST_TURNS = 20


def hutch(method, path, body=None):
    headers = {"Authorization": "Bearer " + os.environ["HUTCH_KEY"], "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(HUTCH_URL + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=330) as answer:
        return json.loads(answer.read() or "null")


def ask(question):
    client = anthropic.Anthropic()
    tools = hutch("GET", "/v1/tools?format=anthropic&names=run_python")["tools"]
    messages = [{"role": "user", "content": question}]
    session = "new"  # the first call makes a session, the others run in it
    try:
        for _ in range(MOST_TURNS):
            reply = client.messages.create(model=MODEL, max_tokens=8192, system=SYSTEM, tools=tools, messages=messages)
            messages.append({"role": "assistant", "content": reply.content})
            if reply.stop_reason != "tool_use":
                return "".join(block.text for block in reply.content if block.type == "text")
            results = []
            for block in reply.content:
                if block.type == "tool_use":
                    call = {"type": "tool_use", "id": block.id, "name": block.name, "input": block.input}
                    result = hutch("POST", "/v1/tools/call", {**call, "session_id": session})
                    session = result.pop("session_id", session)  # between Hutch and us: the model's API refuses it
                    results.append(result)
            messages.append({"role": "user", "content": results})
        return "No answer after %d turns." % MOST_TURNS
    finally:
        if session != "new":
            hutch("DELETE", "/v1/sessions/" + session)


print(ask(" ".join(sys.argv[1:]) or "What is the 10,000th prime?"))
