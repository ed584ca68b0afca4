"""A pydantic-ai agent that finds Hutch's `run_python` through MCP.

    HUTCH_KEY=hutch_... ANTHROPIC_API_KEY=... python pydantic_ai_agent.py "What is the 10,000th prime?"
"""
import asyncio
import os
import sys

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset

HUTCH_URL = os.environ.get("HUTCH_URL", "http://127.0.0.1:8484")
MODEL = os.environ.get("MODEL", "anthropic:claude-sonnet-5-5")
SYSTEM = "Use run_python for whatever can be computed. To find variables again, pass the session_id that you were told."


async def ask(question):
    server = MCPToolset(
        HUTCH_URL + "/mcp",
        headers={"Authorization": "Bearer " + os.environ["HUTCH_KEY"]},
        max_retries=3,  # how often a call may be refused, one after the other; exceptions of the code do not count
    )
    tools = server.filtered(lambda context, tool: tool.name == "run_python")
    agent = Agent(MODEL, toolsets=[tools], instructions=SYSTEM)
    return (await agent.run(question)).output


print(asyncio.run(ask(" ".join(sys.argv[1:]) or "What is the 10,000th prime?")))
