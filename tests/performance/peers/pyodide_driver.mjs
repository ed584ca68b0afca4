// One Pyodide: runs the program in its arguments, or answers cells on its input (a JSON string a line, both ways).
import process from "node:process";
import readline from "node:readline";

const [place, program] = process.argv.slice(2);
const { loadPyodide } = await import(place + "/pyodide.mjs");
const python = await loadPyodide({ indexURL: place + "/" });

function fail(error) {
  console.error(String(error.message).trim());  // its last line is Python's
  process.exit(1);
}

if (program !== undefined) {
  python.setStdout({ batched: (line) => console.log(line) });
  await python.runPythonAsync(program).catch(fail);
} else {
  let printed = [];
  python.setStdout({ batched: (line) => printed.push(line + "\n") });
  for await (const line of readline.createInterface({ input: process.stdin })) {
    await python.runPythonAsync(JSON.parse(line)).catch(fail);
    process.stdout.write(JSON.stringify(printed.join("")) + "\n");
    printed = [];
  }
}
