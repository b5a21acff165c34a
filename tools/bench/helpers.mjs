// What the benchmarks share: medians, rows of tables, and processes that do the same work on command, so that all sides take turns.
import { execFileSync, spawn } from "node:child_process";
import { createInterface } from "node:readline";

/** @param {readonly number[]} values */
export const median = (values) => values.toSorted((a, b) => a - b)[values.length >> 1];

/** Prints a row of a table. @param {readonly unknown[]} cells @param {number} width of the first cell */
export function printRow(cells, width) {
  console.log(cells.map((cell, i) => (i === 0 ? String(cell).padEnd(width) : String(cell).padStart(14))).join(""));
}

/** Returns the first Python that has torch and transformers, or undefined. */
export function findPython() {
  return [process.env.TEMPER_PYTHON, "python3", "python"].find((python) => {
    try {
      return python && execFileSync(python, ["-c", "import torch, transformers"], { stdio: "pipe" });
    } catch {
      return false;
    }
  });
}

/**
 * Starts a program that prints a line of JSON when it is ready, and one for each line that it reads.
 * @param {string} program
 * @param {readonly string[]} args
 */
export async function startPeer(program, args) {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const readAnswer = async () => {
    const { value, done } = await lines.next();
    if (done) throw new Error(`${program} ${args[0]} ended early. Its own message is above.`);
    return JSON.parse(value);
  };
  return {
    facts: await readAnswer(),
    ask: (/** @type {unknown} */ job) => {
      child.stdin.write(`${JSON.stringify(job)}\n`);
      return readAnswer();
    },
    stop: () => child.stdin.end(),
  };
}
