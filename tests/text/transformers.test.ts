import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { loadTokenizer } from "../../src/text/tokenizer.js";
import {
  createInputs,
  encodeWithTransformers,
  maxLength,
  numRecorded,
  python,
  readDigests,
  recordedPath,
  tokenizerFixtures,
} from "./transformers.js";

const folders = readdirSync(tokenizerFixtures).filter((name) => !name.includes("."));

const toDigest = (content: unknown): string =>
  createHash("sha256").update(JSON.stringify(content)).digest("hex").slice(0, 8);

async function computeDigests(folder: string, inputs: readonly string[][]): Promise<string[]> {
  const tokenizer = await loadTokenizer(folder);
  const fast = tokenizer.encodeAll(inputs, maxLength);
  return inputs.map((texts, index) => {
    const { ids, tokenTypeIds, offsets } = tokenizer.encodeWithOffsets(texts, maxLength);
    // The tokens of cached parts are those of the complete text.
    if (String(fast[index]!.ids) !== String(ids))
      expect([texts, Array.from(fast[index]!.ids)]).toEqual([texts, Array.from(ids)]);
    return toDigest([Array.from(ids), Array.from(tokenTypeIds), offsets]);
  });
}

function expectEqual(inputs: readonly string[][], found: readonly string[], expected: readonly string[]): void {
  const different = inputs.filter((_, index) => found[index] !== expected[index]);
  expect(different.slice(0, 3), `${different.length} of ${inputs.length} differ`).toEqual([]);
}

describe.each(folders)("transformers, %s", (name) => {
  const folder = join(tokenizerFixtures, name);

  it(`${numRecorded} recorded texts and pairs have the same tokens, types and offsets`, async () => {
    const inputs = createInputs(numRecorded);
    expectEqual(inputs, await computeDigests(folder, inputs), readDigests(name));
  });

  it.runIf(python !== undefined)("20,000 texts and pairs", async () => {
    const inputs = createInputs(20_000);
    const expected = encodeWithTransformers(folder, inputs);
    if (process.env.TEMPER_RECORD !== undefined) {
      const recorded = JSON.parse(readFileSync(recordedPath, "utf8"));
      recorded[name] = expected.slice(0, numRecorded);
      writeFileSync(recordedPath, `${JSON.stringify(recorded)}\n`);
    }
    expectEqual(inputs, await computeDigests(folder, inputs), expected);
  });
});
