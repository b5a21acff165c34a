import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { UserError } from "../../src/base/errors.js";
import { listen } from "../../src/base/events.js";
import { executeRequest, executeToResult } from "../../src/jobs/execute-request.js";
import { hashRequest, type WorkRequest, workRequestSchema } from "../../src/jobs/work-request.js";
import { readResults } from "../../src/runs/run-folder.js";
import { type RunConfig, runConfigSchema } from "../../src/settings/config.js";
import { listOutdatedAttacks } from "../../src/sweeps/run-work.js";
import { temporaryFolder } from "../temporary.js";
import { tinyRun } from "../tiny-run.js";

const config: RunConfig = runConfigSchema.parse({ model: "m", task: "sst2" });
type AttackWork = Extract<WorkRequest, { kind: "attack" }>;

const attack = (changes: object = {}): AttackWork =>
  workRequestSchema.parse({
    ...{ kind: "attack", model: "runs/a", out: "runs/a/attacks", numExamples: 100 },
    attacks: ["pwws", "genetic:population=8"],
    ...changes,
  }) as AttackWork;

describe("the hash of a request", () => {
  it("does not depend on where the request runs", () => {
    const hash = hashRequest(attack());
    expect(hash).toMatch(/^[0-9a-f]{64}$/);
    for (const same of [
      { device: "cpu", threads: 3 },
      { model: "/elsewhere/runs/a", out: "/elsewhere/runs/a/attacks" },
      { resume: true, concurrency: 7, cache: false },
      { attacks: [{ name: "pwws" }, { options: { population: 8 }, name: "genetic" }], seed: 0 },
    ])
      expect(hashRequest(attack(same)), JSON.stringify(same)).toBe(hash);
  });

  it("depends on everything that decides the result", () => {
    const hash = hashRequest(attack());
    for (const other of [
      { numExamples: 10 },
      { seed: 1 },
      { model: "runs/b" },
      { precision: "bf16" },
      { protectStopWords: true },
      { saveDataset: "fooled.jsonl" },
      { attacks: ["pwws", "genetic:population=9"] },
      { attacks: ["pwws"] },
    ])
      expect(hashRequest(attack(other)), JSON.stringify(other)).not.toBe(hash);
  });

  it("of a training depends on the settings that decide the run", () => {
    const train = (changes: Partial<RunConfig>): string =>
      hashRequest({ kind: "train", config: { ...config, ...changes }, out: "runs/a" });
    const { train: settings } = config;
    const hash = train({});
    expect(train({ device: "cuda", threads: 2, cudaGraphs: false, train: { ...settings, saveSteps: 7 } })).toBe(hash);
    expect(train({ seed: 1 })).not.toBe(hash);
    expect(train({ train: { ...settings, learningRate: 1 } })).not.toBe(hash);
  });

  it("of an analysis depends on its runs and options", () => {
    const analyze = (changes: object): string =>
      hashRequest(
        workRequestSchema.parse({
          ...{ kind: "analyze", analysis: "distance", runs: ["runs/a", "runs/b"], out: "runs/a/analysis", by: "beta" },
          ...changes,
        }),
      );
    const hash = analyze({});
    expect(analyze({ runs: ["/other/a", "/other/b"], out: "/other/a/analysis", device: "cpu" })).toBe(hash);
    expect(analyze({ runs: ["runs/a"] })).not.toBe(hash);
    expect(analyze({ by: "alpha" })).not.toBe(hash);
    expect(analyze({ dependsOn: [hashRequest(attack())] })).not.toBe(hash);
  });
});

describe("a request", () => {
  const folder = temporaryFolder();

  it("is executed by the function of the library, and again only reads a finished run", async () => {
    const out = join(folder, "run");
    const request: WorkRequest = { kind: "train", config: await tinyRun(folder), out };
    const events: string[] = [];
    const watch = listen({ start: () => events.push("start") });
    await executeRequest(request, "data", watch);
    const results = await readResults(out);
    expect(results!.test.accuracy).toBeGreaterThan(0);
    await executeRequest({ ...request, config: null }, "data", watch);
    expect(await readResults(out)).toEqual(results);
    expect(events).toEqual(["start"]);
  });

  it("that fails says whose mistake it is", async () => {
    const request: WorkRequest = {
      kind: "train",
      config: await tinyRun(folder, { labelColumn: "nothing" }),
      out: join(folder, "wrong"),
    };
    const { result, cause } = await executeToResult(request, "data");
    expect(cause).toBeInstanceOf(UserError);
    expect(result).toEqual({
      format: 1,
      hash: hashRequest(request),
      status: "failed",
      error: { message: expect.stringMatching(/nothing/), isUserError: true },
    });
  });

  it("that is interrupted can be continued", async () => {
    const stop = new AbortController();
    const out = join(folder, "stopped");
    const request: WorkRequest = { kind: "train", config: await tinyRun(folder), out };
    const { result } = await executeToResult(request, "data", {
      signal: stop.signal,
      ...listen({ start: () => stop.abort() }),
    });
    expect(result).toMatchObject({ status: "interrupted", error: { isUserError: false } });
    expect(await readResults(out)).toBeNull();
    expect((await executeToResult(request, "data")).result.status).toBe("done");
  });
});

describe("journals of an earlier attack request", () => {
  it("are continued if their attack, its options and the examples are the same", () => {
    expect(listOutdatedAttacks(attack(), attack())).toEqual([]);
    expect(listOutdatedAttacks(attack({ attacks: ["pwws"] }), attack())).toEqual([]);
    expect(listOutdatedAttacks(attack(), attack({ attacks: ["pwws"] }))).toEqual([]);
    expect(listOutdatedAttacks(attack({ saveDataset: "fooled.jsonl" }), attack())).toEqual([]);
    // More examples extend the journals of the same attacks.
    expect(listOutdatedAttacks(attack({ numExamples: 10 }), attack({ numExamples: 20 }))).toEqual([]);
    const fewer = attack({ attacks: ["pwws"], numExamples: 20 });
    expect(listOutdatedAttacks(attack({ numExamples: 10 }), fewer)).toEqual(["genetic"]);
  });

  it("are removed otherwise", () => {
    expect(listOutdatedAttacks(attack(), attack({ attacks: ["pwws", "genetic:population=9"] }))).toEqual(["genetic"]);
    expect(listOutdatedAttacks(attack(), attack({ numExamples: 10 }))).toEqual(["pwws", "genetic"]);
    expect(listOutdatedAttacks(attack({ attacks: ["./custom/mine.js"] }), attack({ seed: 1 }))).toEqual(["mine"]);
  });
});
