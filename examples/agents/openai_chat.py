"""A model behind OpenAI's Chat Completions, or any server that speaks it, with Hutch as its `run_python` tool.

    HUTCH_KEY=hutch_... OPENAI_API_KEY=... python openai_chat.py "What is the 10,000th prime?"
"""
import json
import os
import sys
import urllib.request

import openai

HUTCH_URL = os.environ.get("HUTCH_URL", "http://127.0.0.1:8484")
MODEL = os.environ.get("MODEL", "gpt-5.5")
SYSTEM = "Use run_python for whatever can be computed. Variables and files stay from one call to the next."
MOST_TURNS = 20


def hutch(method, path, body=None):
    headers = {"Authorization": "Bearer " + os.environ["HUTCH_KEY"], "Content-Type": "application/json"}
    data = json.dumps(body).encode() if body else None
    request = urllib.request.Request(HUTCH_URL + path, data, headers, method=method)
    with urllib.request.urlopen(request, timeout=330) as answer:
        return json.loads(answer.read() or "null")


def ask(question):
    client = openai.OpenAI()
    tools = hutch("GET", "/v1/tools?format=openai&names=run_python")["tools"]
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": question}]
    session = "new"  # the first call makes a session, the others run in it
    try:
        for _ in range(MOST_TURNS):
            reply = client.chat.completions.create(model=MODEL, messages=messages, tools=tools).choices[0].message
            messages.append(reply)
            if not reply.tool_calls:
                return reply.content
            for call in reply.tool_calls:
                function = {"name": call.function.name, "arguments": call.function.arguments}
                result = hutch("POST", "/v1/tools/call", {
                    "id": call.id, "type": "function", "function": function, "session_id": session})
                session = result.pop("session_id", session)  # between Hutch and us: the model's API refuses it
                messages.append(result)
        return "No answer after %d turns." % MOST_TURNS
    finally:
        if session != "new":
            hutch("DELETE", "/v1/sessions/" + session)


print(ask(" ".join(sys.argv[1:]) or "What is the 10,000th prime?"))
