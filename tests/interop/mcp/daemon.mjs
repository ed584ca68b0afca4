// A daemon of its own for these tests, with the fixtures that the conformance suites want.
import { spawn } from "node:child_process";
import fs from "node:fs";
import os from "node:os";
import path from "node:path";

export async function startDaemon(hutch, origins) {
  const directory = fs.mkdtempSync(path.join(os.tmpdir(), "hutch-interop-"));
  const ready = path.join(directory, "ready.json");
  const child = spawn(hutch, [
    "serve", "--listen", "127.0.0.1:0", "--socket", path.join(directory, "serve.sock"), "--data", path.join(directory, "data"),
    "--log", path.join(directory, "log"), "--ready-file", ready, "--conformance-fixtures",
  ], { env: { ...process.env, HUTCH_SERVE_ORIGINS: origins }, stdio: ["ignore", "pipe", "inherit"] });
  let said = "";
  child.stdout.on("data", (piece) => { said += piece; });
  const deadline = Date.now() + 20_000;
  while (!fs.existsSync(ready) || !/^key: \S+$/m.test(said)) {
    if (child.exitCode !== null || Date.now() > deadline) throw new Error(`hutch serve did not start: ${said}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  const key = /^key: (\S+)$/m.exec(said)[1];
  const url = `http://${JSON.parse(fs.readFileSync(ready, "utf8")).listen}/mcp`;
  const stop = async () => {
    const gone = new Promise((resolve) => child.once("exit", resolve));
    child.kill("SIGTERM");
    await gone;
    fs.rmSync(directory, { recursive: true, force: true });
  };
  return { url, key, directory, stop };
}
