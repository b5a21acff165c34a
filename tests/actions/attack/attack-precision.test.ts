import { spawnSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, test, vi } from "vitest";
import { type AttackReport, attack } from "../../../src/actions/attack/attack.js";
import type { Diagnosis } from "../../../src/actions/doctor.js";
import { verify } from "../../../src/actions/verify/verify.js";
import { readJournal } from "../../../src/attacks/journal.js";
import { canPrepare } from "../../../src/nn/index.js";
import { chooseFastestPrecision, getPrecisionVerdict } from "../../../src/tensor/index.js";
import { getBuildFolder } from "../../../src/tensor/native.js";
import { type TinyVictim, tinyVictim } from "../../attacks/tiny-victim.js";
import { main } from "../../cli/built.js";
import { temporaryFolder } from "../../temporary.js";

const folder = temporaryFolder();
let victim: TinyVictim;
beforeAll(async () => {
  victim = await tinyVictim(folder);
});
beforeAll(() => vi.stubEnv("TEMPER_CACHE", join(folder, "cache")));

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

const getPrecision = ({ request: { precision } }: AttackReport): unknown => precision;

describe.runIf(canPrepare("int8"))("the search of an attack", () => {
  const run = (precision: "fp32" | "bf16" | "int8" | "auto" | undefined, name: string): Promise<AttackReport> =>
    attack({ ...request(), model: victim.run, attacks: ["pwws"], device: "cpu", precision, out: join(folder, name) });

  test.each(["bf16", "int8"] as const)("in %s finds what float32 finds, and float32 confirms it", async (precision) => {
    const exact = await run("fp32", `${precision}-fp32`);
    const low = await run(precision, precision);
    expect(getPrecision(low)).toBe(precision);
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

  test("is by default in the fastest precision that works, and the same with cached scores", async () => {
    const [first, second] = [await run(undefined, "auto"), await run("auto", "auto-again")];
    expect(getPrecision(first)).toBe(chooseFastestPrecision(getPrecisionVerdict, "search"));
    expect(getPrecision(second)).toBe(getPrecision(first));
    expect((await readOutcomes("auto-again")).outcomes).toEqual((await readOutcomes("auto")).outcomes);
    expect(second.attacks.pwws!.queries.evaluated).toBe(0);
  });
});

test("a precision whose self-test crashes is off, and nothing remembers a simulated crash", () => {
  const env = { ...process.env, TEMPER_SIMULATE_CRASH: "bf16", OMP_NUM_THREADS: "1" };
  const start = (...args: string[]) => spawnSync(process.execPath, [main, ...args], { env, encoding: "utf8" });
  const readVerdicts = () =>
    readFileSync(join(getBuildFolder(), "precision.jsonl"), "utf8")
      .split("\n")
      .filter((line) => /^\["\[\d+,\\"bf16\\"/.test(line));
  expect(getPrecisionVerdict("bf16").failure).toBeNull();
  const before = readVerdicts();
  expect(before).not.toEqual([]);
  const [model, out] = [join(victim.run, "model"), join(folder, "rejected")];
  const { status, stderr } = start(
    ...["train", "--model", model, "--data", victim.data, "--out", out],
    ...["--precision", "bf16", "--device", "cpu"],
  );
  expect(stderr).toMatch(/bf16 does not work on this CPU.*libtorch crashed with SIGILL.*--precision fp32/s);
  expect(status).toBe(2);
  expect(existsSync(out)).toBe(false);
  const doctor = JSON.parse(start("doctor", "--json").stdout) as Diagnosis;
  expect(doctor.usable).toBe(true);
  expect(doctor.engine!.lowPrecision.bf16.failure).toBe("libtorch crashed with SIGILL");
  expect(doctor.engine!.auto.training).toBe("fp32");
  expect(["int8", "fp32"]).toContain(doctor.engine!.auto.search);
  expect(doctor.problems).toContainEqual(expect.objectContaining({ problem: expect.stringContaining("bf16 is off") }));
  expect(readVerdicts()).toEqual(before);
});
