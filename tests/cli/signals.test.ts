import { spawn } from "node:child_process";
import { existsSync, readdirSync, readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { beforeAll, expect, test } from "vitest";
import { Rng } from "../../src/base/rng.js";
import { isLong } from "../long.js";
import { temporaryFolder } from "../temporary.js";
import { main } from "./built.js";

interface Workload {
  readonly name: string;
  readonly needs?: string;
  getCommand(out: string, program: string[]): string[];
  listResults(out: string): string[];
}

interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
  readonly stderr: string;
}

const importTool = (path: string): Promise<unknown> => import(pathToFileURL(path).href);
const { createWorkloads, writeInputs } = (await importTool("tools/chaos/workloads.mjs")) as {
  createWorkloads(folder: string): Workload[];
  writeInputs(folder: string): Promise<void>;
};
const { findBrokenFiles, findBadEnd } = (await importTool("tools/chaos/find-damage.mjs")) as {
  findBrokenFiles(out: string): Promise<string[]>;
  findBadEnd(ended: Ended): string | null;
};

const folder = temporaryFolder();
const temper = [process.execPath, resolve(main)];
// Ranks and jobs of the studio are groups of processes: make chaos signals them.
const workloads = createWorkloads(folder).filter(({ name }) => name !== "studio" && name !== "ranks");
// In `make test`, one command with a journal, and one that creates a folder.
const selected = workloads.filter(({ name }) => isLong || ["attack", "export"].includes(name));
/** A command that ignores the signal would run on. */
const hangMilliseconds = 240_000;

/** Starts a command, and signals it after a time. */
async function execute(
  [program = "", ...words]: readonly string[],
  stop?: { readonly signal: NodeJS.Signals; readonly after: number },
): Promise<Ended> {
  const child = spawn(program, words, {
    cwd: folder,
    stdio: ["ignore", "ignore", "pipe"],
    env: { ...process.env, TEMPER_CACHE: join(folder, "cache") },
  });
  let stderr = "";
  child.stderr.on("data", (chunk: Buffer) => {
    stderr += chunk;
  });
  const timer = stop && setTimeout(() => child.kill(stop.signal), stop.after);
  const hung = setTimeout(() => child.kill("SIGKILL"), hangMilliseconds);
  const ended = await new Promise<Ended>((done) =>
    child.once("close", (code, signal) => done({ code, signal, stderr })),
  );
  clearTimeout(timer);
  clearTimeout(hung);
  return ended;
}

const durations = new Map<string, number>();

/** Runs a workload undisturbed, and measures it. */
async function runReference(workload: Workload): Promise<string> {
  const out = join(folder, `reference-${workload.name}`);
  if (durations.has(workload.name)) return out;
  const started = performance.now();
  expect(await execute(workload.getCommand(out, temper))).toMatchObject({ code: 0 });
  durations.set(workload.name, performance.now() - started);
  return out;
}

beforeAll(async () => {
  await writeInputs(folder);
  await runReference(workloads.find(({ name }) => name === "train")!);
});

// Another moment in every run of the suite. The title names it, so that a failure can be repeated.
const seed = process.env.TEMPER_SIGNAL_SEED ?? String(Date.now());

test.each(selected)(
  `a signal at a random moment ends $name, which can be repeated (seed ${seed})`,
  async (workload) => {
    const needed = workloads.find(({ name }) => name === workload.needs);
    if (needed) await runReference(needed);
    const reference = await runReference(workload);
    const rng = new Rng(seed).fork(workload.name);
    const signal = rng.next() < 0.5 ? "SIGTERM" : "SIGINT";
    const after = rng.next() * durations.get(workload.name)!;
    const out = join(folder, `stopped-${workload.name}`);
    const ended = await execute(workload.getCommand(out, temper), { signal, after });
    // Before Node.js has loaded the program, a signal ends the process without a word.
    const isEarly = ended.signal === signal && ended.stderr === "";
    if (!isEarly) {
      expect(ended).toMatchObject({ code: expect.toSatisfy((code) => code === 0 || code === 130), signal: null });
      expect(findBadEnd(ended)).toBe(null);
      if (ended.code === 130) expect(ended.stderr).toMatch(/Stopp/);
    }
    if (existsSync(out)) expect(await findBrokenFiles(out)).toEqual([]);
    expect(readdirSync(folder).filter((name) => name.endsWith(".tmp"))).toEqual([]);
    expect(await execute(workload.getCommand(out, temper))).toMatchObject({ code: 0 });
    for (const file of workload.listResults(reference))
      expect(readFileSync(join(out, file)).equals(readFileSync(join(reference, file))), file).toBe(true);
  },
);
