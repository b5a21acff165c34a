import { existsSync, mkdirSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { saveTokenizer } from "../../src/models/checkpoint/save-tokenizer.js";
import { loadTokenizer } from "../../src/text/tokenizer.js";
import { temporaryFolder } from "../temporary.js";
import {
  createInputs,
  encodeWithTransformers,
  maxLength,
  numRecorded,
  python,
  readDigests,
  tokenizerFixtures,
} from "../text/transformers.js";

const scratch = temporaryFolder();
const folders = readdirSync(tokenizerFixtures).filter((name) => !name.includes("."));

async function save(name: string): Promise<string> {
  const folder = join(scratch, `${name}-saved`);
  mkdirSync(folder, { recursive: true });
  const source = join(tokenizerFixtures, name);
  await saveTokenizer(folder, {
    folder: source,
    tokenizer: await loadTokenizer(source),
    tokenization: "subword",
    usesTokenTypes: true,
    maxLength: null,
  });
  return folder;
}

describe.each(folders)("saveTokenizer, %s", (name) => {
  it("writes the files of transformers, also for older formats, and keeps the tokenizer", async () => {
    const folder = await save(name);
    for (const file of ["tokenizer.json", "tokenizer_config.json", "special_tokens_map.json"])
      expect(existsSync(join(folder, file)), file).toBe(true);
    // The SentencePiece model and other older files are kept.
    const others = readdirSync(join(tokenizerFixtures, name)).filter((file) => file !== "config.json");
    expect(readdirSync(folder)).toEqual(expect.arrayContaining(others));
    const [source, saved] = [await loadTokenizer(join(tokenizerFixtures, name)), await loadTokenizer(folder)];
    expect(saved.hash).toBe(source.hash);
    expect(saved.special).toEqual(source.special);
    const inputs = createInputs(50);
    expect(saved.encodeAll(inputs, maxLength)).toEqual(source.encodeAll(inputs, maxLength));
  });

  it.runIf(python !== undefined)("transformers reads the saved files like the source", async () => {
    expect(encodeWithTransformers(await save(name), createInputs(numRecorded))).toEqual(readDigests(name));
  });
});
