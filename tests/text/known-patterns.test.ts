import { mkdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { loadTokenizer } from "../../src/text/tokenizer.js";
import { temporaryFolder } from "../temporary.js";

const folder = temporaryFolder();

test("a tokenizer with a regular expression of its own is rejected, so that no text can end the process", async () => {
  const source = "tests/fixtures/tokenizers/deberta-v2";
  const json = JSON.parse(readFileSync(join(source, "tokenizer.json"), "utf8"));
  const hostile = { Regex: "(a+)+$" };
  const split = { type: "Split", pattern: hostile, behavior: "Isolated", invert: false };
  const replace = { type: "Replace", pattern: hostile, content: "" };
  for (const [i, changes] of [
    { pre_tokenizer: { type: "Sequence", pretokenizers: [split, { type: "BertPreTokenizer" }] } },
    { normalizer: { type: "Sequence", normalizers: [{ type: "Sequence", normalizers: [replace] }] } },
  ].entries()) {
    const model = join(folder, String(i));
    mkdirSync(model);
    writeFileSync(join(model, "tokenizer.json"), JSON.stringify({ ...json, ...changes }));
    await expect(loadTokenizer(model)).rejects.toThrow("expected a regular expression of a known family");
  }
  await loadTokenizer(source);
});
