"""A LangChain agent that finds Hutch's `run_python` through MCP.

    HUTCH_KEY=hutch_... ANTHROPIC_API_KEY=... python langchain_mcp.py "What is the 10,000th prime?"
"""
import asyncio
import os
import sys

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient

HUTCH_URL = os.environ.get("HUTCH_URL", "http://127.0.0.1:8484")
MODEL = os.environ.get("MODEL", "anthropic:claude-sonnet-5-5")
SYSTEM = "Use run_python for whatever can be computed. To find variables again, pass the session_id that you were told."
MOST_STEPS = 40  # a turn of the model and a call of a tool are two


async def ask(question):
    servers = MultiServerMCPClient({"hutch": {
        "transport": "http",
        "url": HUTCH_URL + "/mcp",
        "headers": {"Authorization": "Bearer " + os.environ["HUTCH_KEY"]},
    }})
    tools = [tool for tool in await servers.get_tools() if tool.name == "run_python"]
    agent = create_agent(MODEL, tools=tools, system_prompt=SYSTEM)
    state = await agent.ainvoke({"messages": [{"role": "user", "content": question}]}, {"recursion_limit": MOST_STEPS})
    return state["messages"][-1].text


print(asyncio.run(ask(" ".join(sys.argv[1:]) or "What is the 10,000th prime?")))
