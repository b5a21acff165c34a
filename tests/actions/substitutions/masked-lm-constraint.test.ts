import { existsSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { buildLmConstraint } from "../../../src/actions/substitutions/build-lm-constraint.js";
import { createSubstituteScorer } from "../../../src/actions/substitutions/masked-lm-scores.js";
import { listen } from "../../../src/base/events.js";
import { loadMaskedLm, scoreTokens } from "../../../src/models/index.js";
import { free } from "../../../src/tensor/index.js";
import { loadLmConstraint } from "../../../src/text/lm-constraint.js";
import { loadSubstitutions } from "../../../src/text/load-substitutions.js";
import { Interrupted } from "../../../src/train/index.js";
import { writeFamilyMaskedLm } from "../../models/family-models.js";
import { expectComputed } from "../../rounding.js";
import { temporaryFolder } from "../../temporary.js";

const folder = temporaryFolder();
const [data, substitutions] = [join(folder, "texts.txt"), join(folder, "table.json")];
const texts = ["The film was joy", "a dull cat sat there and it was slowly bad", "not at all"];
let maskedLm: string;

beforeAll(async () => {
  maskedLm = await writeFamilyMaskedLm(join(folder, "bert"), "bert");
  writeFileSync(data, `${texts.join("\n")}\n`);
  writeFileSync(substitutions, JSON.stringify({ film: ["cat", "films"], dull: ["slow", "bad"], slowly: ["slow"] }));
});

test("scores are the log-probabilities of the tokens behind masks; those of several tokens are added", async () => {
  const model = await loadMaskedLm(maskedLm);
  const score = createSubstituteScorer(model, await loadSubstitutions(substitutions), 24);
  const { text, scores } = score(texts[0]!);
  expect(text).toBe("the film was joy");
  const [[position, words]] = scores as [(typeof scores)[0]];
  expect([position, words.map(([word]) => word)]).toEqual([1, ["film", "cat", "films"]]);
  const encode = (masked: string) => model.tokenizer.encode([masked], 24);
  const id = (token: string): number => model.tokenizer.encode([token], 24).ids[1]!;
  const plural = model.tokenizer.encode(["films"], 24).ids[2]!;
  const [one, first, second] = scoreTokens(model, [
    { encoding: encode("the [MASK] was joy"), position: 2, candidateIds: [id("film"), id("cat")] },
    { encoding: encode("the [MASK] [MASK] was joy"), position: 2, candidateIds: [id("film")] },
    { encoding: encode("the [MASK] [MASK] was joy"), position: 3, candidateIds: [plural] },
  ]) as [Float32Array, Float32Array, Float32Array];
  expectComputed(
    () => score(texts[0]!).scores[0]![1].map(([, value]) => value),
    [one[0]!, one[1]!, first[0]! + second[0]!],
  );
  // A long text is cut around the word.
  const long = `${"a ".repeat(60)}film${" a".repeat(60)}`;
  expect(score(long).scores[0]![0]).toBe(60);
  free(model.weights);
});

test("a stopped build continues with the same result, which the attack reads", async () => {
  const request = { maskedLm, data, substitutions, minDifference: -1, device: "cpu", threads: 1 };
  const whole = join(folder, "whole.json");
  const built = await buildLmConstraint({ ...request, out: whole });
  expect([built.texts, built.scored]).toEqual([3, 5]);
  const stop = new AbortController();
  const out = join(folder, "stopped.json");
  const progress: number[] = [];
  const onProgress = ({ done }: { done: number }): void => {
    progress.push(done);
    if (progress.length === 2) stop.abort();
  };
  const stopped = buildLmConstraint({ ...request, out }, { signal: stop.signal, ...listen({ progress: onProgress }) });
  await expect(stopped).rejects.toThrow(Interrupted);
  expect([existsSync(out), existsSync(`${out}.part`)]).toEqual([false, true]);
  await buildLmConstraint({ ...request, out });
  expect(readFileSync(out, "utf8")).toBe(readFileSync(whole, "utf8"));
  expect(existsSync(`${out}.part`)).toBe(false);
  const constraint = await loadLmConstraint(out);
  expect(constraint.covers(texts[0]!)).toBe(true);
  const all = await buildLmConstraint({ ...request, minDifference: -1000, out: join(folder, "all.json") });
  expect(all.allowed).toBe(all.scored);
  const none = await buildLmConstraint({ ...request, minDifference: 1000, out: join(folder, "none.json") });
  expect(none.allowed).toBe(0);
});

test("says what is missing", async () => {
  const out = join(folder, "bad.json");
  await expect(buildLmConstraint({ out })).rejects.toThrow("expected either --scores FILE or --masked-lm MODEL");
  await expect(buildLmConstraint({ out, maskedLm })).rejects.toThrow("expected the texts (--data FILE) and a table");
});
