import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { build } from "rolldown";
import type { Rendezvous } from "../../src/tensor/index.js";
import type { StackResult, TrainingPart } from "./rank.js";

/** Bundles rank.ts, because Node does not run TypeScript. The addon is found two folders up. */
export async function bundleRank(): Promise<string> {
  const file = "build/distributed/rank.mjs";
  await build({
    input: "tests/distributed/rank.ts",
    platform: "node",
    external: /^(?![./])/,
    output: { file, codeSplitting: false },
    logLevel: "silent",
  });
  return file;
}

export async function findFreePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

export interface EndedProcess {
  readonly code: number | null;
  readonly stderr: string;
}

/** Starts one process and returns it with a promise of its end. */
function startRank(file: string, rendezvous: Rendezvous, names: readonly string[], out: string, part: object) {
  const child = spawn(
    process.execPath,
    [file, ...[rendezvous, names].map((word) => JSON.stringify(word)), out, JSON.stringify(part)],
    {
      stdio: ["ignore", "ignore", "pipe"],
      env: { ...process.env, OMP_NUM_THREADS: "1", TEMPER_CACHE: join(out, "..", "cache") },
    },
  );
  let stderr = "";
  child.stderr.on("data", (chunk) => {
    stderr += chunk;
  });
  const ended = new Promise<EndedProcess>((resolve) => child.once("close", (code) => resolve({ code, stderr })));
  return { child, ended };
}

/** Runs the stacks with so many processes and returns the results of each. */
export async function runRanks(
  file: string,
  size: number,
  names: readonly string[],
  out: string,
  part: Partial<TrainingPart> = {},
): Promise<Record<string, StackResult>[]> {
  const port = await findFreePort();
  const ended = await Promise.all(
    Array.from(
      { length: size },
      (_, rank) => startRank(file, { rank, size, host: "127.0.0.1", port, timeout: 60 }, names, out, part).ended,
    ),
  );
  const failed = ended.find(({ code }) => code !== 0);
  if (failed) throw new Error(failed.stderr);
  return ended.map((_, rank) => JSON.parse(readFileSync(`${out}.${rank}.json`, "utf8")) as Record<string, StackResult>);
}
