// A Python process that does the same work with transformers on command, so that both sides can take turns.
import { execFileSync, spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** Returns the first Python that has torch and transformers, or undefined. */
export function findPython() {
  for (const python of [process.env.TEMPER_PYTHON, "python3", "python"]) {
    if (!python) continue;
    try {
      execFileSync(python, ["-c", "import torch, transformers"], { stdio: "ignore" });
      return python;
    } catch {
      // Try the next one.
    }
  }
  return undefined;
}

/** Starts a Python program of this folder. `ask` sends it one job and returns its answer. */
export async function startPython(python, program, settings) {
  const child = spawn(python, [new URL(program, import.meta.url).pathname, JSON.stringify(settings)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const readAnswer = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`${python} ended early (exit code ${child.exitCode}). Its own message is above.`);
    return JSON.parse(value);
  };
  return {
    facts: await readAnswer(),
    ask: (job) => {
      child.stdin.write(`${JSON.stringify(job)}\n`);
      return readAnswer();
    },
    stop: () => child.stdin.end(),
  };
}
