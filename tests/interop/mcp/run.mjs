// Runs everything: node run.mjs PATH_OF_HUTCH [conformance|inspector|clients]...
import { spawn } from "node:child_process";
import fs from "node:fs";
import http from "node:http";
import path from "node:path";
import { runClients } from "./clients.mjs";
import { startDaemon } from "./daemon.mjs";
import { startKeyProxy } from "./key_proxy.mjs";

const here = import.meta.dirname;
const modules = path.join(here, "node_modules");
const hutch = path.resolve(process.argv[2] ?? "build/bin/hutch");
const wanted = process.argv.slice(3);
const wants = (part) => wanted.length === 0 || wanted.includes(part);
let failures = 0;

function check(what, passed, details) {
  console.log(`${passed ? "ok  " : "FAIL"} ${what}`);
  if (passed) return;
  failures += 1;
  console.log(details.slice(-6000));
}

function command(program, ...args) {
  return new Promise((resolve) => {
    const child = spawn(process.execPath, [path.join(modules, program), ...args], { cwd: here });
    let output = "";
    child.stdout.on("data", (piece) => { output += piece; });
    child.stderr.on("data", (piece) => { output += piece; });
    child.on("exit", (code) => resolve({ code, output }));
  });
}

async function conformance(url) {
  const current = (...more) => command("@modelcontextprotocol/conformance/dist/index.js", "server", "--url", url, ...more);
  for (const [what, run] of [
    ["conformance 2026-07-28", () => current("--requirements", "2026-07-28")],
    ["conformance 2025-11-25", () => current("--requirements", "2025-11-25", "--expected-failures", "baseline.yml")],
    ["conformance, published suite", () => command("conformance-published/dist/index.js", "server", "--url", url,
      "--expected-failures", "baseline.yml")],
  ]) {
    const { code, output } = await run();
    check(what, code === 0, output);
    if (process.env.HUTCH_INTEROP_VERBOSE) console.log(output);
  }
}

async function inspector(url, key) {
  const bin = JSON.parse(fs.readFileSync(path.join(modules, "@modelcontextprotocol/inspector/package.json"))).bin;
  const program = path.join("@modelcontextprotocol/inspector", typeof bin === "string" ? bin : bin["mcp-inspector"]);
  const remote = [url, "--transport", "http", "--header", `Authorization: Bearer ${key}`];
  const call = ["--method", "tools/call", "--tool-name", "run_python", "--tool-args-json", '{"code":"print(1)"}', "--format", "json"];
  for (const [what, args] of [
    ["inspector, http, modern, strict", [...remote, "--protocol-era", "modern", "--method", "tools/list", "--strict", "--format", "json"]],
    ["inspector, http, legacy, strict", [...remote, "--method", "tools/list", "--strict", "--format", "json"]],
    ["inspector, http, call", [...remote, ...call]],
    ["inspector, http, modern call", [...remote, "--protocol-era", "modern", ...call]],
    ["inspector, http, load", [...remote, ...call, "--load", "--load-requests", "300", "--load-concurrency", "16"]],
    ["inspector, stdio, auto", [hutch, "mcp", "--protocol-era", "auto", "--method", "tools/list", "--format", "json"]],
    ["inspector, stdio, call", [hutch, "mcp", ...call]],
  ]) {
    const { code, output } = await command(program, "--cli", ...args);
    check(what, code === 0, output);
  }
}

// The proxy's address must be known before the daemon, which allows it as an origin.
const place = await new Promise((resolve) => {
  const probe = http.createServer().listen(0, "127.0.0.1", () => {
    const { port } = probe.address();
    probe.close(() => resolve(port));
  });
});
const daemon = await startDaemon(hutch, `http://127.0.0.1:${place},http://localhost:${place}`);
const proxy = await startKeyProxy(daemon.url, daemon.key, place);
try {
  if (wants("conformance")) await conformance(`http://127.0.0.1:${place}/mcp`);
  if (wants("inspector")) await inspector(daemon.url, daemon.key);
  if (wants("clients")) {
    await runClients(hutch, daemon.url, daemon.key, (what) => check(what, true)).catch((problem) => {
      check("clients", false, String(problem.stack));
    });
  }
} finally {
  proxy.close();
  proxy.closeAllConnections();
  await daemon.stop();
}
process.exit(failures === 0 ? 0 : 1);
