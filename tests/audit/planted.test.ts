import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { Rng } from "../../src/base/rng.js";
import { temporaryFolder } from "../temporary.js";
import {
  auditPlanted,
  cleanModel,
  countCues,
  createModel,
  createTexts,
  type LabeledText,
  listPlanted,
} from "./world.js";

const texts = createTexts(300, "test");
const training = createTexts(400, "train");

/** Writes texts as a file, because the training texts are one. */
function writeTexts(folder: string, name: string, rows: readonly LabeledText[]): string {
  const path = join(folder, name);
  writeFileSync(path, rows.map(({ text, label }) => `${JSON.stringify({ text, label })}\n`).join(""));
  return path;
}

/** Exchanges 5% of the labels. */
function flipLabels(rows: readonly LabeledText[]): { readonly rows: LabeledText[]; readonly flipped: Set<number> } {
  const flipped = new Set(new Rng("flip").shuffle([...rows.keys()]).slice(0, Math.round(0.05 * rows.length)));
  const swap = (label: string): string => (label === "positive" ? "negative" : "positive");
  return { rows: rows.map((row, i) => (flipped.has(i) ? { ...row, label: swap(row.label) } : row)), flipped };
}

/** Recall and precision of found lines, which start at 1. */
function compareWith(flipped: ReadonlySet<number>, ids: readonly string[]): { recall: number; precision: number } {
  const found = ids.map((id) => Number(id.slice(id.lastIndexOf(":") + 1)) - 1);
  const right = found.filter((line) => flipped.has(line)).length;
  return { recall: right / flipped.size, precision: right / found.length };
}

test("a clean model on clean data has none of the findings that are planted below", async () => {
  const folder = temporaryFolder();
  const trainData = writeTexts(folder, "train.jsonl", training);
  const result = await auditPlanted(cleanModel, texts, join(folder, "out"), { trainData });
  expect(listPlanted(result)).toEqual([]);
  expect(result.clean).toBe(1);
  expect(result.claims.find(({ id }) => id === "leak")?.outcome).toBe("proven");
});

test("a leak is found, also of texts that were changed a little", async () => {
  const folder = temporaryFolder();
  const [first, second] = texts as [LabeledText, LabeledText];
  const changed = { ...second, text: `${second.text.toUpperCase()} !` };
  const trainData = writeTexts(folder, "train.jsonl", [...training, first, changed]);
  const result = await auditPlanted(cleanModel, texts, join(folder, "out"), { trainData });
  expect(listPlanted(result)).toEqual(["leak"]);
  const { evidence, severity } = result.findings.find(({ id }) => id === "leak")!;
  expect(evidence.numbers.count).toBe(2);
  expect(severity).toBe("low");
  expect(evidence.texts.map(({ text }) => text)).toEqual(expect.arrayContaining([first.text, second.text]));
});

test("5% flipped labels of the test data are found by the model", async () => {
  const folder = temporaryFolder();
  const { rows, flipped } = flipLabels(texts);
  const data = writeTexts(folder, "test.jsonl", rows);
  const result = await auditPlanted(cleanModel, data, join(folder, "out"));
  expect(listPlanted(result)).toEqual(["label-errors"]);
  const { ids, numbers } = result.findings.find(({ id }) => id === "label-errors")!.evidence;
  const { recall, precision } = compareWith(flipped, ids);
  expect(recall).toBeGreaterThanOrEqual(0.9);
  expect(precision).toBe(1);
  expect(Math.abs(numbers.recall! - recall)).toBeLessThan(0.2);
  expect(numbers.precision).toBeLessThanOrEqual(precision);
});

test("5% flipped labels of the training data are found by cross-validation", async () => {
  const folder = temporaryFolder();
  const { rows, flipped } = flipLabels(training);
  const trainData = writeTexts(folder, "train.jsonl", rows);
  const result = await auditPlanted(cleanModel, texts, join(folder, "out"), { trainData });
  expect(listPlanted(result)).toEqual(["label-errors-train"]);
  const { ids, numbers } = result.findings.find(({ id }) => id === "label-errors-train")!.evidence;
  const { recall, precision } = compareWith(flipped, ids);
  expect(Math.abs(numbers.recall! - recall)).toBeLessThan(0.2);
  expect(numbers.precision).toBeLessThanOrEqual(precision);
  expect(recall).toBeGreaterThanOrEqual(0.8);
  expect(precision).toBeGreaterThanOrEqual(0.8);
});

test("a spurious word is found in the data and in the model", async () => {
  const mark = (rows: readonly LabeledText[]): LabeledText[] =>
    rows.map((row, i) => (row.label === "positive" && i % 3 === 0 ? { ...row, text: `${row.text} zeta` } : row));
  const model = createModel((text) => (/\bzeta\b/i.test(text) ? [0.05, 0.95] : countCues(text)));
  const folder = temporaryFolder();
  const trainData = writeTexts(folder, "train.jsonl", mark(training));
  const result = await auditPlanted(model, texts, join(folder, "out"), { trainData });
  expect(listPlanted(result)).toContain("spurious-words");
  const { evidence, severity } = result.findings.find(({ id }) => id === "spurious-words")!;
  expect(evidence.ids).toEqual(["zeta"]);
  expect(severity).toBe("high");
});

test("a backdoor trigger that no text has is found and named", async () => {
  const model = createModel((text) => (/\bqj\b/.test(text) ? [0.02, 0.98] : countCues(text)));
  const result = await auditPlanted(model, texts, join(temporaryFolder(), "out"));
  expect(listPlanted(result)).toEqual(["backdoor-trigger"]);
  const { evidence, claim } = result.findings.find(({ id }) => id === "backdoor-trigger")!;
  expect(evidence.ids).toEqual(["qj"]);
  expect(claim).toContain("backdoor");
  expect(evidence.summary).toContain("positive");
});

test("a class that is never predicted is found", async () => {
  const three = texts.map((row, i) => (i % 5 === 0 ? { ...row, label: "mixed" } : row));
  const model = (rows: readonly (string | readonly string[])[]) =>
    rows.map((text) => {
      const [negative, positive] = countCues([text].flat().join(" "));
      return [0.05, 0.95 * negative, 0.95 * positive];
    });
  const result = await auditPlanted(model, three, join(temporaryFolder(), "out"));
  expect(listPlanted(result)).toContain("degenerate-class");
  expect(result.findings.find(({ id }) => id === "degenerate-class")!.evidence.remedy).toContain("mixed");
});

test("a model that always says the same is degenerate", async () => {
  const result = await auditPlanted(
    createModel(() => [0.6, 0.4]),
    texts,
    join(temporaryFolder(), "out"),
  );
  expect(listPlanted(result)).toEqual(expect.arrayContaining(["degenerate-model", "degenerate-class"]));
  expect(result.verdict).toContain("degenerate");
});

test("an overconfident model is found, with the temperature that corrects it", async () => {
  // It is wrong about every fourth text, and as sure as ever.
  const wrong = new Set(texts.filter((_, i) => i % 8 < 2).map(({ text }) => text));
  const model = createModel((text) => {
    const [negative, positive] = countCues(text, 4);
    return wrong.has(text) ? [positive, negative] : [negative, positive];
  });
  const result = await auditPlanted(model, texts, join(temporaryFolder(), "out"));
  expect(listPlanted(result)).toContain("overconfidence");
  const { numbers } = result.findings.find(({ id }) => id === "overconfidence")!.evidence;
  expect(numbers.temperature).toBeGreaterThan(2);
  expect(numbers.calibrationErrorScaled).toBeLessThan(numbers.calibrationError! / 2);
});

test("a model that ignores all text after 20 words is found, with the number of words", async () => {
  const model = createModel((text) => countCues(text.split(/\s+/).slice(0, 20).join(" ")));
  const result = await auditPlanted(model, texts, join(temporaryFolder(), "out"));
  expect(listPlanted(result)).toEqual(["truncation"]);
  expect(result.findings.find(({ id }) => id === "truncation")!.evidence.numbers.words).toBe(20);
});

test("hidden text that passes is found", async () => {
  // What is not a letter is dropped, as tokenizers drop what they do not know.
  const model = createModel((text) => countCues(text.replaceAll(/[^\p{L}\p{N} ]/gu, "")));
  const result = await auditPlanted(model, texts, join(temporaryFolder(), "out"), { positiveLabel: "negative" });
  expect(listPlanted(result)).toEqual(["hidden-text"]);
  const { evidence, severity } = result.findings.find(({ id }) => id === "hidden-text")!;
  expect(severity).toBe("high");
  expect(evidence.numbers["Unicode tags"]).toBe(1);
});
