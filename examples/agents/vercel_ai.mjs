// A Vercel AI SDK agent with Hutch as its `run_python` tool.
//
//   HUTCH_KEY=hutch_... ANTHROPIC_API_KEY=... node vercel_ai.mjs "What is the 10,000th prime?"
import { anthropic } from "@ai-sdk/anthropic";
import { generateText, isStepCount, jsonSchema, tool } from "ai";

const hutchUrl = process.env.HUTCH_URL ?? "http://127.0.0.1:8484";
const model = anthropic(process.env.MODEL ?? "claude-sonnet-5-5");
const instructions = "Use run_python for whatever can be computed. Variables and files stay from one call to the next.";

async function hutch(method, path, body, abortSignal) {
  const answer = await fetch(hutchUrl + path, {
    method,
    headers: { Authorization: `Bearer ${process.env.HUTCH_KEY}`, "Content-Type": "application/json" },
    body: body && JSON.stringify(body),
    signal: abortSignal,
  });
  if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${await answer.text()}`);
  return answer.status === 204 ? null : answer.json();
}

async function makeTool(name, session) {
  const { tools } = await hutch("GET", `/v1/tools?format=anthropic&names=${name}`);
  return tool({
    description: tools[0].description,
    inputSchema: jsonSchema(tools[0].input_schema),
    execute: (input, { abortSignal }) =>
      hutch("POST", "/v1/tools/call", { name, arguments: input, session_id: session }, abortSignal),
    toModelOutput: ({ output }) =>
      output.is_error // the tool failed; an exception of the code is a result like any other
        ? { type: "error-text", value: output.text }
        : {
            type: "content",
            value: [
              { type: "text", text: output.text },
              ...output.images.map((image) => ({
                type: "file",
                mediaType: image.mime_type,
                data: { type: "data", data: image.data },
              })),
            ],
          },
  });
}

const session = (await hutch("POST", "/v1/sessions", { name: "vercel-ai" })).id;
try {
  const { text } = await generateText({
    model,
    instructions,
    prompt: process.argv.slice(2).join(" ") || "What is the 10,000th prime?",
    tools: { run_python: await makeTool("run_python", session) },
    stopWhen: isStepCount(20),
  });
  console.log(text);
} finally {
  await hutch("DELETE", `/v1/sessions/${session}`);
}
