import { cpSync, existsSync, mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { parse, stringify } from "yaml";
import { attackRequestSchema } from "../src/actions/attack/attack-request.js";
import { runGate } from "../src/actions/gate/gate.js";
import { formatGateLock } from "../src/actions/gate/gate-lock.js";
import { executeRequest } from "../src/jobs/execute-request.js";
import type { WorkRequest } from "../src/jobs/work-request.js";
import { startStudio } from "../src/studio/studio.js";
import { planSweep, runSweep } from "../src/sweeps/run-sweep.js";
import { checkSlurmOptions, rejectModules } from "../src/trust.js";
import { type TinyVictim, tinyVictim } from "./attacks/tiny-victim.js";
import { invoke } from "./cli/invoke.js";
import { temporaryFolder } from "./temporary.js";
import { tinyRun } from "./tiny-run.js";

const folder = temporaryFolder();
const evil = join(folder, "evil.mjs");
let victim: TinyVictim;

beforeAll(async () => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  victim = await tinyVictim(join(folder, "victim"));
  writeFileSync(evil, `import { writeFileSync } from "node:fs"; writeFileSync(${JSON.stringify(`${evil}.ran`)}, "");`);
});
afterAll(() => vi.unstubAllEnvs());

/** A copy of a run whose config names a module. */
function writeEvilRun(name: string, methods: unknown): string {
  const run = join(folder, name);
  cpSync(victim.run, run, { recursive: true });
  const config = join(run, "config.yaml");
  writeFileSync(config, stringify({ ...parse(readFileSync(config, "utf8")), methods }));
  return run;
}

function writeSweep(name: string, content: object): string {
  const path = join(folder, name);
  writeFileSync(path, stringify(content));
  return path;
}

/** Every reader of a data file, with a module path in it. */
const readers: Record<string, () => Promise<unknown>> = {
  "analyze consistency": async () => {
    const run = writeEvilRun("analyzed", [{ [evil]: {} }]);
    const { code, stderr } = await invoke(["analyze", "consistency", run, "--out", join(folder, "analysis")]);
    expect(code).toBe(2);
    throw new Error(stderr);
  },
  "train --resume": async () => {
    const run = writeEvilRun("resumed", [{ [evil]: {} }]);
    const { code, stderr } = await invoke(["train", "--resume", "--out", run]);
    expect(code).toBe(2);
    throw new Error(stderr);
  },
  "train --config": async () => {
    const path = writeSweep("config.yaml", { ...(await tinyRun(folder)), methods: evil });
    const { code, stderr } = await invoke(["train", "--config", path, "--out", join(folder, "trained")]);
    expect(code).toBe(2);
    throw new Error(stderr);
  },
  sweep: async () => {
    const file = writeSweep("code.yaml", { ...(await tinyRun(folder)), methods: evil });
    return runSweep({ file, out: join(folder, "sweep"), estimate: false });
  },
  "sweep: analyses": async () => {
    const evaluation = { analyses: [{ kind: "tradeoff", options: { attack: `${evil}:samples=5` } }] };
    return runSweep({ file: writeSweep("analyses.yaml", { ...(await tinyRun(folder)), evaluation }), estimate: false });
  },
  "worker: train": async () =>
    executeRequest(
      {
        kind: "train",
        config: { ...(await tinyRun(folder)), methods: [{ name: evil, options: {} }] },
        out: join(folder, "w1"),
      },
      "data",
    ),
  "worker: train a run folder": () =>
    executeRequest({ kind: "train", config: null, out: writeEvilRun("w2", [{ [evil]: {} }]) }, "data"),
  "worker: attack": () => {
    const request = attackRequestSchema.parse({ model: victim.run, attacks: [evil] });
    return executeRequest({ kind: "attack", ...request, out: join(folder, "w3") }, "data");
  },
  "worker: analyze": () => {
    const request = { kind: "analyze", analysis: "teacher", attack: `${evil}:a=1`, runs: [victim.run], out: folder };
    return executeRequest(request as unknown as WorkRequest, "data");
  },
  "gate.lock": async () => {
    const lock = join(folder, "pin.lock");
    const data = { data: victim.data, textColumn: ["text"], labelColumn: "label", numExamples: 4, threads: 1 };
    await runGate({ ...data, model: victim.run, baseline: victim.run, lock, out: join(folder, "gate") });
    const { seal: _, ...content } = JSON.parse(readFileSync(lock, "utf8"));
    const attack = { ...content.attack, attacks: [{ name: evil, options: {} }] };
    writeFileSync(lock, formatGateLock({ ...content, attack }));
    return runGate({ model: victim.run, baseline: lock, out: join(folder, "gate2") });
  },
};

test.each(Object.keys(readers))("%s: a module that a data file names does not run", async (name) => {
  await expect(readers[name]!()).rejects.toThrow(/is code|not run/);
  expect(existsSync(`${evil}.ran`)).toBe(false);
});

test("a dry run of a sweep imports nothing, also if methods is one string", async () => {
  const file = writeSweep("dry.yaml", { ...(await tinyRun(folder)), methods: evil });
  await planSweep({ file, out: join(folder, "dry"), allowCode: true });
  expect(existsSync(`${evil}.ran`)).toBe(false);
});

test("a sweep file chooses no output files and no options of sbatch that run code or write", async () => {
  const victimFile = join(folder, "victim.json");
  writeFileSync(victimFile, "mine");
  for (const key of ["logToCsv", "logSummaryToJson", "saveDataset"]) {
    const evaluation = { attacks: ["greedy"], options: { outputs: { [key]: victimFile } } };
    const file = writeSweep("outputs.yaml", { ...(await tinyRun(folder)), evaluation });
    await expect(runSweep({ file, out: join(folder, "outputs"), estimate: false })).rejects.toThrow(key);
    const columns = { ...evaluation, options: {}, columns: { reviews: { outputs: { [key]: victimFile } } } };
    const other = writeSweep("columns.yaml", { ...(await tinyRun(folder)), evaluation: columns });
    await expect(runSweep({ file: other, out: join(folder, "outputs"), estimate: false })).rejects.toThrow();
  }
  expect(readFileSync(victimFile, "utf8")).toBe("mine");
  for (const option of [
    "--export=ALL,NODE_OPTIONS=--import=/x.mjs",
    "--output=/x",
    "--wrap=ls",
    "--chdir=/",
    "--mem=1 --wrap=x",
  ])
    expect(() => checkSlurmOptions(["--account=nlp", option], "data", "sweep.yaml")).toThrow(option);
  checkSlurmOptions(["--account=nlp", "--qos=high", "--constraint=a100|h100", "--exclusive"], "data", "sweep.yaml");
  checkSlurmOptions(["--export=ALL"], "user", "sweep.yaml");
});

test("module paths are found in every key and form", () => {
  for (const data of ["./x.js", "a.mts:b=1", { a: [{ b: "x.cjs" }] }])
    expect(() => rejectModules(data, "data", "request")).toThrow("is code");
  rejectModules({ attack: "pwws", data: "reviews.tsv", model: "npm:x" }, "data", "request");
  rejectModules("./x.js", "user", "request");
});

test("the studio continues no job that runs code or writes elsewhere, and shows what a job does", async () => {
  const runs = join(folder, "studio");
  cpSync(victim.run, join(runs, "base"), { recursive: true });
  await using studio = await startStudio({ folders: [runs] });
  const url = new URL(studio.url);
  const ask = async (path: string, body: unknown) => {
    const headers = { authorization: `Bearer ${url.searchParams.get("token")}`, "content-type": "application/json" };
    const answer = await fetch(`${url.origin}${path}`, { method: "POST", headers, body: JSON.stringify(body) });
    return {
      status: answer.status,
      ...((await answer.json()) as { error?: string; problems?: Record<string, string> }),
    };
  };
  const attack = { kind: "attack", model: join(runs, "base"), attacks: ["pwws"], out: join(runs, "o") };
  const jobs: Record<string, object> = {
    "20260101000000-aaaaaa": { ...attack, attacks: [evil] },
    "20260101000000-aaaaab": { ...attack, outputs: { saveDataset: join(folder, "elsewhere.jsonl") } },
    "20260101000000-aaaaac": { ...attack, out: join(folder, "elsewhere") },
    "20260101000000-aaaaad": { kind: "train", config: null, out: writeEvilRun("studio/evil", [{ [evil]: {} }]) },
  };
  for (const [id, request] of Object.entries(jobs)) {
    const job = join(runs, ".studio", "jobs", id);
    mkdirSync(job, { recursive: true });
    writeFileSync(
      join(job, "job.json"),
      JSON.stringify({ title: "harmless", command: "temper runs", started: "2026" }),
    );
    writeFileSync(join(job, "request.json"), JSON.stringify(request));
    const { status, error } = await ask("/api/jobs/change", { id, action: "resume" });
    expect([status, error]).toEqual([400, expect.stringContaining("This job cannot be continued here")]);
  }
  expect(existsSync(`${evil}.ran`)).toBe(false);
  const { JobStore } = await import("../src/studio/jobs.js");
  const rows = await new JobStore(join(runs, ".studio", "jobs"), [runs]).list(async () => null);
  expect(rows.find(({ id }) => id.endsWith("aaaaaa"))?.command).toContain("evil.mjs");
  expect(rows.every(({ title }) => title !== "harmless")).toBe(true);
  const values = { model: join(runs, "base"), attacks: "pwws", "resources.substitutions": "wordnet" };
  for (const key of ["outputs.saveDataset", "outputs.logToCsv", "outputs.logSummaryToJson"]) {
    const { problems } = await ask("/api/form/check", {
      kind: "attack",
      values: { ...values, [key]: join(folder, "x") },
    });
    expect(problems![key]).toContain("Expected a path below");
  }
  for (const key of ["resume", "endpoint.url", "constructor"]) {
    const { problems } = await ask("/api/form/check", { kind: "attack", values: { ...values, [key]: "x" } });
    expect(problems![key]).toBe("This form has no such field.");
  }
});
