import { execFileSync } from "node:child_process";
import { join } from "node:path";
import { afterEach, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { type AttackReport, attack } from "../../src/actions/attack/attack.js";
import { verify } from "../../src/actions/verify/verify.js";
import { readJournal } from "../../src/attacks/journal.js";
import { canPrepare } from "../../src/nn/index.js";
import { type TinyVictim, tinyVictim } from "../attacks/tiny-victim.js";
import { buildIfStale, main } from "../cli/built.js";
import { temporaryFolder } from "../temporary.js";

// The processor may have no bf16 instructions. Its results are the same without them, only slower.
vi.mock(import("../../src/tensor/cpu-support.js"), async (original) => {
  const actual = await original();
  return { ...actual, getCpuSupport: () => ({ ...actual.getCpuSupport(), bf16: true }) };
});

const folder = temporaryFolder();
let victim: TinyVictim;
beforeAll(async () => {
  victim = await tinyVictim(folder);
}, 120_000);
beforeEach(() => vi.stubEnv("TEMPER_CACHE", join(folder, "cache")));
afterEach(() => vi.unstubAllEnvs());

const request = () => ({ substitutions: victim.substitutions, data: victim.data, numExamples: 60, threads: 1 });

async function readOutcomes(name: string) {
  const outcomes: string[] = [];
  let settings: Record<string, unknown> = {};
  for await (const { header, result } of readJournal(join(folder, name, "pwws.jsonl"))) {
    settings = header.settings;
    outcomes.push(result.outcome);
  }
  return { outcomes, settings };
}

describe.runIf(canPrepare("int8"))("the search of an attack", () => {
  const run = (precision: "fp32" | "bf16" | "int8" | "auto" | undefined, name: string): Promise<AttackReport> =>
    attack({ ...request(), model: victim.run, attacks: ["pwws"], device: "cpu", precision, out: join(folder, name) });

  test.each(["bf16", "int8"] as const)("in %s finds what float32 finds, and float32 confirms it", async (precision) => {
    const exact = await run("fp32", `${precision}-fp32`);
    const low = await run(precision, precision);
    expect(low.request.precision).toBe(precision);
    expect(low.clean).toBe(exact.clean);
    expect(exact.attacks.pwws!.accuracyUnderAttack).toBeLessThan(exact.clean);
    const [ours, wanted] = [await readOutcomes(precision), await readOutcomes(`${precision}-fp32`)];
    expect(ours.settings).toMatchObject({ precision: "fp32", searchPrecision: precision });
    expect(wanted.settings.precision).toBe("fp32");
    expect(wanted.settings).not.toHaveProperty("searchPrecision");
    const different = ours.outcomes.filter((outcome, i) => outcome !== wanted.outcomes[i]);
    expect(different.length).toBeLessThanOrEqual(1);
    const journals = [join(folder, precision, "pwws.jsonl")];
    const [verified] = await verify({ journals, model: victim.run, threads: 1 });
    expect(verified?.lines).toBe(60);
  });

  test("is in bf16 by default, and the same with cached scores", async () => {
    const [first, second] = [await run(undefined, "auto"), await run("auto", "auto-again")];
    expect(first.request.precision).toBe("bf16");
    expect((await readOutcomes("auto-again")).outcomes).toEqual((await readOutcomes("auto")).outcomes);
    expect(second.attacks.pwws!.queries.evaluated).toBe(0);
  });
});

test("a CPU without fast instructions searches in float32", () => {
  buildIfStale();
  const env = { ...process.env, ATEN_CPU_CAPABILITY: "default", ONEDNN_MAX_CPU_ISA: "AVX2", OMP_NUM_THREADS: "1" };
  const { substitutions, data } = request();
  const args = ["attack", victim.run, "--substitutions", substitutions, "--data", data, "--num-examples", "20"];
  const more = ["--out", join(folder, "plain"), "--device", "cpu", "--json", "--quiet"];
  const report = JSON.parse(execFileSync(process.execPath, [main, ...args, ...more], { env, encoding: "utf8" }));
  expect((report as AttackReport).request.precision).toBe("fp32");
  const doctor = JSON.parse(execFileSync(process.execPath, [main, "doctor", "--json"], { env, encoding: "utf8" }));
  expect(doctor.engine.lowPrecision).toEqual({ bf16: false, int8: false });
}, 180_000);
