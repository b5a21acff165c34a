// A Python that does the same work on command, so that both sides can take turns.
import { execFileSync, spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** The first Python that has torch and transformers; undefined where none has. */
export function findReference() {
  for (const python of [process.env.TEMPER_PYTHON, "python3", "python"]) {
    if (!python) continue;
    try {
      execFileSync(python, ["-c", "import torch, transformers"], { stdio: "ignore" });
      return python;
    } catch {
      // The next one may have them.
    }
  }
  return undefined;
}

/** Starts the reference, a program beside this one; `ask` does one job and gives its answer. */
export async function startReference(python, settings, program = "reference.py") {
  const child = spawn(python, [new URL(program, import.meta.url).pathname, JSON.stringify(settings)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const next = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`${python} ended early (exit code ${child.exitCode}); its own words are above`);
    return JSON.parse(value);
  };
  return {
    facts: await next(),
    ask: (job) => {
      child.stdin.write(`${JSON.stringify(job)}\n`);
      return next();
    },
    stop: () => child.stdin.end(),
  };
}
