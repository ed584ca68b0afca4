// Other people's clients against ours: both lines of the official SDK, the AI SDK, Anthropic's helper; over standard
// input and output and over HTTP.
import assert from "node:assert/strict";
import { Client as ClientOne } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as StdioOne } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as HttpOne } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { Client as ClientTwo, StreamableHTTPClientTransport as HttpTwo } from "@modelcontextprotocol/client";
import { StdioClientTransport as StdioTwo } from "@modelcontextprotocol/client/stdio";
import { createMCPClient } from "@ai-sdk/mcp";
import { Experimental_StdioMCPTransport as StdioAi } from "@ai-sdk/mcp/mcp-stdio";
import { mcpTools } from "@anthropic-ai/sdk/helpers/beta/mcp";

const SLOW = "import time\nfor i in range(4):\n    print('step', i, flush=True); time.sleep(0.3)";
const PICTURE = `
import base64
from pathlib import Path
Path("out.csv").write_text("a,b\\n1,2\\n")
class Shown:
    def _repr_png_(self):
        return base64.b64decode("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8DwHwAFBQIAX8jx0gAAAABJRU5ErkJggg==")
Shown()
`;

async function exercise(client, where) {
  const { tools } = await client.listTools();
  assert(tools.some((tool) => tool.name === "run_python"), where);
  const first = await client.callTool({ name: "run_python", arguments: { code: "x = 41; print('hi')" } });
  assert.equal(first.structuredContent.status, "ok", where);
  const session_id = first.structuredContent.session_id;
  const second = await client.callTool({ name: "run_python", arguments: { code: "x + 1", session_id } });
  assert.equal(second.structuredContent.result, "42", where);
  const failed = await client.callTool({ name: "run_python", arguments: { code: "1/0", session_id } });
  assert(!failed.isError && failed.structuredContent.status === "error", where);
  const bad = await client.callTool({ name: "run_python", arguments: {} });
  assert(bad.isError, where);
  const shown = await client.callTool({ name: "run_python", arguments: { code: PICTURE, session_id } });
  assert(shown.content.some((block) => block.type === "image"), where + JSON.stringify(shown).slice(0, 500));
  const uri = shown.structuredContent.files.find((file) => file.path.endsWith("out.csv")).uri;
  const { contents } = await client.readResource({ uri });
  assert.equal(contents[0].text, "a,b\n1,2\n", where);
  const { resources } = await client.listResources();
  assert(resources.some((resource) => resource.uri === uri), where);
  const { prompts } = await client.listPrompts();
  const { messages } = await client.getPrompt({ name: prompts[0].name, arguments: { path: "out.csv" } });
  assert.equal(messages.length, 1, where);
  const told = [];
  await client.callTool({ name: "run_python", arguments: { code: SLOW, session_id } }, ...progressArguments(client, told));
  assert(told.length >= 3 && told.every((value, i) => i === 0 || value > told[i - 1]), `${where}: progress ${told}`);
  await client.callTool({ name: "close_session", arguments: { session_id } });
  return tools.length;
}

function progressArguments(client, told) {
  const options = { onprogress: ({ progress }) => told.push(progress), timeout: 20_000, resetTimeoutOnProgress: true };
  return client instanceof ClientOne ? [undefined, options] : [options];
}

export async function runClients(hutch, url, key, report) {
  const local = { command: hutch, args: ["mcp"], env: { ...process.env } };
  const headers = { Authorization: `Bearer ${key}` };
  const remote = { requestInit: { headers } };
  for (const [name, make] of [["stdio", () => new StdioOne(local)], ["http", () => new HttpOne(new URL(url), remote)]]) {
    const client = new ClientOne({ name: "interop", version: "0" }, { capabilities: {} });
    await client.connect(make());
    report(`sdk 1, ${name}: ${await exercise(client, `sdk 1 ${name}`)} tools`);
    await client.close();
  }
  for (const mode of ["legacy", "auto", { pin: "2026-07-28" }]) {
    for (const [name, make] of [["stdio", () => new StdioTwo(local)], ["http", () => new HttpTwo(new URL(url), remote)]]) {
      const where = `sdk 2 ${JSON.stringify(mode)} ${name}`;
      const client = new ClientTwo({ name: "interop", version: "0" }, { capabilities: {}, versionNegotiation: { mode } });
      await client.connect(make());
      const count = await exercise(client, where);
      report(`${where}: ${count} tools, ${client.getNegotiatedProtocolVersion?.()}`);
      await client.close();
    }
  }
  for (const [name, transport] of [["stdio", new StdioAi(local)], ["http", { type: "http", url, headers }]]) {
    const client = await createMCPClient({ transport });
    const tools = await client.tools();
    const result = await tools.run_python.execute({ code: "print(6 * 7)" }, { toolCallId: "1", messages: [] });
    assert.match(JSON.stringify(result), /42/);
    report(`ai sdk, ${name}: ${Object.keys(tools).length} tools`);
    await client.close();
  }
  for (const [how, transport] of [
    ["stdio", new StdioOne(local)],
    ["HTTP", new HttpOne(new URL(url), { requestInit: { headers } })],
  ]) {
    const client = new ClientOne({ name: "interop", version: "0" }, { capabilities: {} });
    await client.connect(transport);
    const { tools } = await client.listTools();
    const wrapped = mcpTools(tools, client);
    const runPython = wrapped.find((tool) => tool.name === "run_python");
    const blocks = await runPython.run({ code: PICTURE });
    assert(blocks.some((block) => block.type === "image") && blocks.some((block) => block.type === "text"), how);
    report(`anthropic helper over ${how}: ${wrapped.length} tools`);
    await client.close();
  }
}
