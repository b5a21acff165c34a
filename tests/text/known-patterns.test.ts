import { expect, test } from "vitest";
import { loadTokenizer } from "../../src/text/tokenizer.js";
import { changeTokenizer } from "./changed-tokenizer.js";

test("a tokenizer with a regular expression of its own is rejected, so that no text can end the process", async () => {
  const source = "tests/fixtures/tokenizers/deberta-v2";
  const hostile = { Regex: "(a+)+$" };
  const split = { type: "Split", pattern: hostile, behavior: "Isolated", invert: false };
  const replace = { type: "Replace", pattern: hostile, content: "" };
  for (const [i, changes] of [
    { pre_tokenizer: { type: "Sequence", pretokenizers: [split, { type: "BertPreTokenizer" }] } },
    { normalizer: { type: "Sequence", normalizers: [{ type: "Sequence", normalizers: [replace] }] } },
  ].entries()) {
    const model = changeTokenizer(String(i), source, (file) => Object.assign(file, changes));
    await expect(loadTokenizer(model)).rejects.toThrow("expected a regular expression of a known family");
  }
  await loadTokenizer(source);
});
