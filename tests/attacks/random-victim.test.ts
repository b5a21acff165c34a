import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, describe, expect, it, vi } from "vitest";
import { attack } from "../../src/actions/attack/attack.js";
import { loadVictim } from "../../src/actions/load/load-victim.js";
import { verify } from "../../src/actions/verify/verify.js";
import { confirmSuccess } from "../../src/attacks/confirm-success.js";
import { attackResultSchema } from "../../src/attacks/journal.js";
import type { AttackResult } from "../../src/attacks/result.js";
import type { RandomAnswers, Victim } from "../../src/attacks/victim.js";
import { invoke } from "../cli/invoke.js";
import { expectClose } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { type TinyVictim, tinyVictim } from "./tiny-victim.js";

const folder = temporaryFolder();
let tiny: TinyVictim;
beforeAll(async () => {
  vi.stubEnv("TEMPER_CACHE", join(folder, "cache"));
  tiny = await tinyVictim(join(folder, "victim"));
  // The tiny model has no dropout of its own.
  const path = join(tiny.run, "model", "config.json");
  const config = JSON.parse(readFileSync(path, "utf8")) as object;
  writeFileSync(path, JSON.stringify({ ...config, hidden_dropout_prob: 0.3, attention_probs_dropout_prob: 0.3 }));
});
const data = () => ({
  data: { path: tiny.data, textColumn: ["text"], labelColumn: "label" },
  substitutions: tiny.substitutions,
});
const cpu = { device: "cpu", threads: 1 } as const;
const score = async (victim: Victim, text: string): Promise<number> =>
  (await victim.predict(victim.prepare([[text]])))[0]!.probabilities[0]!;

describe.each(["dropout", "deletion"] as const)("a model with %s at test time", (noise) => {
  it("answers with the mean of draws that texts share", async () => {
    const load = (draws: number) => loadVictim(tiny.run, { ...cpu, noise, draws });
    const [few, many, plain] = [await load(2), await load(400), await loadVictim(tiny.run, cpu)];
    try {
      const text = "the film was good";
      expect(await score(few.victim, text)).toBe(await score(few.victim, text));
      expect(few.victim.hash).not.toBe(many.victim.hash);
      expect(await score(many.victim, text)).not.toBe(await score(plain.victim, text));
      // The mean of 400 draws is the mean of fresh ones, up to 5 standard errors.
      const fresh = await many.victim.predictFresh!([text], 400);
      const halves = [await many.victim.predictFresh!([`${text} `], 400), fresh].map(
        (predictions) => predictions.filter((each) => each === 0).length / 400,
      );
      expect(Math.abs(halves[0]! - halves[1]!)).toBeLessThan(5 * Math.sqrt((2 * 0.25) / 400));
      expect([...(await many.victim.predictFresh!([text], 400))]).toEqual([...fresh]);
    } finally {
      for (const each of [few, many, plain]) each.close();
    }
  });

  it("is attacked, counts only confirmed successes, and verifies", async () => {
    const out = join(folder, `attacks-${noise}`);
    const report = await attack({
      model: tiny.run,
      ...data(),
      ...cpu,
      noise,
      draws: 4,
      numExamples: 24,
      out,
    });
    const lines = readFileSync(join(out, "pwws.jsonl"), "utf8").trim().split("\n").slice(1);
    const results = lines.map((line) => JSON.parse(line) as AttackResult);
    const found = results.filter(({ fresh }) => fresh);
    expect(found.length).toBeGreaterThan(0);
    for (const { fresh, outcome } of found)
      expect([fresh!.evaluations, outcome]).toEqual([20, fresh!.fooled >= 10 ? "success" : "failed"]);
    for (const { fresh, outcome } of results) if (!fresh) expect(outcome).not.toBe("success");
    const confirmed = found.filter(({ outcome }) => outcome === "success");
    const { fresh } = report.attacks.pwws!;
    expect(fresh).toMatchObject({
      found: found.length,
      confirmed: confirmed.length,
      evaluations: 20 * confirmed.length,
    });
    expect(fresh!.interval.low).toBeLessThan(fresh!.fooled);
    expect(await verify({ journals: [join(out, "pwws.jsonl")], model: tiny.run, ...cpu })).toMatchObject([
      { lines: 24 },
    ]);
  });
});

describe("a victim with its own randomness", () => {
  it("is asked several times per text, and each success 20 times more", async () => {
    let [calls, texts] = [0, 0];
    // Right for two of three answers, whatever the text says, unless it contains "grey".
    const predict = (batch: readonly (string | readonly string[])[]) =>
      batch.map((text) => {
        texts++;
        const isWrong = String(text).includes("grey") ? calls++ % 3 !== 0 : calls++ % 3 === 0;
        const isPositive = /good|bright|warm|fine/.test(String(text)) !== isWrong;
        return isPositive ? [0.1, 0.9] : [0.9, 0.1];
      });
    const loaded = await loadVictim(predict, { noise: "own", draws: 3 });
    texts = 0;
    expectClose(await score(loaded.victim, "the good film"), (0.1 + 0.1 + 0.9) / 3);
    expect(texts).toBe(3);
    const fooled = (await loaded.victim.predictFresh!(["the good film"], 21)).filter((each) => each === 0);
    expect(fooled).toHaveLength(7);
  });
});

describe("the confirmation of a success", () => {
  const result = { id: "a", label: 1, outcome: "success", finalTexts: ["x"] } as unknown as AttackResult;
  const random = (predictions: number[]) =>
    ({ predictFresh: async () => Int32Array.from(predictions) }) satisfies RandomAnswers;
  const split = (wrong: number) => random(Array.from({ length: 20 }, (_, i) => Number(i >= wrong)));

  it.each([
    [9, "failed"],
    [10, "success"],
    [20, "success"],
  ])("with %i of 20 fooled evaluations is a %s", async (fooled, outcome) => {
    expect(await confirmSuccess(split(fooled), result)).toMatchObject({ outcome, fresh: { evaluations: 20, fooled } });
  });

  it("counts only the class of a targeted attack, and leaves other results alone", async () => {
    const targeted = { ...result, goal: "targeted-2" };
    expect(await confirmSuccess(random(new Array<number>(20).fill(0)), targeted)).toMatchObject({ outcome: "failed" });
    expect(await confirmSuccess(random(new Array<number>(20).fill(2)), targeted)).toMatchObject({ outcome: "success" });
    const failed = { ...result, outcome: "failed" } as const;
    expect(await confirmSuccess(split(20), failed)).toBe(failed);
    expect(await confirmSuccess({}, result)).toBe(result);
  });

  it("is checked in journals", async () => {
    const line = readFileSync(join(folder, "attacks-dropout", "pwws.jsonl"), "utf8")
      .trim()
      .split("\n");
    const found = line.map((each) => JSON.parse(each) as AttackResult).find(({ fresh }) => fresh)!;
    expect(attackResultSchema.safeParse(found).success).toBe(true);
    const forged = { ...found, fresh: { evaluations: 20, fooled: found.outcome === "success" ? 3 : 12 } };
    expect(attackResultSchema.safeParse(forged).error?.issues[0]?.message).toMatch(/at least half/);
  });
});

it.each([
  [["--noise", "own"], /--noise own is for an endpoint or a function/],
  [["--noise", "gaussian"], /dropout.*deletion.*own/],
  [["--noise", "deletion", "--deletion-rate", "1"], /deletion-?[rR]ate/],
])("rejects %j", async (flags, message) => {
  const columns = ["--text-column", "text", "--label-column", "label"];
  const { code, stderr } = await invoke(["attack", tiny.run, "--data", tiny.data, ...columns, ...flags, "--quiet"]);
  expect(code).toBe(2);
  expect(stderr).toMatch(message);
});
