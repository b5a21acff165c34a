import { execFileSync } from "node:child_process";
import { createHash } from "node:crypto";
import { readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { Rng } from "../../src/tensor/random.js";
import { loadTokenizer } from "../../src/text/tokenizer.js";
import { strangeText } from "./strange-texts.js";

const root = "tests/fixtures/tokenizers";
const folders = readdirSync(root).filter((name) => !name.includes("."));
const recordedPath = join(root, "digests.json");
const numRecorded = 200;
const maxLength = 24;
/** Compares 20,000 texts with transformers if this names a Python that has it. */
const python = process.env.TEMPER_CHECK_TOKENIZERS;

/** Returns single texts and pairs in turn. Lone surrogates do not exist in Python. */
function createInputs(count: number): string[][] {
  const rng = new Rng("transformers");
  const next = () => strangeText(rng).replace(/\p{Surrogate}/gu, "\ufffd");
  return Array.from({ length: count }, (_, index) => (index % 4 === 0 ? [next(), next()] : [next()]));
}

/**
 * Returns null for pairs of two long texts: this version of the package stops reading both at the
 * limit, so it does not know which one is longer and has to be truncated more.
 */
async function computeDigests(folder: string, inputs: readonly string[][]): Promise<(string | null)[]> {
  const tokenizer = await loadTokenizer(folder);
  const fast = tokenizer.encodeAll(inputs, maxLength);
  const singles = tokenizer.encodeAll(
    inputs.flatMap((texts) => texts.map((text) => [text])),
    2 * maxLength,
  );
  let end = 0;
  return inputs.map((texts, index) => {
    end += texts.length;
    const lengths = singles.slice(end - texts.length, end).map(({ ids }) => ids.length - 2);
    const { ids, tokenTypeIds, offsets } = tokenizer.encodeWithOffsets(texts, maxLength);
    // The tokens of cached parts are those of the complete text.
    expect([texts, Array.from(fast[index]!.ids)]).toEqual([texts, Array.from(ids)]);
    if (texts.length === 2 && Math.min(...lengths) >= maxLength - 4) return null;
    const content = JSON.stringify([Array.from(ids), Array.from(tokenTypeIds), offsets]);
    return createHash("sha256").update(content).digest("hex").slice(0, 8);
  });
}

describe.each(folders)("transformers, %s", (name) => {
  it(`${numRecorded} recorded texts and pairs have the same tokens, types and offsets`, async () => {
    const recorded = JSON.parse(readFileSync(recordedPath, "utf8"))[name];
    const found = await computeDigests(join(root, name), createInputs(numRecorded));
    expect(found.filter((digest) => digest === null).length).toBeLessThan(numRecorded / 8);
    expect(found).toEqual(recorded.map((digest: string, index: number) => found[index] && digest));
  });

  it.runIf(python !== undefined)("20,000 texts and pairs", { timeout: 600_000 }, async () => {
    const inputs = createInputs(Number(process.env.TEMPER_CHECK_COUNT ?? 20_000));
    const request = JSON.stringify({ folder: join(root, name), maxLength, inputs });
    const program = "scripts/fixtures/encode-with-transformers.py";
    const output = execFileSync(python!, [program], { input: request, encoding: "utf8", maxBuffer: 1 << 28 });
    const expected: string[] = JSON.parse(output);
    if (process.env.TEMPER_RECORD !== undefined) {
      const recorded = JSON.parse(readFileSync(recordedPath, "utf8"));
      recorded[name] = expected.slice(0, numRecorded);
      writeFileSync(recordedPath, `${JSON.stringify(recorded)}\n`);
    }
    const found = await computeDigests(join(root, name), inputs);
    const different = inputs.filter((_, index) => found[index] !== null && found[index] !== expected[index]);
    expect(different.slice(0, 3), `${different.length} of ${inputs.length} differ`).toEqual([]);
  });
});
