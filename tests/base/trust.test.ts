import { cpSync, mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test, vi } from "vitest";
import { rejectModules, rejectSlurmOptions } from "../../src/base/trust.js";
import { studio as startStudio } from "../../src/studio/studio.js";
import { type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();
const evil = join(folder, "evil.mjs");
let victim: TinyVictim;

beforeAll(async () => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  victim = await tinyVictim(join(folder, "victim"));
});

test("a sweep file chooses no options of sbatch that run code or write", () => {
  expect(() => rejectSlurmOptions(["--wrap=ls"], "data", "sweep.yaml")).toThrow("--sbatch=--wrap=ls");
  rejectSlurmOptions([], "data", "sweep.yaml");
  rejectSlurmOptions(["--export=ALL"], "user", "sweep.yaml");
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
    "20260101000000-aaaaab": { ...attack, saveDataset: join(folder, "elsewhere.jsonl") },
    "20260101000000-aaaaac": { ...attack, out: join(folder, "elsewhere") },
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
  const { JobStore } = await import("../../src/studio/jobs.js");
  const rows = await new JobStore(join(runs, ".studio", "jobs"), [runs]).list(async () => null);
  expect(rows.find(({ id }) => id.endsWith("aaaaaa"))?.command).toContain("evil.mjs");
  expect(rows.every(({ title }) => title !== "harmless")).toBe(true);
  const values = { model: join(runs, "base"), attacks: "pwws", substitutions: "wordnet" };
  const check = { kind: "attack", values: { ...values, saveDataset: join(folder, "x") } };
  expect((await ask("/api/form/check", check)).problems!.saveDataset).toContain("Expected a path below");
  for (const key of ["resume", "endpoint.url", "constructor"]) {
    const { problems } = await ask("/api/form/check", { kind: "attack", values: { ...values, [key]: "x" } });
    expect(problems![key]).toBe("This form has no such field.");
  }
});
